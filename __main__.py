"""A stack of this project: one lab, which `components/lab.py` wires, and its outputs."""

import asyncio

import pulumi

from components.lab import Outputs, wire


async def program() -> Outputs:
    """Returns the stack's outputs when all of them are known.

    Pulumi waits for whatever is left after the program. Whenever one Output becomes known, it looks
    at all the others, which takes most of the time of a first up of 1,024 hosts.
    """
    outputs = wire()
    waits = []
    for output in outputs.values():
        if isinstance(output, pulumi.Output):
            waits.append(asyncio.ensure_future(output.future()))
    # Pulumi reports what failed
    await asyncio.wait(waits, return_when=asyncio.FIRST_EXCEPTION)
    return outputs


pulumi.run(program)

"""Runs the tests of one node alone, all nodes at once. Whatever happens is a result."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from components.physics.pcie import pcie_link
from components.ssh.connection import NoAnswerError
from components.validation import Say
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import Sides
from components.validation.benchmarks.verbs.hosts import answer
from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.run import Bench, BusyError, NoResultError, as_raw
from components.validation.records import GpuCopy, Loopback, NodesAlone, Outcome
from stacks.base import LabError
from stacks.words import plural

FOLDER = "alone"
COPY_VERB = "gpu-copy"


async def measure_alone(bench: Bench, say: Say) -> NodesAlone:
    """Every node of the plan that is tested alone: its NICs one after another, then its GPUs."""
    done = await asyncio.gather(*(_node(bench, name) for name in bench.plan.alone))
    alone = NodesAlone(
        loopbacks=tuple(chain.from_iterable(loopbacks for loopbacks, _ in done)),
        copies=tuple(chain.from_iterable(copies for _, copies in done)),
    )
    parts: tuple[Loopback | GpuCopy, ...] = (*alone.loopbacks, *alone.copies)
    bad = []
    for part in parts:
        if part.outcome != "measured":
            bad.append(f"{part.place} {part.outcome}")
    counts = f"{plural(len(alone.loopbacks), 'NIC')}, {plural(len(alone.copies), 'GPU')}"
    say(f"node_alone: {'; '.join([counts, *bad[:3]])}")
    return alone


def alone_without_a_run(plan: Plan, outcome: Outcome, reason: str) -> NodesAlone | None:
    """The result of a run that could not be made."""
    if not plan.alone:
        return None
    loopbacks = []
    for node in plan.alone:
        for rail in plan.rails_of(node):
            loopbacks.append(Loopback(node=node, rail=rail, outcome=outcome, reason=reason))
    return NodesAlone(loopbacks=tuple(loopbacks))


async def _node(bench: Bench, node: str) -> tuple[list[Loopback], list[GpuCopy]]:
    loopbacks = []
    for rail in bench.plan.rails_of(node):
        loopbacks.append(await _loopback(bench, node, rail))
    copies: list[GpuCopy] = []
    if node in bench.ports and bench.ports[node].nearest_gpu:
        copies = [*await _copies(bench, node)]
    return loopbacks, copies


async def _loopback(bench: Bench, node: str, rail: str) -> Loopback:
    """The port writes to itself from host memory, then from the memory of the nearest GPU."""
    result = Loopback(node=node, rail=rail, outcome="error")
    stage = bench.plan.verbs.stages[0].replace(repeats=1)
    transfer = Transfer(rail=rail, client=node, server=node, port=bench.plan.verbs.first_port)
    name = f"{FOLDER}/{rail}/{node}"
    try:
        client, server = bench.sides_of(stage, transfer)
        sides = (client, replace(server, connects=False))
        ports = bench.ports[node]
        device = client.end.device
        known = {
            "line_rate_gbit_s": ports.line_rate_gbit_s.get(device),
            "pcie_gbit_s": ports.pcie_gbit_s(device),
            "raw": f"{name}.client",
        }
        result = result.replace(**known)
        reading = await bench.once(stage, sides, name)
    except (BusyError, NoResultError, NoAnswerError) as error:
        return result.replace(reason=str(error))
    except LabError as error:
        return result.replace(outcome="failed", reason=str(error))
    faults = "; ".join(reading.faults)
    if faults:
        return result.replace(outcome="failed", reason=faults)
    result = result.replace(outcome="measured", gbit_s=reading.value)
    if device not in ports.nearest_gpu:
        return result
    return result.replace(**(await _of_gpu(bench, stage, sides, name)))


async def _of_gpu(bench: Bench, stage: Stage, sides: Sides, name: str) -> dict[str, object]:
    end = sides[0].end
    nearest = bench.ports[end.node].nearest_gpu[end.device]
    known: dict[str, object] = {"gpu": nearest.address, "far": nearest.far}
    try:
        words = bench.ports[end.node].gpu_words(end)
        client, server = (replace(side, gpu=words) for side in sides)
        reading = await bench.once(stage, (client, server), f"{name}.gpu")
    except LabError as error:
        return {**known, "gpu_reason": str(error)}
    return {**known, "gpu_gbit_s": reading.value, "gpu_reason": "; ".join(reading.faults)}


async def _copies(bench: Bench, node: str) -> Iterator[GpuCopy]:
    try:
        done = await answer(bench.connections[node], COPY_VERB)
    except LabError as error:
        return iter([GpuCopy(node=node, gpu="", outcome="error", reason=str(error))])
    bench.raw[f"{FOLDER}/{node}.gpus"] = as_raw(["host.pyz", COPY_VERB], done)
    return copies_of(node, done.out)


def copies_of(node: str, text: str) -> Iterator[GpuCopy]:
    """Reads what the host program printed."""
    try:
        document = json.loads(text)
        reason = str(document.get("failed", ""))
        gpus = dict(document.get("gpus", {}))
    except (ValueError, AttributeError, TypeError):
        reason, gpus = f"it printed {text[:80]!r}", {}
    if reason:
        yield GpuCopy(node=node, gpu="", outcome="error", reason=reason)
    for address, read in gpus.items():
        yield _copy_of(node, address, read)


def _copy_of(node: str, address: str, read: Mapping[str, object]) -> GpuCopy:
    if "failed" in read:
        return GpuCopy(node=node, gpu=address, outcome="failed", reason=str(read["failed"]))
    link = pcie_link(str(read.get("link_speed", "")), str(read.get("link_width", "")))
    ceiling = None
    if link:
        ceiling = round(link.payload_gbit_s() / 8, 2)
    return GpuCopy.model_validate(
        {
            "node": node,
            "gpu": address,
            "outcome": "measured",
            "to_gpu_gbyte_s": read.get("to_gpu"),
            "to_host_gbyte_s": read.get("to_host"),
            "ceiling_gbyte_s": ceiling,
        }
    )

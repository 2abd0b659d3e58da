"""`rocelab bitfusion`."""

import asyncio
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import click

from components.cli.exits import Exit, ended, exit_of
from components.cli.options import json_option, show, stack_options, verb
from components.ssh.credentials import login_to
from components.stack import Stack
from components.validation.bitfusion import (
    GOOD,
    IN_IMAGE,
    BitfusionCheck,
    checks,
    over_ssh,
    placed,
    prove,
)
from components.validation.by_hand import Screen, until_told


@verb("rocelab bitfusion --stack bitfusion --plan", "rocelab bitfusion --stack bitfusion")
@stack_options
@click.option("--plan", is_flag=True, help="Print the commands of both ends, and run nothing.")
@click.option(
    "--inside",
    default="",
    metavar="WORDS",
    help="Prefix of the sample's command, if only an image has it. The guide's: --inside "
    f"'{IN_IMAGE} IMAGE'.",
)
@click.option(
    "--wait-s",
    type=float,
    default=120,
    show_default=True,
    metavar="S",
    help="Seconds each measurement waits for the server to listen.",
)
@json_option
def command(stack: Stack, plan: bool, inside: str, wait_s: float, as_json: bool) -> Exit:
    """Prove that each Bitfusion client works with each server.

    On each client it runs a sample on a GPU of each server, and measures latency and bandwidth.
    Servers are appliances: when a command for the server is printed, run it there yourself.

    It fails when a sample does not run, a latency is above its limit, or nothing listens on a
    server. A simulated lab is not rated. Not tested against the product, which VMware has
    discontinued.
    """
    lab = stack.lab()
    planned = checks(lab)
    if plan:
        show(_described(planned), [asdict(check) for check in planned], as_json=as_json)
        return Exit.CLEAN
    login = login_to(lab, stack.root, stack.secret)
    placed_checks = [placed(check, shlex.split(inside)) for check in planned]
    with ended("the programs on the clients were stopped"), Screen() as screen:
        work = prove(
            placed_checks,
            partial(over_ssh, login),
            screen.say,
            wait_s=wait_s,
            simulated=lab.simulated,
        )
        proofs = asyncio.run(until_told(work))
    counted = Counter(proof.state for proof in proofs)
    lines = [proof.line() for proof in proofs]
    lines.append(", ".join(f"{count} {state}" for state, count in sorted(counted.items())))
    show("\n".join(lines), [asdict(proof) for proof in proofs], as_json=as_json)
    return exit_of(findings=bool(set(counted) - GOOD - {"error"}), unreached="error" in counted)


def _described(planned: Sequence[BitfusionCheck]) -> str:
    lines = []
    for check in planned:
        if check.server_words:
            lines.append(f"{check.server}: {shlex.join(check.server_words)}")
        line = f"{check.client}: {shlex.join(check.words)}"
        if check.latency_max_us:
            line += f"   # typical latency at most {check.latency_max_us:g} us"
        lines.append(line)
    return "\n".join(lines)

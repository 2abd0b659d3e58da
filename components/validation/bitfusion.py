"""What proves a lab's Bitfusion clients, run and judged: a sample on a GPU of each server, latency
and bandwidth.

It runs by hand and enters no verdict: the product's servers are appliances that only their owner
logs in to, and ib_send_lat and ib_send_bw want their other end there. Never run against the
product, which VMware has ended.
"""

import asyncio
import shlex
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Literal

from components.ssh.connection import connected
from components.ssh.credentials import Login
from components.ssh.session import CommandResult, run
from components.validation import Say
from components.validation.benchmarks.verbs.commands import LATE, bounded
from components.validation.benchmarks.verbs.perftest import cause_of, parse_bandwidth, parse_latency
from components.validation.parsers import ResultFormatError
from stacks.base import LabError
from stacks.bitfusion import way_to
from stacks.frozen import frozen
from stacks.guests import BitfusionClient
from stacks.lab import Lab
from stacks.nodes import Pf

IN_IMAGE = (
    "sudo docker run --rm -u root --ipc=host --privileged --net=host --cap-add=IPC_LOCK --pid=host"
)
"""How the Bitfusion article starts the repaired image, without its -it, because there is no
terminal.

The PVRDMA device uses the VM's own network addresses and /dev/infiniband.
"""
Proves = Literal["end-proof", "latency", "bandwidth"]
PROOF_S = 600
"""A first run loads the sample's libraries from the image."""
PERFTEST_S = 180
"""5,000 messages over soft-RoCE took more than a minute on a busy emulated host."""
MARGIN_S = 15
AGAIN_S = 2
UNHEARD = "Couldn't connect to"
"""perftest says so while nothing listens on the server."""

State = Literal["pass", "fail", "skip", "error", "not rated"]
GOOD: set[State] = {"pass", "not rated"}
Program = Callable[[str, Sequence[str], int], Awaitable[CommandResult]]


@frozen
class BitfusionCheck:
    """One command on a client, its counterpart on the server, and its limit."""

    name: Proves
    client: str
    server: str
    words: tuple[str, ...]
    server_words: tuple[str, ...] = ()
    latency_max_us: float | None = None


def checks(lab: Lab) -> tuple[BitfusionCheck, ...]:
    """Sample, latency and bandwidth for each client on each server.

    Raises:
        LabError: when the lab has no clients.
    """
    section = lab.bitfusion_client
    if section is None:
        raise LabError("bitfusion_client: missing; this lab has no node that borrows GPUs")
    clients = [node for node in lab.active_nodes if node.name in section.nodes]
    ways = (
        (node.name, way_to(server, node)) for node in clients for server in lab.bitfusion_addresses
    )
    return tuple(check for client, way in ways if way for check in _between(client, *way, section))


def _between(
    client: str, pf: Pf, address: IPv4Address, section: BitfusionClient
) -> Iterator[BitfusionCheck]:
    """One client and one server. Without -d, perftest would use the first device, on any rail."""
    server = str(address)
    yield BitfusionCheck(
        name="end-proof",
        client=client,
        server=server,
        words=("bitfusion", "run", "-n", "1", "-l", server, "--", section.sample),
    )
    # -F: ignore the CPU frequency, which means nothing in a VM
    yield BitfusionCheck(
        name="latency",
        client=client,
        server=server,
        words=("ib_send_lat", "-d", pf.rdma_device, "-F", "-n", "5000", server),
        server_words=("ib_send_lat", "-F", "-n", "5000"),
        latency_max_us=section.latency_max_us,
    )
    yield BitfusionCheck(
        name="bandwidth",
        client=client,
        server=server,
        words=("ib_send_bw", "-d", pf.rdma_device, "-F", "--report_gbits", server),
        server_words=("ib_send_bw", "-F", "--report_gbits"),
    )


@frozen
class Proof:
    """The result of one check."""

    check: BitfusionCheck
    state: State
    text: str

    def line(self) -> str:
        """The printed line."""
        return (
            f"{self.check.client}  {self.check.server}  {self.check.name}  {self.state}  "
            f"{self.text}"
        )


async def prove(
    planned: Sequence[BitfusionCheck], program: Program, say: Say, *, wait_s: float, simulated: bool
) -> list[Proof]:
    """Runs the checks one after another: two clients at once would measure each other.

    Args:
        planned: what to run.
        program: runs words on a client.
        say: receives what each server must run, and each result.
        wait_s: how long a measurement waits for its other end.
        simulated: a latency there says nothing about the product's limit.
    """
    proofs = []
    for check in planned:
        try:
            if check.name == "end-proof":
                proofs.append(_ended(check, await program(check.client, check.words, PROOF_S)))
            else:
                proofs.append(await _measured(check, program, say, wait_s, simulated=simulated))
        except LabError as error:
            proofs.append(Proof(check=check, state="error", text=str(error)))
        say(proofs[-1].line())
    return proofs


def _ended(check: BitfusionCheck, done: CommandResult) -> Proof:
    if done.code == 0:
        return Proof(check=check, state="pass", text="ran on a GPU of the server")
    if done.code == LATE:
        how = "did not end in time"
    else:
        how = f"exit {done.code}"
    return Proof(check=check, state="fail", text=f"{shlex.join(check.words)}: {how}; {_last(done)}")


async def _measured(
    check: BitfusionCheck, program: Program, say: Say, wait_s: float, *, simulated: bool
) -> Proof:
    say(
        f"{check.client}  {check.server}  {check.name}  wants there: "
        f"{shlex.join(check.server_words)}"
    )
    until = time.monotonic() + wait_s
    done = await program(check.client, check.words, PERFTEST_S)
    while UNHEARD in done.out + done.err and time.monotonic() < until:
        await asyncio.sleep(AGAIN_S)
        done = await program(check.client, check.words, PERFTEST_S)
    if UNHEARD in done.out + done.err:
        return Proof(
            check=check, state="skip", text=f"nothing listened on {check.server} for {wait_s:.0f} s"
        )
    if done.code != 0:
        why = cause_of(done.out + done.err) or _last(done)
        return Proof(check=check, state="fail", text=f"exit {done.code}: {why}")
    return judged(check, done.out, simulated=simulated)


def judged(check: BitfusionCheck, text: str, *, simulated: bool) -> Proof:
    """Judges a client's output: the largest typical latency against the limit, or the bandwidth,
    which has none.
    """
    good = True
    try:
        if check.name == "bandwidth":
            # the Bitfusion article wants a report of both ends, and names no limit
            average_gbit_s = min(row.value for row in parse_bandwidth(text).rows)
            shown = f"{average_gbit_s:.2f} Gbit/s on average, and no limit"
        else:
            value_us = max(row.value for row in parse_latency(text).rows)
            shown = f"{value_us:.2f} us, at most {check.latency_max_us:g}"
            good = value_us <= (check.latency_max_us or 0)
    except ResultFormatError as error:
        return Proof(
            check=check, state="error", text=f"{check.words[0]} printed no result: {error}"
        )
    if simulated:
        return Proof(check=check, state="not rated", text=f"{shown} (simulated)")
    state: State = "pass" if good else "fail"
    return Proof(check=check, state=state, text=shown)


def _last(done: CommandResult) -> str:
    lines = []
    for line in (done.out + done.err).splitlines():
        if line.strip():
            lines.append(line.strip())
    return lines[-1][:160] if lines else "it printed nothing"


async def over_ssh(login: Login, client: str, words: Sequence[str], limit_s: int) -> CommandResult:
    """Runs words on a client of the lab."""
    async with connected(login.endpoints[client], login.keys, name=client) as connection:
        return await run(connection, bounded(words, limit_s), limit_s + MARGIN_S)


def placed(check: BitfusionCheck, inside: Sequence[str]) -> BitfusionCheck:
    """The sample inside of what has it; what is measured is the client's own."""
    if check.name == "end-proof":
        return replace(check, words=(*inside, *check.words))
    return check

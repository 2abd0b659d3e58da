"""Checks the port matrix: tries each connection from where it must be open."""

import asyncio
import json
import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from components.finding import Finding
from components.ports import connect
from components.ports.matrix import port_matrix
from components.ports.targets import HERE, Place, Probe, Unproven, probes, server_of
from components.ssh.connection import Endpoint, Keys, NoAnswerError, connected
from components.ssh.credentials import Setting, kubeconfig, login_to
from components.ssh.session import feed
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.words import some

ANSWER_S = 120
SOURCES_AT_ONCE = 64
"""Nodes that try connections at the same time; each has some dozens."""
MOST_LINES = 24
"""Good connections of a row that are listed one by one; of more, only their number."""
MOST_NAMES = 8
UNASKED = "not asked"
NOT_TESTED = "port-not-tested"
"""Code of the findings of machines that could not be reached."""
COMMAND = f"exec python3 -I -c {shlex.quote(Path(connect.__file__).read_text())}"


@frozen
class Answer:
    """How a connection ended."""

    probe: Probe
    result: str

    @property
    def summary(self) -> str:
        """The result in words, if nothing is wrong."""
        if self.result == connect.REFUSED:
            return "reachable, nothing listens now"
        return self.result


async def tried(
    probes: Sequence[Probe], endpoints: Mapping[str, Endpoint], keys: Keys
) -> list[Answer]:
    """Tries all connections, from all machines at once."""
    by_source: dict[str, list[Probe]] = defaultdict(list)
    for probe in probes:
        by_source[probe.source].append(probe)
    places = asyncio.Semaphore(SOURCES_AT_ONCE)

    async def results_from(source: str) -> list[str]:
        ways = []
        for probe in by_source[source]:
            ways.append((probe.address, probe.port))
        if source == HERE:
            return await connect.results(ways)
        async with places:
            return await _results_on(source, endpoints[source], keys, ways)

    results = await asyncio.gather(*map(results_from, by_source))
    in_turn = dict(zip(by_source, map(iter, results), strict=True))
    return [Answer(probe=probe, result=next(in_turn[probe.source])) for probe in probes]


async def _results_on(
    source: str, endpoint: Endpoint, keys: Keys, ways: list[tuple[str, int]]
) -> list[str]:
    """Tries the connections from a node; one that cannot be reached gives that reason for each."""
    try:
        async with asyncio.timeout(ANSWER_S), connected(endpoint, keys, name=source) as connection:
            done = await feed(connection, COMMAND, json.dumps(ways).encode())
        results = json.loads(done.out)
    except NoAnswerError as error:
        return [f"{UNASKED}: {error}"] * len(ways)
    except TimeoutError:
        return [f"{UNASKED}: {source} did not answer within {ANSWER_S} s"] * len(ways)
    except ValueError:
        last = (done.err.strip().splitlines() or ["nothing"])[-1][:160]
        return [f"{UNASKED}: {source} said {last}"] * len(ways)
    return [str(result) for result in results]


def faults(answers: Sequence[Answer]) -> list[Finding]:
    """From, to and port of each fault. Machines with the same fault share a finding."""
    alike: dict[tuple[WayFault, str], list[str]] = defaultdict(list)
    for answer in answers:
        fault = _fault_of(answer)
        if fault is None:
            continue
        probe, row = answer.probe, answer.probe.row
        source = probe.source or "here"
        target = f"{probe.target} {row.protocol} {probe.port} ({row.why})"
        if fault.code == NOT_TESTED:
            alike[fault, source].append(target)
        else:
            alike[fault, target].append(source)
    findings = []
    for (fault, end), others in alike.items():
        where = f"{some(others, MOST_NAMES)} -> {end}"
        if fault.code == NOT_TESTED:
            where = f"{end} -> {some(others, 3)}"
        findings.append(Finding(where=where, **fault._asdict()))
    return findings


class WayFault(NamedTuple):
    """A finding without its place."""

    code: str
    evidence: str
    hint: str = ""


def _fault_of(answer: Answer) -> WayFault | None:
    probe, result = answer.probe, answer.result
    if result.startswith(UNASKED):
        return WayFault(NOT_TESTED, result)
    if result.startswith(connect.SILENT):
        hint = f"open it in the firewalls on the path, including that of {probe.address}"
        return WayFault("port-blocked", result, hint)
    if result == connect.REFUSED and probe.row.listens == "always":
        evidence = "nothing listens, or a firewall rejects it"
        return WayFault("port-refused", evidence, "check that the service runs")
    if result not in (connect.OPEN, connect.REFUSED):
        return WayFault("port-closed", result)
    return None


def table(answers: Sequence[Answer], left: Sequence[Unproven]) -> str:
    """All results, and the rows that cannot be checked with the reason."""
    lines = []
    for row, group in groupby(answers, key=lambda answer: answer.probe.row):
        of_row = list(group)
        faulty = [answer for answer in of_row if _fault_of(answer)]
        if len(of_row) <= MOST_LINES:
            listed = of_row
        else:
            listed = faulty[:MOST_LINES]
        for answer in listed:
            source = answer.probe.source or "here"
            way = f"{source} -> {answer.probe.target} {row.protocol} {answer.probe.port}"
            lines.append(f"{way}: {answer.summary}")
        if len(of_row) > MOST_LINES:
            good = len(of_row) - len(faulty)
            lines.append(f"{row}: {good} of {len(of_row)} connections are as expected")
    for unproven in left:
        lines.append(f"{unproven.row}: not checkable: {unproven.why}")
    return "\n".join(lines) + "\n"


@frozen
class Trial:
    """The results of `try_all`."""

    answers: list[Answer]
    left: list[Unproven]
    unreached: bool
    """The kubeconfig could not be read."""


def try_all(lab: Lab, root: Path, setting: Setting) -> Trial:
    """Tries all connections of a lab's port matrix.

    Raises:
        LabError: when a key is missing.
    """
    login = login_to(lab, root, setting)
    api, api_unread = _api(lab, setting, root)
    some, left = probes(lab, api)
    answers = asyncio.run(tried(some, login.endpoints, login.keys))
    return Trial(answers=answers, left=left, unreached=api_unread)


def _api(lab: Lab, setting: Setting, root: Path) -> tuple[Place | str, bool]:
    """Address of an API server outside the lab or why it is unknown; whether that is a fault."""
    if not any("api" in (row.source, row.target) for row in port_matrix(lab)):
        return "", False
    try:
        return server_of(kubeconfig(lab, setting, root) or ""), False
    except LabError as error:
        return f"{error}", True

"""Checks the port matrix: tries each connection from where it must be open, and asks the vCenter."""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from components.ports import connect
from components.ports.matrix import port_matrix
from components.ports.targets import HERE, Place, Probe, Unproven, probes, server_of
from components.ssh.connection import Endpoint, Keys, NoAnswerError, connected
from components.ssh.credentials import Setting, kubeconfig, login_to
from components.ssh.session import feed
from stacks.base import LabError
from stacks.lab import Lab
from stacks.words import some

ANSWER_S = 120
SOURCES_AT_ONCE = 64
"""Nodes that try connections at the same time; each has some dozens."""
MOST_LINES = 24
"""Good connections of a row that are listed one by one; of more, only their number."""
MOST_NAMES = 8
UNASKED = "not asked"
COMMAND = f"exec python3 -I -c {shlex.quote(Path(connect.__file__).read_text())}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a connection ended."""

    probe: Probe
    said: str
    how: str = ""
    """What shows that it is open, if no connection does."""

    @property
    def summary(self) -> str:
        """The result in words, if nothing is wrong."""
        if self.said == connect.REFUSED:
            return "reachable, nothing listens now"
        return f"{self.said} ({self.how})" if self.how and self.said == connect.OPEN else self.said


async def tried(probes: Sequence[Probe], endpoints: Mapping[str, Endpoint], keys: Keys) -> list[Answer]:
    """Tries all connections, from all machines at once."""
    by_source = {
        source: list(ours)
        for source, ours in groupby(sorted(probes, key=lambda probe: probe.source), key=lambda probe: probe.source)
    }
    places = asyncio.Semaphore(SOURCES_AT_ONCE)

    async def asked(source: str, ours: list[Probe]) -> list[Answer]:
        async with places:
            return await _from(source, ours, endpoints, keys)

    found = await asyncio.gather(*(asked(source, ours) for source, ours in by_source.items()))
    answers = {id(answer.probe): answer for ours in found for answer in ours}
    return [answers[id(probe)] for probe in probes]


async def _from(source: str, ours: list[Probe], endpoints: Mapping[str, Endpoint], keys: Keys) -> list[Answer]:
    asked = [(probe.address, probe.port) for probe in ours]
    if source == HERE:
        said = await connect.each(asked)
    else:
        said = await _on(source, endpoints[source], keys, asked)
    return [Answer(probe=probe, said=text) for probe, text in zip(ours, said, strict=True)]


async def _on(source: str, endpoint: Endpoint, keys: Keys, asked: list[tuple[str, int]]) -> list[str]:
    """Tries the connections from a node; one that cannot be reached gives that reason for each."""
    try:
        async with asyncio.timeout(ANSWER_S), connected(endpoint, keys, name=source) as connection:
            done = await feed(connection, COMMAND, json.dumps(asked).encode())
        said = json.loads(done.out)
    except NoAnswerError as error:
        return [f"{UNASKED}: {error}"] * len(asked)
    except TimeoutError:
        return [f"{UNASKED}: {source} did not answer within {ANSWER_S} s"] * len(asked)
    except ValueError:
        last = (done.err.strip().splitlines() or ["nothing"])[-1][:160]
        return [f"{UNASKED}: {source} said {last}"] * len(asked)
    return [str(text) for text in said]


def faults(answers: Sequence[Answer]) -> list[str]:
    """A line per fault: from, to, port, result and remedy. Machines with the same fault share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for answer in answers:
        if why := _wrong(answer):
            probe, row = answer.probe, answer.probe.row
            source = probe.source or "here"
            to = f"{probe.target} {row.protocol} {probe.ports} ({row.why})"
            if answer.said.startswith(UNASKED):
                alike.setdefault((source, why), []).append(to)
            else:
                alike.setdefault((to, why), []).append(source)
    return [
        f"{key} -> {some(others, 3)}: {why}"
        if why.startswith(UNASKED)
        else f"{some(others, MOST_NAMES)} -> {key}: {why}"
        for (key, why), others in alike.items()
    ]


def unasked(answers: Sequence[Answer]) -> list[str]:
    """The faults of machines that could not be reached."""
    return faults([answer for answer in answers if answer.said.startswith(UNASKED)])


def _wrong(answer: Answer) -> str:
    """What is wrong and how to fix it; empty when nothing is."""
    probe, said = answer.probe, answer.said
    if said.startswith(connect.SILENT):
        return f"{said}; open it in the firewalls on the path, including that of {probe.address}"
    if said == connect.REFUSED and probe.row.listens == "always":
        return "nothing listens, or a firewall rejects it; check that the service runs"
    return said if said not in (connect.OPEN, connect.REFUSED) else ""


def table(answers: Sequence[Answer], left: Sequence[Unproven]) -> str:
    """All results, and the rows that cannot be checked with the reason."""
    lines = []
    for row, group in groupby(answers, key=lambda answer: answer.probe.row):
        ours = list(group)
        summary = [one for one in ours if len(ours) <= MOST_LINES or _wrong(one)]
        lines += [
            f"{one.probe.source or 'here'} -> {one.probe.target} {row.protocol} {one.probe.ports}: {one.summary}"
            for one in summary[:MOST_LINES]
        ]
        if len(ours) > MOST_LINES:
            good = sum(not _wrong(one) for one in ours)
            lines.append(f"{row}: {good} of {len(ours)} connections are as expected")
    lines += [f"{one.row}: not checkable: {one.why}" for one in left]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The results of `try_all`."""

    answers: list[Answer]
    left: list[Unproven]
    unreached: bool
    """The kubeconfig could not be read, or the vCenter could not be reached."""


def try_all(lab: Lab, root: Path, setting: Setting) -> Trial:
    """Tries all connections of a lab's port matrix.

    Raises:
        LabError: when a key is missing.
    """
    login = login_to(lab, root, setting)
    api, api_unread = _api(lab, setting, root)
    some, left = probes(lab, api)
    hosts, left, vcenter_unreached = _of_hosts(lab, setting, root, left)
    answers = [*hosts, *asyncio.run(tried(some, login.endpoints, login.keys))]
    return Trial(answers=answers, left=left, unreached=api_unread or vcenter_unreached)


def _api(lab: Lab, setting: Setting, root: Path) -> tuple[Place | str, bool]:
    """Address of an API server outside the lab, or why it is unknown; and whether that is a fault."""
    if not any("api" in (row.source, row.target) for row in port_matrix(lab)):
        return "", False
    try:
        return server_of(kubeconfig(lab, setting, root) or ""), False
    except LabError as error:
        return f"{error}", True


def _of_hosts(
    lab: Lab, setting: Setting, root: Path, left: list[Unproven]
) -> tuple[list[Answer], list[Unproven], bool]:
    """What ESXi hosts and vCenter report, the rows that remain unproven, and whether the vCenter did not answer."""
    if lab.fabric is None:
        return [], left, False
    from components.fabric.vcenter.client import session  # noqa: PLC0415  # pyVmomi takes a second: for this alone
    from components.fabric.vcenter.session import endpoint_of  # noqa: PLC0415
    from components.ports.esxi import ASKED, asked  # noqa: PLC0415

    try:
        with session(endpoint_of(lab.fabric, setting, root)) as vcenter:
            answers = asked(lab, lab.fabric, vcenter)
    except LabError as error:
        whys = [f"{error}" if one.row.way in ASKED else one.why for one in left]
        return [], [replace(one, why=why) for one, why in zip(left, whys, strict=True)], True
    proven = {answer.probe.row for answer in answers}
    return answers, [one for one in left if one.row not in proven], False

"""Tries every way of the port matrix that a connection can prove, from where it has to be open."""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from components.ports import connect
from components.ports.targets import HERE, Probe, Unproven
from components.ssh.connection import Endpoint, Keys, NoAnswerError, connected
from components.ssh.session import feed

ANSWER_S = 120
COMMAND = f"exec python3 -I -c {shlex.quote(Path(connect.__file__).read_text())}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """How a connection ended."""

    probe: Probe
    said: str


async def tried(probes: Sequence[Probe], endpoints: Mapping[str, Endpoint], keys: Keys) -> list[Answer]:
    """All connections, from all machines at once."""
    by_source = {
        source: list(some)
        for source, some in groupby(sorted(probes, key=lambda probe: probe.source), key=lambda probe: probe.source)
    }
    found = await asyncio.gather(*(_from(source, some, endpoints, keys) for source, some in by_source.items()))
    answers = {id(answer.probe): answer for some in found for answer in some}
    return [answers[id(probe)] for probe in probes]


async def _from(source: str, some: list[Probe], endpoints: Mapping[str, Endpoint], keys: Keys) -> list[Answer]:
    asked = [(probe.address, probe.port) for probe in some]
    if source == HERE:
        said = await connect.each(asked)
    else:
        said = await _on(source, endpoints[source], keys, asked)
    return [Answer(probe=probe, said=text) for probe, text in zip(some, said, strict=True)]


async def _on(source: str, endpoint: Endpoint, keys: Keys, asked: list[tuple[str, int]]) -> list[str]:
    """The same on a node; one that cannot be asked says so for each of them."""
    try:
        async with asyncio.timeout(ANSWER_S), connected(endpoint, keys, name=source) as connection:
            done = await feed(connection, COMMAND, json.dumps(asked).encode())
        said = json.loads(done.out)
    except NoAnswerError as error:
        return [f"not asked: {error}"] * len(asked)
    except TimeoutError:
        return [f"not asked: {source} gave no answer within {ANSWER_S} s"] * len(asked)
    except ValueError:
        last = (done.err.strip().splitlines() or ["nothing"])[-1][:160]
        return [f"not asked: {source} said {last}"] * len(asked)
    return [str(text) for text in said]


def faults(answers: Sequence[Answer]) -> list[str]:
    """A line for each way that is not as it has to be: from, to, port, what was found, and what to do."""
    lines = []
    for answer in answers:
        probe, row = answer.probe, answer.probe.row
        source = probe.source or "here"
        where = f"{source} -> {probe.target} {row.protocol} {probe.port} ({row.why})"
        if answer.said.startswith(connect.SILENT):
            lines.append(f"{where}: {answer.said}: open it in the firewalls on the way, {probe.address} included")
        elif answer.said == connect.REFUSED and row.listens == "always":
            lines.append(f"{where}: nothing listens, or a firewall refuses: is the service up?")
        elif answer.said not in (connect.OPEN, connect.REFUSED):
            lines.append(f"{where}: {answer.said}")
    return lines


def table(answers: Sequence[Answer], left: Sequence[Unproven]) -> str:
    """Everything that was tried, and what was not with the reason."""
    words = {connect.REFUSED: "reachable, nothing listens now"}
    lines = [
        f"{answer.probe.source or 'here'} -> {answer.probe.target} tcp {answer.probe.port}: "
        f"{words.get(answer.said, answer.said)}"
        for answer in answers
    ]
    lines += [
        f"{one.row.source} -> {one.row.target} {one.row.protocol} {one.row.ports}: not checkable: {one.why}"
        for one in left
    ]
    return "\n".join(lines) + "\n"

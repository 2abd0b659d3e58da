"""The raw outputs behind the numbers: their names, digests and commands, and which transfer each belongs to. Pure."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from components.validation.records import TransferResult

PROMPT = "$ "
"""A raw output begins with the command that made it, behind this."""
REPETITION = re.compile(r"retest-(\d+)/(.+)")
"""Output of a transfer that was measured again with less beside it: when, and the name of its first output."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RawFile:
    """One output in a run's bundle."""

    name: str
    size_bytes: int
    sha256: str
    command: str
    """Empty when the output does not say."""


def raw_files(outputs: Iterable[tuple[str, str]]) -> tuple[RawFile, ...]:
    """What lies in a bundle, by name."""
    return tuple(sorted((_file(name, text) for name, text in outputs), key=lambda file: file.name))


def _file(name: str, text: str) -> RawFile:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    return RawFile(name=name, size_bytes=len(data), sha256=digest, command=command_in(text))


def command_in(text: str) -> str:
    """The command that an output names in one of its first lines."""
    lines = text[:2000].splitlines()[:3]
    return next((line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)), "")


def names_again(transfers: Iterable[TransferResult], known: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The outputs of repetitions, by the first output of the transfer that they repeat.

    Only of transfers of which every repetition gave a value and has its output: of others nothing can be worked out.
    """
    found: dict[str, list[str]] = {}
    for match in filter(None, map(REPETITION.fullmatch, known)):
        found.setdefault(match[2], []).append(match[0])
    return {
        transfer.raw[0]: tuple(sorted(names))
        for transfer in transfers
        if transfer.raw and all(transfer.retest) and (names := found.get(transfer.raw[0]))
        if len(names) == len(transfer.retest)
    }

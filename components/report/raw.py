"""The raw outputs behind the numbers: their names, digests and commands, and which transfer each belongs to. Pure."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from components.validation.records import RunRecord, TransferResult

PROMPT = "$ "
"""A raw output begins with the command that made it, behind this."""
NCCL_LOG = "nccl_all_reduce.log"


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


def names_of(transfer: TransferResult, known: Collection[str]) -> tuple[str, ...]:
    """The outputs that a transfer's values were read from, one a repeat.

    A record of before they were named in it has them where the runner puts them.
    """
    if transfer.raw:
        return transfer.raw
    stem = f"{transfer.rail}/{transfer.client}-to-{transfer.server}"
    guessed = [f"{stem}/{repeat}.client" for repeat in range(len(transfer.samples))]
    return tuple(guessed) if all(name in known for name in guessed) else ()


def nccl_name(record: RunRecord, known: Collection[str]) -> str:
    """The log of the all-reduce; empty when there is none."""
    name = record.nccl.raw or NCCL_LOG if record.nccl else ""
    return name if name in known else ""

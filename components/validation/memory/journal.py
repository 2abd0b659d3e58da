"""The journal of a run in progress: after a kill, the next run resumes where it stopped."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import Field, ValidationError

from components.validation import Say
from components.validation.memory.redact import redacted
from components.validation.records import Frozen, TransferResult
from stacks.words import plural

OLDEST_S = 6 * 3600
"""After hours, a fabric may have changed."""

Key = tuple[str, str, str, str, str]


class Head(Frozen):
    """The first line: which run this is."""

    schema_version: int = 1
    run_id: str
    plan_digest: str
    fingerprint: str
    hosts: dict[str, str] = Field(default_factory=dict)
    """Digest of each host's facts: after a reboot or with another MTU its transfers are measured again."""
    began_s: float
    """Seconds since 1970."""


class JournalLine(Frozen):
    """Any further line: one finished transfer with its outputs, or the number of queue pairs per rail."""

    transfer: TransferResult | None = None
    raw: dict[str, str] = Field(default_factory=dict)
    queue_pairs: dict[str, int] = Field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalOptions:
    """Options of a journal."""

    folder: Path
    fresh: bool = False
    """Whether to start over instead of resuming an older run. If this run is killed, the next one resumes it."""
    secrets: tuple[str, ...] = ()
    """Texts that must not be written."""


class Journal:
    """One file per plan and fingerprint. Only the run that holds the hosts' lease opens it."""

    def __init__(self, path: Path, head: Head, secrets: tuple[str, ...] = ()) -> None:
        self.path, self.head, self._secrets = path, head, secrets
        self.finished: dict[Key, JournalLine] = {}
        self.queue_pairs: dict[str, int] = {}
        self._file: BinaryIO | None = None

    @classmethod
    def open(cls, kept: JournalOptions, head: Head, say: Say) -> Self:
        """Resumes a run of the same plan and fingerprint, for hosts that have not changed, or starts one."""
        kept.folder.mkdir(parents=True, exist_ok=True)
        path = kept.folder / f"journal-{head.plan_digest[:12]}-{head.fingerprint[:12] or 'by-hand'}.jsonl"
        journal = cls(path, head, kept.secrets)
        whole = None if kept.fresh else journal._read()
        if whole is None:
            if path.exists():
                why = "as requested" if kept.fresh else "it is from a run on other hosts, or too old"
                say(f"starts a new run and reuses nothing of {path.name}, {why}")
            journal._file = path.open("wb")
            journal._append([head.model_dump_json()])
            return journal
        journal._file = path.open("ab")
        journal._file.truncate(whole)  # the last line may be incomplete after a kill
        if journal.head.hosts != head.hosts:
            journal._rewrite(head.hosts)
        say(
            f"resumes run {journal.head.run_id}, which was interrupted: "
            f"{plural(len(journal.finished), 'transfer is', 'transfers are')} measured already ({path.name})"
        )
        return journal

    def add(self, results: Sequence[TransferResult], raw: Mapping[str, str]) -> None:
        """Writes finished transfers to the disk; the next run tries failed ones again."""
        self._append(
            [
                JournalLine(transfer=result, raw=self._outputs(result, raw)).model_dump_json(exclude_defaults=True)
                for result in results
                if result.outcome == "measured"
            ]
        )

    def _outputs(self, result: TransferResult, raw: Mapping[str, str]) -> dict[str, str]:
        """The outputs of a transfer, both ends', as they may be kept."""
        names = (name.removesuffix("client") + end for name in result.raw for end in ("client", "server"))
        return {name: redacted(raw[name], self._secrets) for name in names if name in raw}

    def add_queue_pairs(self, queue_pairs: Mapping[str, int]) -> None:
        """Writes the number of queue pairs per rail, so that both halves of a run use the same."""
        self._append([JournalLine(queue_pairs=dict(queue_pairs)).model_dump_json(exclude_defaults=True)])

    def close(self, *, finished: bool) -> None:
        """Removes the file of a finished run; the file of an interrupted run stays for the next."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if finished:
            self.path.unlink(missing_ok=True)

    def _append(self, lines: list[str]) -> None:
        if self._file is not None and lines:
            self._file.write("".join(f"{line}\n" for line in lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())

    def _read(self) -> int | None:
        """Reads the file; returns how many bytes of it are whole lines, or None if it cannot be resumed."""
        try:
            lines = self.path.read_bytes().splitlines(keepends=True)
            head = Head.model_validate_json(lines[0])
        except (OSError, ValidationError, IndexError):
            return None
        if _fabric(head) != _fabric(self.head) or not 0 <= self.head.began_s - head.began_s <= OLDEST_S:
            return None
        same = {node for node, state in self.head.hosts.items() if head.hosts.get(node) == state}
        all_same, whole = head.hosts == self.head.hosts, len(lines[0])
        for line in lines[1:]:
            if not line.endswith(b"\n"):
                break
            try:
                entry = JournalLine.model_validate_json(line)
            except ValidationError:
                break
            whole += len(line)
            self.queue_pairs.update(entry.queue_pairs)
            if (done := entry.transfer) is not None and {done.client, done.server} <= same:
                self.finished[key_of(done)] = entry
        if not all_same and not self.finished:
            self.queue_pairs.clear()
            return None
        self.head = head
        return whole

    def _rewrite(self, hosts: dict[str, str]) -> None:
        """Keeps only the transfers of unchanged hosts, so that no later run reuses the others."""
        self.head = self.head.model_copy(update={"hosts": hosts})
        if self._file is not None:
            self._file.truncate(0)
        entries = [JournalLine(queue_pairs=self.queue_pairs), *self.finished.values()]
        self._append([self.head.model_dump_json(), *(one.model_dump_json(exclude_defaults=True) for one in entries)])


def key_of(result: TransferResult) -> Key:
    """The key of a transfer within a run."""
    return (result.test, result.shape, *result.flow)


def now_s() -> float:
    """Wall-clock time: a different process resumes the run."""
    return datetime.now(UTC).timestamp()


def _fabric(head: Head) -> tuple[str, str]:
    return head.plan_digest, head.fingerprint

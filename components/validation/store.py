"""A lab's runs on disk: document and raw outputs of each, one line per run in the history, and what
a report shows of one of them.
"""

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from components.validation.benchmarks.plan import Plan
from components.validation.history import Entry
from components.validation.records import Frozen, MeasuredHost, RunRecord
from components.validation.redact import redacted, redacted_fields
from components.validation.stale import HostStates
from components.validation.summary import Summary
from stacks.files import state_folder, write_file
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.switches import cables


class DeclaredRail(Frozen):
    """What the lab declared around a rail when it was measured; the plan has the rest."""

    rail: str
    switch_mtu_bytes: int | None = None
    """The smallest of the switch ports that it is cabled to; None where no switch is described."""
    leaves: dict[str, str] = Field(default_factory=dict)
    """Leaf switch by node, as far as the cables are described."""


class RunDocument(Frozen):
    """One run. The stored file is the truth; the stack's state has its digest and the verdict by
    the lab's bounds.
    """

    schema_version: Literal[4] = 4
    plan: Plan
    """The plan that ran, without the hosts that were not ready."""
    rails: tuple[DeclaredRail, ...]
    record: RunRecord
    history: tuple[Entry, ...] = ()
    """Earlier runs, the oldest first, and this one; empty for a run by hand."""

    @property
    def leaves(self) -> dict[tuple[str, str], str]:
        """Leaf switch by (node, rail)."""
        return leaves_of(self.rails)


def leaves_of(rails: Iterable[DeclaredRail]) -> dict[tuple[str, str], str]:
    """Leaf switch by (node, rail)."""
    leaves = {}
    for declared in rails:
        for node, switch in declared.leaves.items():
            leaves[node, declared.rail] = switch
    return leaves


def declared_rails(lab: Lab) -> tuple[DeclaredRail, ...]:
    """The rails as the lab file has them now."""
    rail_of = {(node.name, pf.interface): pf.rail for node in lab.nodes for pf in node.pfs}
    leaves: dict[str, dict[str, str]] = {}
    ports: dict[str, list[int]] = {}
    for switch in lab.switches:
        for node, interface, _ in cables(switch):
            if rail := rail_of.get((node, interface)):
                leaves.setdefault(rail, {})[node] = switch.name
                ports.setdefault(rail, []).append(switch.mtu_bytes)
    declared = []
    for name in (rail.name for rail in lab.rails):
        mtu_bytes = min(ports.get(name, ()), default=None)
        of_rail = leaves.get(name, {})
        declared.append(DeclaredRail(rail=name, switch_mtu_bytes=mtu_bytes, leaves=of_rail))
    return tuple(declared)


def with_inventory(record: RunRecord, hosts: HostStates) -> RunRecord:
    """The record with what the hosts reported to the Fleet of their kernels and NICs."""
    return record.replace(
        hosts={name: _described(facts, hosts.get(name, {})) for name, facts in record.hosts.items()}
    )


def _described(facts: MeasuredHost, printed: Mapping[str, object]) -> MeasuredHost:
    update = {"nic": "", "driver": "", "firmware": "", "kernel": str(printed.get("kernel", ""))}
    nics = printed.get("nics")
    for nic in nics.values() if isinstance(nics, Mapping) else ():
        for field, key in (("nic", "model"), ("driver", "driver"), ("firmware", "firmware")):
            if isinstance(nic, Mapping) and nic.get(key) and not update[field]:
                update[field] = str(nic[key])
    return facts.replace(**update)


KEPT = 20
"""Runs whose files stay; those of older ones are removed, but for the baseline's."""
PROMPT = "$ "
"""A raw output begins with the command that made it, behind this."""
RAW, DOCUMENT, HISTORY = ".json.gz", ".run.json.gz", "history.jsonl"
LARGEST_READ_BYTES = 8_000_000
"""The end of a longer history is read."""


def folder_of(lab: str, root: Path, *, simulated: bool, store: str | None = None) -> Path:
    """The folder of a lab's runs: as the lab file says, else in the state of the simulator or of
    the user (XDG).
    """
    if store:
        return root / store / lab
    if simulated:
        return root / ".sim" / "runs" / lab
    return state_folder(lab) / "runs"


def store_of(lab: Lab, root: Path) -> Path:
    """The folder of a lab's runs, from its file."""
    return folder_of(lab.name, root, simulated=lab.simulated, store=lab.report.store)


def write_bundle(
    folder: Path, run_id: str, raw: Mapping[str, str], secrets: Iterable[str] = ()
) -> str:
    """Writes the raw outputs of a run without secrets; returns the SHA-256 of the file."""
    known = tuple(secrets)
    texts = {name: redacted(text, known) for name, text in raw.items()}
    return _write(folder, f"{run_id}{RAW}", json.dumps(texts, indent=0, sort_keys=True))


def write_document(folder: Path, document: RunDocument, secrets: Iterable[str] = ()) -> str:
    """Writes a run without secrets; returns the SHA-256 of the file."""
    fields = document.model_dump(mode="json", exclude_defaults=True) | {
        "schema_version": document.schema_version
    }
    text = json.dumps(redacted_fields(fields, secrets), separators=(",", ":"))
    return _write(folder, f"{document.record.run_id}{DOCUMENT}", text)


def read_document(folder: Path, run_id: str, sha256: str) -> RunDocument | None:
    """A run; None if it is not here, has another digest, or is of another version."""
    try:
        data = (folder / f"{run_id}{DOCUMENT}").read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            return None
        return RunDocument.model_validate_json(gzip.decompress(data))
    except (OSError, EOFError, zlib.error, ValidationError):
        return None


def prune(folder: Path, baseline_run: str = "") -> None:
    """Removes what is older than the last `KEPT` runs, but for the baseline."""
    runs = sorted(path.name.removesuffix(DOCUMENT) for path in folder.glob(f"*{DOCUMENT}"))
    for run_id in runs[:-KEPT]:
        if run_id != baseline_run:
            (folder / f"{run_id}{RAW}").unlink(missing_ok=True)
            (folder / f"{run_id}{DOCUMENT}").unlink(missing_ok=True)


def append(folder: Path, entry: Entry) -> None:
    """Adds a run to the history. One write at the end of the file: two writers never mix their
    lines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    line = entry.model_dump_json(exclude_defaults=True).encode() + b"\n"
    handle = os.open(folder / HISTORY, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.lseek(handle, 0, os.SEEK_END)
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line  # the last line is incomplete after a kill
        os.write(handle, line)
        os.fsync(handle)
    finally:
        os.close(handle)


def read(folder: Path, lab: str) -> list[Entry]:
    """The history of a lab, in the order of the file; lines that are no run are left out."""
    try:
        with (folder / HISTORY).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LARGEST_READ_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    entries = [_entry(line) for line in lines if line.strip()]
    return [entry for entry in entries if entry and entry.lab == lab]


def _entry(line: bytes) -> Entry | None:
    try:
        return Entry.model_validate_json(line)
    except ValidationError:
        return None


def _write(folder: Path, name: str, text: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    # no time stamp inside: the same outputs give the same file
    data = gzip.compress(text.encode(), mtime=0)
    write_file(folder / name, data)
    return hashlib.sha256(data).hexdigest()


@frozen
class RawFile:
    """One output in a run's bundle."""

    name: str
    size_bytes: int
    sha256: str
    command: str
    """Empty when the output does not say."""


@frozen
class Material:
    """Everything that a report shows; each format is a pure function of it."""

    summary: Summary
    """The stack's current verdict, which may be stale, or by other bounds than the run's own."""
    document: RunDocument | None = None
    """None when it is not on this machine."""
    raw: tuple[RawFile, ...] = ()
    """Empty when the outputs are not on this machine, or are not those of this run."""
    missing: tuple[str, ...] = ()
    """What could not be read, and what it means for the report."""

    @property
    def record(self) -> RunRecord | None:
        """What was measured."""
        return self.document.record if self.document else None

    @property
    def bundle(self) -> str:
        """Name of the file with the raw outputs."""
        return f"{self.summary.run_id}{RAW}"


def document_of(verdict: Summary, root: Path) -> RunDocument | None:
    """The run of a verdict; None if it is not on this machine."""
    folder = folder_of(verdict.lab, root, simulated=verdict.simulated, store=verdict.store)
    return read_document(folder, verdict.run_id, verdict.document_sha256)


def gather(summary: Summary, *, root: Path, store: Path | None) -> Material:
    """The material that this machine has. What is missing is listed, and is no fault of the
    verdict.

    Args:
        summary: the stack output `validation`.
        root: of the project; the paths of a store start there.
        store: folder of the lab's runs; None: where the stack keeps them.
    """
    folder = store or folder_of(summary.lab, root, simulated=summary.simulated, store=summary.store)
    document = read_document(folder, summary.run_id, summary.document_sha256)
    raw = raw_of(folder / f"{summary.run_id}{RAW}", summary.raw_sha256)
    missing = []
    if document is None:
        missing.append(
            f"Run {summary.run_id} is not in {folder.name}: pairs, curves and hosts are left out."
        )
    elif not raw:
        missing.append(
            "The raw outputs of this run are not on this machine, so no number here can be "
            "checked on it."
        )
    return Material(summary=summary, document=document, raw=raw, missing=tuple(missing))


def raw_of(file: Path, sha256: str) -> tuple[RawFile, ...]:
    """The outputs in a run's file; none when it is not here, or is not the one that was written."""
    try:
        with file.open("rb") as data:
            digest = hashlib.file_digest(data, "sha256").hexdigest()
        return raw_files(_outputs_in(file)) if digest == sha256 else ()
    except (OSError, EOFError, zlib.error, ValueError):
        return ()


def _outputs_in(file: Path) -> Iterator[tuple[str, str]]:
    """Name and text of each output, one at a time: all of them together may be larger than memory
    should be.
    """
    with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            # the file is a JSON object with a line per entry, as the store writes it
            entry = line.strip().removesuffix(",")
            if entry and entry not in ("{", "}", "{}"):
                yield from json.loads(f"{{{entry}}}").items()


def raw_files(outputs: Iterable[tuple[str, str]]) -> tuple[RawFile, ...]:
    """The files of a bundle, by name."""
    return tuple(sorted((_file(name, text) for name, text in outputs), key=lambda file: file.name))


def _file(name: str, text: str) -> RawFile:
    data = text.encode()
    digest = hashlib.sha256(data).hexdigest()
    return RawFile(name=name, size_bytes=len(data), sha256=digest, command=command_in(text))


def command_in(text: str) -> str:
    """The command that an output names in one of its first lines."""
    lines = text[:2000].splitlines()[:3]
    for line in lines:
        if line.startswith(PROMPT):
            return line.removeprefix(PROMPT)
    return ""

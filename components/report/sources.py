"""Finds what a report is made of: the store of the lab, the stack's state, and the stack file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue, ValidationError

from components.report.bundles import BundleError, digest_of, outputs_in
from components.report.material import Material, RailMtu
from components.report.past import PastRun, past_in, past_of
from components.report.raw import RawFile, raw_files
from components.stack import Stack
from components.validation.memory.bundle import RAW, folder_of, read_record
from components.validation.memory.history import history_in
from components.validation.memory.state import measurement_outputs
from components.validation.memory.store import read as read_history
from components.validation.records import RunRecord
from components.validation.summary import Summary
from stacks.base import LabError
from stacks.lab import Lab
from stacks.switches import cables

MOST_RUNS = 20
"""Runs of a trend."""

State = Mapping[str, JsonValue]
"""The outputs of the stack's measurement."""
NOTHING: State = {}


def gather(
    summary: Summary, outputs: Mapping[str, JsonValue], *, stack: Stack | None, root: Path, store: Path | None
) -> Material:
    """As much as can be found. What is missing is said, and is no fault of the verdict.

    Args:
        summary: the stack output `validation`.
        outputs: all outputs of the stack.
        stack: to ask for its state; None when the outputs came from a file.
        root: of the project; paths in a lab file start there.
        store: folder of the lab's runs; None: where the lab keeps them.
    """
    lab = _lab(stack)
    folder = store or folder_of(summary.lab, root, simulated=summary.simulated, store=lab.report.store if lab else None)
    record, whence, state = read_record(folder, summary.run_id), "the store", NOTHING
    if record is None and stack is not None:
        state = _read_state(stack.name)
        record, whence = _record_of(state, summary), "the stack's state, in part"
    raw = raw_of(folder / f"{summary.run_id}{RAW}", summary.raw_sha256)
    return Material(
        summary=summary,
        record=record,
        record_from=whence if record else "",
        bundle=f"{summary.run_id}{RAW}" if raw else "",
        raw=raw,
        rails=tuple(_rails(lab, outputs)),
        history=_runs(folder, state, summary),
        missing=tuple(_missing(record, raw, folder, summary)),
    )


def _missing(record: RunRecord | None, raw: Sequence[RawFile], folder: Path, summary: Summary) -> list[str]:
    told = []
    if record is None:
        told.append(
            f"The record of run {summary.run_id} is not in {folder.name}: pairs, curves and hosts are left out."
        )
    elif not raw:
        told.append("The raw outputs of this run are not on this machine, so no number here can be checked on it.")
    return told


def raw_of(file: Path, sha256: str) -> tuple[RawFile, ...]:
    """The outputs in a run's file; none when it is not here, or is not the one that was written."""
    try:
        if not sha256 or digest_of(file) != sha256:
            return ()
        return raw_files(outputs_in(file))
    except (OSError, BundleError):
        return ()


def _lab(stack: Stack | None) -> Lab | None:
    """The lab as its file describes it; without one the report has less to say."""
    try:
        return stack.lab() if stack else None
    except LabError:
        return None


def _read_state(stack: str) -> State:
    """Nothing where it cannot be read: the verdict was, and a report tells of the run what it can."""
    try:
        return measurement_outputs(stack)
    except LabError:
        return NOTHING


def _record_of(state: State, summary: Summary) -> RunRecord | None:
    try:
        record = RunRecord.model_validate_json(str(state.get("record")))
    except ValidationError:
        return None
    return record if record.run_id == summary.run_id else None


def _runs(folder: Path, state: State, summary: Summary) -> tuple[PastRun, ...]:
    """Earlier runs of the store and of the state, and the present one as the last, as it was before it became stale."""
    known = history_in(state.get("history"))
    entries = {entry.run_id: entry for entry in (*known.entries, *read_history(folder, summary.lab))}
    ordered = sorted(entries.values(), key=lambda entry: (entry.started_at, entry.run_id))
    before = [past_in(entry) for entry in ordered if entry.started_at < summary.started_at]
    own = entries.get(summary.run_id)
    return (*before[1 - MOST_RUNS :], past_in(own) if own else past_of(summary))


def _rails(lab: Lab | None, outputs: Mapping[str, JsonValue]) -> list[RailMtu]:
    attachments = outputs.get("attachments")
    pods = attachments if isinstance(attachments, dict) else {}
    if lab is None:
        return [
            RailMtu(rail=rail, switch=None, pf=None, pod=_mtu(found), path=None) for rail, found in sorted(pods.items())
        ]
    rail_of = {(node.name, pf.interface): pf.rail for node in lab.nodes for pf in node.pfs}
    ports: dict[str, set[int]] = {}
    for switch in lab.switches:
        for node, interface, _ in cables(switch):
            ports.setdefault(rail_of.get((node, interface), ""), set()).add(switch.mtu_bytes)
    return [
        RailMtu(
            rail=rail.name,
            switch=min(ports.get(rail.name, ()), default=None),
            pf=rail.mtu_bytes,
            pod=_mtu(pods.get(rail.name)),
            path=rail.path_mtu_bytes,
            interfaces={node.name: pf.interface for node in lab.active_nodes if (pf := node.pf_on(rail.name))},
        )
        for rail in lab.rails
    ]


def _mtu(attachment: JsonValue) -> int | None:
    found = attachment.get("mtu_bytes") if isinstance(attachment, dict) else None
    return found if isinstance(found, int) else None

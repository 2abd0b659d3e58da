"""What a run of the benchmarks leaves behind: measured facts, without any judgement that a threshold could change."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Outcome = Literal["measured", "failed", "skipped"]
"""failed: it ran and did not do what the plan demands. skipped: it was not run, and that is never a pass."""


class Frozen(BaseModel):
    """Base of everything that is written down: unknown fields are faults, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class TransferResult(Frozen):
    """One directed perftest run between two PFs of a rail, repeats included."""

    test: Literal["ib_write_bw"] = "ib_write_bw"
    rail: str
    client: str
    """Node that sent and measured."""
    server: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """Why it failed or was skipped; empty when measured."""
    average_gbit_s: tuple[float, ...] = ()
    """One value a repeat, in 10^9 bits a second."""
    path_mtu_bytes: int | None = None
    """As the client's header printed it; without rdma_cm that is what the queue pair used."""
    line_rate_gbit_s: float | None = None
    """Lower one of the two ports; None where the port does not tell, as a virtual one."""
    client_gid_index: int | None = None
    server_gid_index: int | None = None


class RailResult(Frozen):
    """All transfers of a rail in a few numbers: they survive when single transfers are left out of the state."""

    measured: int
    failed: int
    skipped: int
    median_gbit_s: float | None = None
    least_gbit_s: float | None = None


class NcclResult(Frozen):
    """One all-reduce job over all nodes."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    job: str = ""
    replayed: bool = False
    """The log was recorded somewhere else and played by a simulated node: it says nothing about this lab."""
    busbw_gbyte_s: float | None = None
    """Median out-of-place busbw of the rows from 1 GiB up (else of the largest), in 10^9 bytes a second."""
    at_least_bytes: int | None = None
    """Smallest message size that the median is over."""
    average_busbw_gbyte_s: float | None = None
    """Mean over all sizes: depends on the size range, so it is no metric; it proves that the table is whole."""
    rows: int = 0
    wrong: int | None = None
    """Elements that came out wrong; None where the run did not check."""
    transport: Literal["ib", "socket"] | None = None
    """What NCCL said it uses; None when the log does not tell."""


class RunRecord(Frozen):
    """One run: what the verdict is made of, and what the stack keeps."""

    schema_version: Literal[1] = 1
    run_id: str
    started_at: str
    """RFC 3339, UTC."""
    duration_s: float
    simulated: bool
    plan_digest: str
    fingerprint: str = ""
    """Digest of everything whose change makes this run obsolete; empty for a run by hand."""
    transfers: tuple[TransferResult, ...]
    left_out: int = 0
    """Transfers that only `rails` still counts, because the state must stay small."""
    rails: dict[str, RailResult]
    nccl: NcclResult | None = None
    notes: tuple[str, ...] = ()
    raw_sha256: str = ""
    """Digest of the file with the raw outputs, named after the run."""


def median(values: list[float]) -> float:
    """The middle value; of an even count the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def summarise(transfers: list[TransferResult]) -> dict[str, RailResult]:
    """The numbers of each rail, in the order of the transfers."""
    rails: dict[str, RailResult] = {}
    for name in dict.fromkeys(transfer.rail for transfer in transfers):
        of_rail = [transfer for transfer in transfers if transfer.rail == name]
        values = [median(list(t.average_gbit_s)) for t in of_rail if t.outcome == "measured"]
        count = {outcome: sum(t.outcome == outcome for t in of_rail) for outcome in ("measured", "failed", "skipped")}
        rails[name] = RailResult(
            **count,
            median_gbit_s=round(median(values), 6) if values else None,
            least_gbit_s=min(values, default=None),
        )
    return rails


def compact(record: RunRecord, limit_bytes: int) -> str:
    """The record as JSON within a limit: what failed stays first, then the slowest; the rest is only counted."""
    order = sorted(record.transfers, key=_worst_first)
    kept = len(order)
    while True:
        chosen = set(map(id, order[:kept]))
        smaller = record.model_copy(
            update={
                "transfers": tuple(t for t in record.transfers if id(t) in chosen),
                "left_out": record.left_out + len(order) - kept,
            }
        )
        text = smaller.model_dump_json(exclude_defaults=True)
        if len(text.encode()) <= limit_bytes or kept == 0:
            return text
        kept = kept * 3 // 4


def _worst_first(transfer: TransferResult) -> tuple[bool, float]:
    values = list(transfer.average_gbit_s)
    return transfer.outcome == "measured", median(values) if values else 0.0

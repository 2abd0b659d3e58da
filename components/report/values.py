"""Every measured number of a report under a key, with the raw outputs that it comes from. Pure.

The key says how a number is worked out, so that a verifier can do it again from the raw outputs alone.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from components.validation.judging.statistics import repeats
from components.validation.judging.verbs import settled
from components.validation.records import UNIT_OF, JobResult, RunRecord, TransferResult, median
from components.validation.summary import Summary

Measured = tuple[str, str, str, str, str]
"""Test, shape, rail, client and server."""
AGAIN = "again"
"""Shape of the repetitions of suspect transfers, which are of the first bandwidth test alone."""
PLAIN = "one_way"


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """One number."""

    value: float
    unit: str
    traceable: bool
    """Whether a raw output of this run stands behind it that can be read again."""


def transfer_key(transfer: TransferResult) -> str:
    """Of the median over a transfer's repeats."""
    return "/".join((*group_of(transfer), transfer.client, transfer.server))


def measured_by(transfer: TransferResult) -> Measured:
    """What tells a transfer apart."""
    return transfer.test, transfer.shape, transfer.rail, transfer.client, transfer.server


def group_of(transfer: TransferResult) -> tuple[str, str, str]:
    """Test, shape and rail: what belongs into one series."""
    return transfer.test, transfer.shape, transfer.rail


def judged_key(measured: Measured) -> str:
    """Of the value that a transfer is judged by: without outliers, or that of its repetitions with less beside it."""
    return f"{'/'.join(measured)}:judged"


def series_key(test: str, shape: str, rail: str, what: str) -> str:
    """Of `median`, `least` or `greatest` over a test's transfers on a rail."""
    return f"{test}/{shape}/{rail}:{what}"


def point_key(measured: Measured, message_bytes: int) -> str:
    """Of one point of a curve over message sizes."""
    return f"{'/'.join(measured)}@{message_bytes}"


NCCL_KEY = "nccl_all_reduce:busbw"
JOB = "job:"


def job_key(job: JobResult) -> str:
    """Of the median of a job's values without outliers, with what its log has to be read by: program and ranks."""
    return f"{JOB}{job.program}:{job.details.get('ranks', 1)}:{job.raw}"


def slowest_of(record: RunRecord, summary: Summary, again: Collection[str]) -> dict[str, Value]:
    """The values that the verdict names as the slowest, as it judges them.

    Args:
        record: of the run.
        summary: the verdict.
        again: first outputs of the transfers whose repetitions have their outputs too.
    """
    named = {(t.test, t.shape, t.rail, t.worst.client, t.worst.server) for t in summary.tests if t.worst}
    return {
        judged_key(measured): Value(
            value=settled(t),
            unit=t.unit,
            traceable=bool(t.raw) and (not t.retest or t.raw[0] in again),
        )
        for t in record.transfers
        if t.outcome == "measured" and t.samples and (measured := measured_by(t)) in named
    }


def values_of(record: RunRecord) -> dict[str, Value]:
    """All numbers that a report may show of a record, but for the slowest ones."""
    found: dict[str, Value] = {}
    whole = record.left_out == 0
    unnamed: set[tuple[str, str, str]] = set()
    for transfer in record.transfers:
        if transfer.outcome != "measured":
            continue
        named = bool(transfer.raw)
        if transfer.samples and transfer.shape != "sizes":
            found[transfer_key(transfer)] = Value(value=transfer.value, unit=transfer.unit, traceable=named)
            unnamed |= set() if named else {group_of(transfer)}
        measured = measured_by(transfer)
        for point in transfer.curve:
            found[point_key(measured, point.message_bytes)] = Value(
                value=point.value, unit=transfer.unit, traceable=named
            )
    for series in record.series:
        numbers = {"median": series.median, "least": series.least, "greatest": series.greatest}
        traceable = whole and series.key not in unnamed
        found |= {
            series_key(*series.key, what): Value(value=number, unit=UNIT_OF[series.test], traceable=traceable)
            for what, number in numbers.items()
            if number is not None
        }
    found |= {
        job_key(job): Value(value=job.value, unit=job.unit, traceable=True)
        for job in record.jobs
        if job.raw and job.value is not None
    }
    if record.nccl and record.nccl.busbw_gbyte_s is not None:
        found[NCCL_KEY] = Value(value=record.nccl.busbw_gbyte_s, unit="GB/s", traceable=True)
    return found


def from_samples(samples: Mapping[Measured, Iterable[float]]) -> dict[str, float]:
    """The numbers of transfers and series again, from samples by test, shape, rail, client and server."""
    found: dict[str, float] = {}
    groups: dict[tuple[str, str, str], list[float]] = {}
    for (test, shape, rail, client, server), values in samples.items():
        middle = median(list(values))
        found[f"{test}/{shape}/{rail}/{client}/{server}"] = middle
        repeated = samples.get((test, AGAIN, rail, client, server), ()) if shape == PLAIN else ()
        found[judged_key((test, shape, rail, client, server))] = (
            median(list(repeated)) if repeated else repeats(list(values)).median
        )
        groups.setdefault((test, shape, rail), []).append(middle)
    for group, middles in groups.items():
        found[series_key(*group, "median")] = round(median(middles), 6)
        found[series_key(*group, "least")] = min(middles)
        found[series_key(*group, "greatest")] = max(middles)
    return found

"""Transfers of which one try failed and another one was measured: a number and a warning, and no broken path. Pure."""

from collections.abc import Iterator, Sequence

from components.validation.judging.states import too_many, where_of
from components.validation.records import RunRecord, TransferResult
from components.validation.summary import Finding, Performance

CODE = "FAILED_ONCE"
CROWDED_SHARE = 0.2
"""Of a test's transfers on a rail: where more, and more than one, work only with fewer beside them, the fabric does not
carry what the plan asks of it."""


def state_of(measured: Sequence[TransferResult], among: int) -> Performance:
    """What failed tries make of a test: a single one is to be looked at; where there are many, no number stands.

    Args:
        measured: the transfers that the record still has one by one; what failed once stays in it the longest.
        among: how many were measured, of which a record that must be small only counts the smooth ones.
    """
    count = sum(bool(t.failed_once) for t in measured)
    if not count:
        return "pass"
    return "unstable" if too_many(count, among) else "warn"


def only_with_fewer(transfer: TransferResult) -> bool:
    """Whether it failed under the load of the plan, and was measured under a smaller one."""
    return transfer.second_try and transfer.at_once < transfer.failed_at_once


def crowded(measured: Sequence[TransferResult], among: int) -> int:
    """How many transfers work only beside fewer others, where they are too many for chance among so many; else 0."""
    count = sum(map(only_with_fewer, measured))
    return count if count > max(1, CROWDED_SHARE * among) else 0


def second_try_findings(record: RunRecord) -> Iterator[Finding]:
    """Which transfers they are, those of a test together, with the reason of the first."""
    tests: dict[tuple[str, str], list[TransferResult]] = {}
    for t in record.transfers:
        if t.outcome == "measured" and t.failed_once:
            tests.setdefault((t.test, t.shape), []).append(t)
    for (test, shape), found in tests.items():
        first = found[0]
        name = test if shape == "one_way" else f"{test} {shape}"
        if first.second_try:
            told = f"{first.failed_once}; measured at another try, with {_beside(first.at_once, first.failed_at_once)}"
        else:
            told = f"measured, then with {_beside(first.failed_at_once, first.at_once)} {first.failed_once}"
        yield Finding(
            code=CODE,
            where=where_of(found),
            evidence=f"{name} {told}",
            hint=f"run {test} between the two a few times, alone and beside the others, and compare the error counters "
            "of both ports before and after",
        )


def _beside(at_once: int, before: int) -> str:
    """A load, and the one that it is to be compared with."""
    return f"{at_once} at once instead of {before}" if at_once != before else f"as many at once ({at_once})"

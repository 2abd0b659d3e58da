"""The history of a lab: a few numbers per run, for comparison and trend. Pure; `store` keeps it on disk."""

from collections.abc import Iterable
from typing import Literal

from pydantic import ValidationError

from components.validation.records import Frozen, RunHead

KEPT = 10
"""Runs in the stack's state; the store has all."""


class Value(Frozen):
    """One number of a run that can be compared with that of another run."""

    median: float
    unit: str
    cv: float | None = None
    """Coefficient of variation over the repeats, pooled over all pairs; None where nothing was repeated."""
    again: float | None = None
    """Value of the confirming run, if the first run was worse than the baseline."""

    @property
    def lower_is_better(self) -> bool:
        """Whether it is a time."""
        return self.unit == "us"


class Entry(RunHead):
    schema_version: Literal[1] = 1
    lab: str
    function: str
    performance: str
    passed: bool
    """Whether it may be a baseline: everything that can be known works, and no axis fails."""
    config: dict[str, str]
    """What two runs must share to be compared, by name."""
    values: dict[str, Value]
    """By test, shape and rail, or by job and transport."""
    document_sha256: str = ""


class History(Frozen):
    """The history in the state: the last runs, the oldest first, and the last one that passed."""

    entries: tuple[Entry, ...] = ()
    baseline: Entry | None = None

    def with_entry(self, entry: Entry) -> "History":
        """The history after a run."""
        return history_of([*self.known, entry])

    def merged(self, others: Iterable[Entry]) -> "History":
        """Joined with the runs of another place: the state may be new, or the store empty."""
        return history_of([*others, *self.known])

    def before(self, run_id: str) -> "History":
        """The history without a run, with which the run is compared."""
        return history_of(entry for entry in self.known if entry.run_id != run_id)

    def entry(self, run_id: str) -> Entry | None:
        """The run of that name."""
        return next((entry for entry in self.entries if entry.run_id == run_id), None)

    def baseline_for(self, config: dict[str, str]) -> Entry | None:
        """The last run that passed with the same configuration; else the last one that passed at all."""
        passing = [entry for entry in self.known if entry.passed and entry.values]
        same = [entry for entry in passing if entry.config == config]
        return (same or passing)[-1] if passing else None

    def comparable(self, config: dict[str, str]) -> list[Entry]:
        """Runs that passed with the same configuration."""
        return [entry for entry in self.known if entry.passed and entry.config == config]

    @property
    def known(self) -> list[Entry]:
        """All of them: the baseline may be older than the last runs."""
        old = [self.baseline] if self.baseline and self.entry(self.baseline.run_id) is None else []
        return [*old, *self.entries]


def history_of(entries: Iterable[Entry]) -> History:
    """The history of any runs in any order: each run counts once, and the last `KEPT` stay."""
    by_run = {entry.run_id: entry for entry in entries}
    ordered = sorted(by_run.values(), key=lambda entry: (entry.started_at, entry.run_id))
    passing = [entry for entry in ordered if entry.passed and entry.values]
    return History(entries=tuple(ordered[-KEPT:]), baseline=passing[-1] if passing else None)


def history_in(kept: object) -> History:
    """The history in a stack's state; an unreadable one counts as empty, so it never prevents a measurement."""
    try:
        return History.model_validate(kept)
    except ValidationError:
        return History()

"""Earlier runs as lines: what each test's median was, run by run. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from components.validation.memory.entry import passes
from components.validation.memory.history import Entry
from components.validation.summary import JudgedTest, Summary


@dataclass(frozen=True, kw_only=True, slots=True)
class PastRun:
    """One run of the history in the few numbers that a trend needs."""

    run_id: str
    started_at: str
    passed: bool
    """Whether it may be a baseline."""
    medians: dict[tuple[str, str], float]
    """By test (with its shape, unless one way) and rail, or by job and transport; `all` where there is neither."""
    units: dict[str, str]
    """By test."""
    config: frozenset[tuple[str, str]] | None = None
    """What two runs must have in common to be compared; None where it is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """One test over the runs."""

    title: str
    unit: str
    runs: tuple[str, ...]
    """When each began, RFC 3339."""
    lines: dict[str, tuple[float | None, ...]]
    """By rail; None where a run has no value."""
    settled: tuple[bool, ...]
    """Whether the run passed."""
    baseline: int | None
    """Which of the runs the last one is compared with."""
    parts: tuple[int, ...]
    """By run: how often the configuration changed before it. Values of different parts are not compared."""


def test_name(test: str, shape: str) -> str:
    """A test with the way it was run, if that is not the usual one."""
    return test if shape in ("", "one_way") else f"{test}, {shape.replace('_', ' ')}"


def past_of(summary: Summary) -> PastRun:
    """The present run as one of the history."""
    known = [test for test in summary.tests if test.median is not None and test.function != "replayed"]
    return PastRun(
        run_id=summary.run_id,
        started_at=summary.started_at,
        passed=passes(summary),
        medians={_line_of(test): float(test.median or 0) for test in known},
        units={_line_of(test)[0]: test.unit for test in known},
    )


def _line_of(test: JudgedTest) -> tuple[str, str]:
    """The title and the line of a test in a trend: a rail each, and of a job a transport each."""
    if test.rail is None:
        return test.test, test.shape or "all"
    return test_name(test.test, test.shape), test.rail


def past_in(entry: Entry) -> PastRun:
    """A run as the lab's memory has it: its values are named after test, shape and rail, or job and transport."""
    medians: dict[tuple[str, str], float] = {}
    units: dict[str, str] = {}
    for name, value in entry.values.items():
        words = name.split(" ")
        test = test_name(words[0], words[1]) if len(words) == 3 else words[0]
        medians[test, words[-1] if len(words) > 1 else "all"] = value.median
        units[test] = value.unit
    return PastRun(
        run_id=entry.run_id,
        started_at=entry.started_at,
        passed=entry.passed,
        medians=medians,
        units=units,
        config=frozenset(entry.config.items()),
    )


def trends(runs: Sequence[PastRun], baseline_run: str = "") -> list[Trend]:
    """A trend per test of the last run; nothing while there is only one run."""
    if len(runs) < 2:
        return []
    ids = [run.run_id for run in runs]
    last = runs[-1]
    found = []
    for test, unit in last.units.items():
        rails = sorted({rail for run in runs for name, rail in run.medians if name == test})
        lines = {rail: tuple(run.medians.get((test, rail)) for run in runs) for rail in rails}
        if any(sum(value is not None for value in line) > 1 for line in lines.values()):
            found.append(
                Trend(
                    title=test,
                    unit=unit,
                    runs=tuple(run.started_at for run in runs),
                    lines=lines,
                    settled=tuple(run.passed for run in runs),
                    baseline=ids.index(baseline_run) if baseline_run in ids else None,
                    parts=tuple(_parts(runs)),
                )
            )
    return found


def _parts(runs: Sequence[PastRun]) -> Iterator[int]:
    part, before = 0, None
    for run in runs:
        part += before is not None and run.config is not None and run.config != before
        before = run.config or before
        yield part

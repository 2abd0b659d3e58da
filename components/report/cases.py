"""The verdict as test cases for CI systems, two a test: one per axis, since they are never mixed up. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from components.report.lines import counted, number, percent, test_title
from components.validation.records import unit_text
from components.validation.summary import JudgedTest, Summary

Status = Literal["passed", "failed", "skipped", "error", "warned"]
"""warned: it works, and is slower than it should be. error: it could not be run or read."""

STATUS_OF: dict[str, Status] = {
    "pass": "passed",
    "warn": "warned",
    "fail": "failed",
    "partial": "failed",
    "skip": "skipped",
    "error": "error",
    "unstable": "error",
    "replayed": "skipped",
    "not run": "skipped",
    "not rated": "skipped",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One axis of one test, or of the whole lab."""

    axis: Literal["function", "performance"]
    name: str
    state: str
    """The state in the verdict."""
    status: Status
    message: str
    """Why it is not simply passed."""
    value: str
    """The measured value in words; empty on the function axis."""


def cases(summary: Summary) -> list[Case]:
    """All cases. A stale verdict passes nothing."""
    every_case = [case for test in summary.tests for case in _of(test, simulated=summary.simulated)]
    every_case += [
        _whole("function", summary.function, summary.reasons),
        _whole("performance", summary.performance, (summary.performance_because,)),
    ]
    return [_stale(case, summary.stale[0]) if summary.stale else case for case in every_case]


def began_ms(summary: Summary) -> int:
    """When the run began, in milliseconds since 1970."""
    return int(datetime.fromisoformat(summary.started_at).timestamp() * 1000)


def _of(test: JudgedTest, *, simulated: bool) -> Iterator[Case]:
    name = f"{test_title(test)} {test.rail or 'all rails'}"
    counts = counted(test) or f"{test.measured} measured"
    if test.function == "not run":
        counts = test.because
    shown = "replayed" if test.function == "replayed" else "simulated" if simulated else ""
    value = (
        f"{number(test.median)} {unit_text(test.unit)}{f' ({shown})' if shown else ''}"
        if test.median is not None
        else ""
    )
    of = (
        f"{value}; slowest {percent(test.ratio)} of {number(test.ceiling)} {unit_text(test.unit)}"
        if test.ratio is not None
        else value
    )
    yield Case(
        axis="function",
        name=name,
        state=test.function,
        status=STATUS_OF[test.function],
        message="" if test.function == "pass" else counts,
        value="",
    )
    yield Case(
        axis="performance",
        name=name,
        state=test.performance,
        status=STATUS_OF[test.performance],
        message="" if test.performance == "pass" else test.because or of,
        value=of,
    )


def _whole(axis: Literal["function", "performance"], state: str, reasons: tuple[str, ...]) -> Case:
    return Case(
        axis=axis,
        name=f"the lab's {axis}",
        state=state,
        status=STATUS_OF[state],
        message="" if state == "pass" else "; ".join(filter(None, reasons)) or state,
        value="",
    )


def _stale(case: Case, why: str) -> Case:
    if case.status != "passed":
        return case
    return replace(case, state="stale", status="skipped", message=f"stale: {why}")

"""The verdict as test cases for CI systems, two per test, since the axes are never mixed. Pure."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Literal

from components.report.lines import counted, number, percent, test_title
from components.validation.records import unit_text
from components.validation.summary import JudgedTest, Summary
from stacks.frozen import frozen

Axis = Literal["function", "performance"]
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


@frozen
class Case:
    """One axis of one test, or of the whole lab."""

    axis: Axis
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
    value = _value(test, simulated=simulated)
    yield _case("function", name, test.function, counts)
    case = _case("performance", name, test.performance, test.because or value)
    yield replace(case, value=value)


def _value(test: JudgedTest, *, simulated: bool) -> str:
    if test.median is None:
        return ""
    unit = unit_text(test.unit)
    value = f"{number(test.median)} {unit}"
    if simulated or test.function == "replayed":
        value += " (replayed)" if test.function == "replayed" else " (simulated)"
    if test.ratio is not None:
        value += f"; slowest {percent(test.ratio)} of {number(test.ceiling)} {unit}"
    return value


def _case(axis: Axis, name: str, state: str, message: str) -> Case:
    if state == "pass":
        message = ""
    status = STATUS_OF[state]
    return Case(axis=axis, name=name, state=state, status=status, message=message, value="")


def _whole(axis: Axis, state: str, reasons: tuple[str, ...]) -> Case:
    return _case(axis, f"the lab's {axis}", state, "; ".join(filter(None, reasons)) or state)


def _stale(case: Case, why: str) -> Case:
    if case.status != "passed":
        return case
    return replace(case, state="stale", status="skipped", message=f"stale: {why}")

"""The verdict as JUnit XML, which every CI system shows. Skipped is skipped, an error is an error. Pure."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from xml.sax.saxutils import escape

from components.report.cases import Case, began_ms, cases
from components.validation.summary import Summary

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(summary: Summary) -> str:
    """The file's text."""
    found = cases(summary)
    suites = [(axis, [case for case in found if case.axis == axis]) for axis in ("function", "performance")]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={_quoted(summary.lab)} {_counts(found)} time={_quoted(f'{summary.duration_s:.3f}')}>",
    ]
    for axis, of_axis in suites:
        lines += _suite(axis, of_axis, summary)
    return "\n".join([*lines, "</testsuites>"]) + "\n"


def _suite(axis: str, found: list[Case], summary: Summary) -> Iterator[str]:
    began = datetime.fromtimestamp(began_ms(summary) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    time = f"{summary.duration_s:.3f}"
    yield f"<testsuite name={_quoted(axis)} {_counts(found)} time={_quoted(time)} timestamp={_quoted(began)}>"
    yield "<properties>"
    told = {"run_id": summary.run_id, "fingerprint": summary.fingerprint, "simulated": str(summary.simulated).lower()}
    yield from (f"<property name={_quoted(name)} value={_quoted(value)}/>" for name, value in told.items())
    yield "</properties>"
    for case in found:
        yield f"<testcase classname={_quoted(f'{summary.lab}.{axis}')} name={_quoted(case.name)} time={_quoted('0')}>"
        yield from _outcome(case)
        if case.value or case.status == "warned":
            said = f"{case.state}: {case.message or case.value}" if case.status == "warned" else case.value
            yield f"<system-out>{escape(_legal(said))}</system-out>"
        yield "</testcase>"
    yield "</testsuite>"


def _outcome(case: Case) -> Iterator[str]:
    message = _quoted(case.message or case.state)
    if case.status == "failed":
        yield f"<failure type={_quoted(case.state)} message={message}/>"
    elif case.status == "error":
        yield f"<error type={_quoted(case.state)} message={message}/>"
    elif case.status == "skipped":
        yield f"<skipped message={message}/>"


def _counts(found: list[Case]) -> str:
    def count(status: str) -> int:
        return sum(case.status == status for case in found)

    numbers = {"tests": len(found), "failures": count("failed"), "errors": count("error"), "skipped": count("skipped")}
    return " ".join(f"{name}={_quoted(str(number))}" for name, number in numbers.items())


def _quoted(text: str) -> str:
    # every quote is escaped: which kind stands around a value must not depend on what is in it
    return f'"{escape(_legal(text), {chr(34): "&quot;", chr(10): "&#10;"})}"'


def _legal(text: str) -> str:
    """XML has no way to write most control characters."""
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)

"""The verdict as plain words and cells, shared by the terminal, Markdown and the page. Pure."""

import re

from components.validation.records import unit_text
from components.validation.summary import JudgedTest, Summary
from stacks.words import some

COLUMNS = (
    "test",
    "rail",
    "function",
    "performance",
    "median",
    "ceiling",
    "ratio",
    "slowest",
    "change",
)

MORE = re.compile(r"and \d+ more")


def headline(summary: Summary) -> str:
    """Both axes in one line: `function: pass · performance: not rated (simulated)`."""
    because = ""
    if summary.performance_because:
        because = f" ({summary.performance_because})"
    stale = ""
    if summary.stale:
        stale = f" · stale: {some(summary.stale, 1)}"
    return f"function: {summary.function} · performance: {summary.performance}{because}{stale}"


def other_hints(summary: Summary) -> tuple[str, ...]:
    """Hints that belong to no finding. A finding shows its own hint in full; this list shortens
    hints.
    """
    shown = tuple(f"{finding.where}: " for finding in summary.findings if finding.hint)
    return tuple(
        hint for hint in summary.hints if not hint.startswith(shown) and not MORE.fullmatch(hint)
    )


def counted(test: JudgedTest) -> str:
    """Counts of transfers that failed, were skipped or failed once: `1 failed, 2 skipped of
    12`; else empty.
    """
    missing = (
        ("failed", test.failed),
        ("skipped", test.skipped),
        ("unreadable", test.errors),
        ("failed once", test.failed_once),
    )
    counts = [f"{count} {what}" for what, count in missing if count]
    planned = test.measured + test.failed + test.skipped + test.errors
    if counts:
        return f"{', '.join(counts)} of {planned}"
    return ""


def rated(summary: Summary) -> str:
    """How many tests have the state that the performance of the whole has, or why it has none."""
    rows = [test for test in summary.tests if test.performance != "not rated"]
    same = sum(test.performance == summary.performance for test in rows)
    if summary.performance_because or not same:
        return summary.performance_because
    verb = "are " if summary.performance == "unstable" else ""
    return f"{same} of {len(rows)} rated tests {verb}{summary.performance}"


def test_name(test: str, shape: str) -> str:
    """A test with the way it was run, if that is not the usual one."""
    if shape in ("", "one_way"):
        return test
    return f"{test}, {shape.replace('_', ' ')}"


def test_title(test: JudgedTest) -> str:
    """A test with the way it was run, if that is not the usual one."""
    return test_name(test.test, test.shape)


def test_on_rail(test: JudgedTest) -> str:
    """A test with its rail, if it runs on one."""
    if test.rail:
        return f"{test_title(test)} on {test.rail}"
    return test_title(test)


def cells(test: JudgedTest, *, simulated: bool) -> tuple[str, ...]:
    """One test as the texts of `COLUMNS`."""
    because = f" ({test.because})" if test.because else ""
    label = _label(test, simulated=simulated)
    counts = counted(test)
    worst = ""
    if test.worst:
        worst = f"{test.worst.client} to {test.worst.server} {number(test.worst.value)}"
    return (
        test_title(test),
        test.rail or "all",
        f"{test.function} ({counts})" if counts else test.function,
        f"{test.performance}{because}",
        f"{number(test.median)} {unit_text(test.unit)}{label}" if test.median is not None else "",
        f"{number(test.ceiling)} ({test.basis})" if test.ceiling is not None else "",
        percent(test.ratio),
        worst,
        percent(test.change, signed=True),
    )


def number(value: float | None) -> str:
    """Four significant digits: what two runs of one fabric agree on at best."""
    if value is None:
        return ""
    if abs(value) < 10_000:
        return f"{value:.4g}"
    return f"{value:.0f}"


def percent(share: float | None, *, signed: bool = False) -> str:
    """A share with one decimal."""
    if share is None:
        return ""
    return f"{share:+.1%}" if signed else f"{share:.1%}"


def when(moment: str) -> str:
    """An RFC 3339 time for people: to the minute, and in UTC as it was written down."""
    if len(moment) >= 16 and moment.endswith("Z"):
        return f"{moment[:10]} {moment[11:16]} UTC"
    return moment


def duration(seconds: float) -> str:
    """A time span in the two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _label(test: JudgedTest, *, simulated: bool) -> str:
    if test.function == "replayed":
        return ", replayed"
    return ", simulated" if simulated else ""

"""The verdict as plain words and cells, shared by the table on the terminal and the Markdown file. Pure."""

from components.validation.summary import JudgedTest, Summary

COLUMNS = ("test", "rail", "function", "performance", "median", "ceiling", "ratio", "slowest")


def headline(summary: Summary) -> str:
    """Both axes in one line: `function: pass · performance: not rated (simulated)`."""
    because = f" ({summary.performance_because})" if summary.performance_because else ""
    return f"function: {summary.function} · performance: {summary.performance}{because}"


def cells(test: JudgedTest, *, simulated: bool) -> tuple[str, ...]:
    """One test as the texts of `COLUMNS`."""
    because = f" ({test.because})" if test.because else ""
    label = _label(test, simulated=simulated)
    worst = f"{test.worst.client} to {test.worst.server} {number(test.worst.value)}" if test.worst else ""
    return (
        test.test,
        test.rail or "all",
        _function(test),
        f"{test.performance}{because}",
        f"{number(test.median)} {test.unit}{label}" if test.median is not None else "",
        f"{number(test.ceiling)} ({test.basis})" if test.ceiling is not None else "",
        f"{test.ratio:.1%}" if test.ratio is not None else "",
        worst,
    )


def number(value: float | None) -> str:
    """Four significant digits: what two runs of one fabric agree on at best."""
    return "" if value is None else f"{value:.4g}"


def _function(test: JudgedTest) -> str:
    """With the counts where not everything was measured."""
    counts = [f"{count} {what}" for what, count in (("failed", test.failed), ("skipped", test.skipped)) if count]
    of = f" ({', '.join(counts)} of {test.measured + test.failed + test.skipped})" if counts else ""
    return f"{test.function}{of}"


def _label(test: JudgedTest, *, simulated: bool) -> str:
    if test.function == "replayed":
        return ", replayed"
    return ", simulated" if simulated else ""

"""How a test did from run to run."""

from collections.abc import Iterator, Sequence

from components.report.charts.canvas import (
    FAILED,
    MUTED,
    SURFACE,
    Canvas,
    frame,
    name_lines,
    series_colour,
)
from components.report.lines import test_name
from components.validation.history import Entry
from components.validation.records import unit_text
from stacks.frozen import frozen


@frozen
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
    """By run: how often the configuration changed before it. Values of different parts are not
    compared."""


def trends(runs: Sequence[Entry], baseline_run: str = "") -> list[Trend]:
    """A trend per test of the last run; nothing while there is only one run."""
    if len(runs) < 2:
        return []
    drawn = []
    units = {}
    for name, value in runs[-1].values.items():
        units[_line_of(name)[0]] = value.unit
    for test, unit in units.items():
        lines = _lines(test, runs)
        if any(len(line) - line.count(None) > 1 for line in lines.values()):
            ids = [run.run_id for run in runs]
            baseline = None
            if baseline_run in ids:
                baseline = ids.index(baseline_run)
            trend = Trend(
                title=test,
                unit=unit,
                runs=tuple(run.started_at for run in runs),
                lines=lines,
                settled=tuple(run.passed for run in runs),
                baseline=baseline,
                parts=tuple(_parts(runs)),
            )
            drawn.append(trend)
    return drawn


def _lines(test: str, runs: Sequence[Entry]) -> dict[str, tuple[float | None, ...]]:
    """The values of a test by line, one per run."""
    lines: dict[str, list[float | None]] = {}
    for at, run in enumerate(runs):
        for name, value in run.values.items():
            title, line = _line_of(name)
            if title == test:
                lines.setdefault(line, [None] * len(runs))[at] = value.median
    return {line: tuple(values) for line, values in sorted(lines.items())}


def _line_of(name: str) -> tuple[str, str]:
    """Title and line of a value, named after test, shape and rail, or after job and transport."""
    words = name.split(" ")
    return test_name(words[0], words[1]) if len(words) == 3 else words[0], words[-1] if words[
        1:
    ] else "all"


def _parts(runs: Sequence[Entry]) -> Iterator[int]:
    part, before = 0, runs[0].config
    for run in runs:
        part += run.config != before
        before = run.config
        yield part


def trend_chart(trend: Trend, name: str) -> str:
    """A filled mark is a run that passed.

    Hollow: it did not, or was not rated. Runs stand at equal distances.
    """
    canvas = Canvas(name, 500, 220, (52, 132, 12, 40))
    axes = canvas.axes()
    frame(axes)
    for number, (title, line) in enumerate(trend.lines.items()):
        colour = series_colour(number)
        known = {at: value for at, value in enumerate(line) if value is not None}
        label = f"{title}: {[*known.values()][-1]:.4g}"
        for part in dict.fromkeys(trend.parts[at] for at in known):
            of_part = {at: value for at, value in known.items() if trend.parts[at] == part}
            axes.plot([*of_part], [*of_part.values()], color=colour, linewidth=1.5, label=label)
            label = "_"  # the legend leaves it out
        for at, value in known.items():
            face, edge = (colour, colour) if trend.settled[at] else (SURFACE, FAILED)
            axes.plot([at], [value], "o", markersize=6, markerfacecolor=face, markeredgecolor=edge)
    low, high = axes.dataLim.intervaly
    room = max(high - low, 0.04 * high) * 0.25
    axes.set_ylim(low - room, high + room)
    axes.set_xlim(-0.4, len(trend.runs) - 0.6)
    step = max(1, -(-len(trend.runs) // 5))
    axes.set_xticks(range(0, len(trend.runs), step), _moments(trend.runs)[::step])
    unit = unit_text(trend.unit)
    axes.set_ylabel(unit)
    if trend.baseline is not None:
        axes.axvline(trend.baseline, color=MUTED, linewidth=1, dashes=(3, 2))
    name_lines(axes)
    return canvas.svg(f"{trend.title} over the last {len(trend.runs)} runs, in {unit}")


def _moments(runs: Sequence[str]) -> list[str]:
    """Days if they are unique, else days and times."""
    days = [run[:10] for run in runs]
    if len(set(days)) == len(days):
        return days
    return [f"{run[5:10]} {run[11:16]}" for run in runs]

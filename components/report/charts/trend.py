"""How a test did from run to run."""

from collections.abc import Sequence

from components.report.charts.canvas import (
    FAILED,
    MUTED,
    SURFACE,
    Canvas,
    frame,
    name_lines,
    series_colour,
)
from components.report.shapes import Trend
from components.validation.records import unit_text


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
    return days if len(set(days)) == len(days) else [f"{run[5:10]} {run[11:16]}" for run in runs]

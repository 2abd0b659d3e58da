"""How a test did from run to run."""

from collections.abc import Sequence

from components.report.charts.canvas import (
    FAILED,
    MUTED,
    SURFACE,
    Canvas,
    end_labels,
    frame,
    series_colour,
)
from components.report.shapes import Trend
from components.validation.records import unit_text

WIDTH, HEIGHT = 480, 220
MARGINS = (52, 112, 12, 40)
INNER = HEIGHT - MARGINS[2] - MARGINS[3]


def trend_chart(trend: Trend, name: str) -> str:
    """A filled mark is a run that passed.

    Hollow: it did not, or was not rated. Runs stand at equal distances.
    """
    canvas = Canvas(WIDTH, HEIGHT, MARGINS)
    axes = canvas.axes()
    frame(axes)
    values = [value for line in trend.lines.values() for value in line if value is not None]
    low, high = min(values), max(values)
    room = max(high - low, 0.04 * high) * 0.25
    bottom, top = low - room, high + room
    ends: list[tuple[float, str, str]] = []
    for number, (label, line) in enumerate(trend.lines.items()):
        colour = series_colour(number)
        at = [index for index, value in enumerate(line) if value is not None]
        known = [value for value in line if value is not None]
        if not known:
            continue
        for part in dict.fromkeys(trend.parts):
            of_part = [place for place, index in enumerate(at) if trend.parts[index] == part]
            axes.plot(
                [at[place] for place in of_part],
                [known[place] for place in of_part],
                color=colour,
                linewidth=1.5,
            )
        _marks(canvas, at, known, [trend.settled[index] for index in at], colour)
        ends.append(((known[-1] - bottom) / (top - bottom), f"{label}: {known[-1]:.4g}", colour))
    axes.set_ylim(bottom, top)
    axes.set_xlim(-0.4, len(trend.runs) - 0.6)
    step = max(1, -(-len(trend.runs) // 5))
    axes.set_xticks(range(0, len(trend.runs), step), _moments(trend.runs)[::step])
    axes.set_ylabel(unit_text(trend.unit))
    axes.yaxis.label.set_color(MUTED)
    if trend.baseline is not None:
        axes.axvline(trend.baseline, color=MUTED, linewidth=1, dashes=(3, 2))
    end_labels(axes, INNER, ends)
    return canvas.svg(
        name, f"{trend.title} over the last {len(trend.runs)} runs, in {unit_text(trend.unit)}"
    )


def _moments(runs: Sequence[str]) -> list[str]:
    """Days if they are unique, else days and times."""
    days = [run[:10] for run in runs]
    return days if len(set(days)) == len(days) else [f"{run[5:10]} {run[11:16]}" for run in runs]


def _marks(
    canvas: Canvas, at: Sequence[int], values: Sequence[float], passed: Sequence[bool], colour: str
) -> None:
    axes = canvas.figure.axes[0]
    for index, value, good in zip(at, values, passed, strict=True):
        face, edge = (colour, colour) if good else (SURFACE, FAILED)
        axes.plot([index], [value], "o", markersize=6, markerfacecolor=face, markeredgecolor=edge)

"""Values against message size: bandwidth, latency, busbw and time."""

from collections.abc import Mapping, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from components.report.charts.canvas import MUTED, Canvas, frame, name_lines, series_colour
from components.report.shapes import Sizes, short, three
from components.validation.benchmarks.verbs.plan import PROGRAMS
from stacks.words import bytes_text

Line = Sequence[tuple[int, float]]
"""Values by message size in bytes."""
SIZE = (512, 300)
MARGINS = (64, 132, 12, 44)
SOLID: tuple[float | None, ...] = (None, None)
DASHES = {4096: (5.0, 2.0), 2048: (3.0, 2.0), 1024: (1.0, 2.0)}


def size_chart(sizes: Sizes, name: str) -> str:
    """Lines: median per rail, with the band from least to greatest.

    Dashed: what a path MTU allows, or the 99th percentile of a latency, whose axes are logarithmic.
    """
    canvas = Canvas(name, *SIZE, MARGINS)
    axes = canvas.axes()
    for mtu, points in sizes.ceilings().items():
        _draw(axes, f"MTU {mtu}", points, MUTED, DASHES[mtu])
    for number, band in enumerate(sizes.bands):
        colour = series_colour(number)
        if band.curves > 1:
            least, greatest = map(min, band.values.values()), map(max, band.values.values())
            axes.fill_between(
                [*band.values], [*least], [*greatest], color=colour, alpha=0.18, linewidth=0
            )
        _draw(axes, band.rail, _medians(band.values), colour)
        if band.tails:
            _draw(axes, "p99", _medians(band.tails), colour, DASHES[2048])
    unit = sizes.unit
    if sizes.latency:
        way = "round trip" if PROGRAMS[sizes.test].round_trip else "one way"
        unit = f"{way}, µs"
        _plain_log(axes)
    else:
        axes.set_ylim(bottom=0)
    _finish(axes, sizes.sizes_bytes, unit)
    return canvas.svg(f"{sizes.test} against message size, in {unit}")


def lines_chart(
    lines: Mapping[str, Line], ceilings: Mapping[str, Line], unit: str, name: str, label: str
) -> str:
    """Lines over message sizes, and dashed ceilings. Both axes are logarithmic."""
    canvas = Canvas(name, *SIZE, MARGINS)
    axes = canvas.axes()
    for number, (title, points) in enumerate(lines.items()):
        _draw(axes, short(title), points, series_colour(number))
    for title, points in ceilings.items():
        _draw(axes, title, points, MUTED, DASHES[4096])
    _plain_log(axes)
    _finish(axes, [size for points in lines.values() for size, _ in points], unit)
    return canvas.svg(label)


def _medians(values: Mapping[int, list[float]]) -> Line:
    return [(size, median(of_size)) for size, of_size in values.items()]


def _draw(
    axes: Axes, title: str, points: Line, colour: str, dashes: tuple[float | None, ...] = SOLID
) -> None:
    """A line that is named with its last value."""
    label = f"{title}: {three(points[-1][1])}"
    width = 2 if dashes == SOLID else 1
    x, y = zip(*points, strict=True)
    axes.plot(x, y, color=colour, linewidth=width, dashes=dashes, label=label)


def _finish(axes: Axes, sizes_bytes: Sequence[int], unit: str) -> None:
    """Powers of two, a handful of them named; the names of the lines, and the unit."""
    frame(axes)
    name_lines(axes)
    axes.set_ylabel(unit)
    axes.set_xscale("log", base=2)
    least, most = min(sizes_bytes), max(sizes_bytes)
    axes.set_xlim(least, most)
    powers = [2**power for power in range(least.bit_length() - 1, most.bit_length())]
    inside = [power for power in powers if least <= power <= most]
    named = inside[:: max(1, -(-len(inside) // 6))]
    axes.set_xticks(named, [bytes_text(power) for power in named])
    axes.minorticks_off()
    axes.set_xlabel("message size")


def _plain_log(axes: Axes) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high / low < 30:
        low, high = low / 1.3, high * 1.3  # few ticks fall into a narrow range
    axes.set_ylim(low, high)
    steps = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(10, steps))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())

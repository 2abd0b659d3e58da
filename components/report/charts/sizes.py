"""Bandwidth and latency against message size, and busbw and time of the all-reduce."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from components.report.charts.canvas import (
    INK,
    MUTED,
    SMALL,
    Canvas,
    end_labels,
    frame,
    series_colour,
)
from components.report.shapes import Band, Sizes, short, three
from components.validation.benchmarks.verbs.read import PROGRAMS
from components.validation.records import CurvePoint
from stacks.words import bytes_text

Line = Sequence[tuple[int, float]]
"""Values by message size in bytes."""
WIDTH, HEIGHT = 480, 300
MARGINS = (52, 112, 12, 44)
INNER = HEIGHT - MARGINS[2] - MARGINS[3]
DASHES: dict[int, tuple[float, ...]] = {4096: (5, 2), 2048: (3, 2), 1024: (1, 2)}


def bandwidth_chart(sizes: Sizes, name: str) -> str:
    """Lines: median per rail, with the band from least to greatest.

    Dashed: what a path MTU allows.
    """
    canvas = Canvas(WIDTH, HEIGHT, MARGINS)
    axes = canvas.axes()
    frame(axes)
    ceilings = sizes.ceilings()
    labels: list[tuple[float, str, str]] = []
    top = (
        max(
            [
                *(v for band in sizes.bands for v in band.greatest),
                *(v[-1] for v in ceilings.values()),
            ]
        )
        * 1.06
    )
    for mtu, values in ceilings.items():
        axes.plot(sizes.ceiling_sizes_bytes, values, color=MUTED, linewidth=1, dashes=DASHES[mtu])
        labels.append((values[-1] / top, f"MTU {mtu}: {values[-1]:.4g}", MUTED))
    for number, band in enumerate(sizes.bands):
        _band(axes, band, series_colour(number))
        labels.append(
            (band.middle[-1] / top, f"{band.rail}: {three(band.middle[-1])}", series_colour(number))
        )
    axes.set_ylim(0, top)
    _message_axis(axes, [size for band in sizes.bands for size in band.sizes_bytes])
    axes.set_ylabel("Gbit/s")
    end_labels(axes, INNER, labels)
    return canvas.svg(
        name, f"{sizes.test} against message size, in Gbit/s, with ceilings of path MTUs"
    )


def latency_chart(sizes: Sizes, name: str) -> str:
    """Solid: median. Dashed: 99th percentile. Both axes are logarithmic."""
    canvas = Canvas(WIDTH, HEIGHT, MARGINS)
    axes = canvas.axes()
    frame(axes)
    axes.set_yscale("log")
    ends: list[tuple[float, str, str]] = []
    for number, band in enumerate(sizes.bands):
        colour = series_colour(number)
        _band(axes, band, colour)
        ends.append((band.middle[-1], f"{band.rail}: {three(band.middle[-1])}", colour))
        if band.tail:
            axes.plot(band.sizes_bytes, band.tail, color=colour, linewidth=1, dashes=(3, 2))
            ends.append((band.tail[-1], f"p99: {three(band.tail[-1])}", colour))
    _message_axis(axes, [size for band in sizes.bands for size in band.sizes_bytes])
    _plain_log(axes)
    way = "round trip" if PROGRAMS[sizes.test].round_trip else "one way"
    axes.set_ylabel(f"{way}, µs")
    end_labels(
        axes, INNER, [(_fraction(axes, value), text, colour) for value, text, colour in ends]
    )
    return canvas.svg(name, f"{sizes.test} against message size, in microseconds")


def busbw_chart(
    curves: Mapping[str, Sequence[CurvePoint]], ceiling_gbyte_s: float | None, name: str
) -> str:
    """A line per transport over message sizes, and the ceiling where there is one."""
    busbw: dict[str, Line] = {}
    for label, points in curves.items():
        busbw[label] = [(point.message_bytes, point.value) for point in points if point.value > 0]
    ceilings: dict[str, Line] = {}
    if ceiling_gbyte_s:
        sizes = [size for points in busbw.values() for size, _ in points]
        ceilings["ceiling"] = [(min(sizes), ceiling_gbyte_s), (max(sizes), ceiling_gbyte_s)]
    label = "bus bandwidth of the all-reduce against message size"
    return lines_chart(busbw, ceilings, "busbw, GB/s", name, label)


def time_chart(curves: Mapping[str, Sequence[CurvePoint]], name: str) -> str:
    """A line per transport over message sizes: how long one all-reduce takes."""
    times: dict[str, Line] = {}
    for label, points in curves.items():
        times[label] = [(point.message_bytes, point.time_us) for point in points if point.time_us]
    return lines_chart(times, {}, "time, µs", name, "time of the all-reduce against message size")


def lines_chart(
    lines: Mapping[str, Line], ceilings: Mapping[str, Line], unit: str, name: str, label: str
) -> str:
    """Lines over message sizes, and dashed ceilings. Both axes are logarithmic."""
    canvas = Canvas(WIDTH, HEIGHT, MARGINS)
    axes = canvas.axes()
    frame(axes)
    axes.set_yscale("log")
    ends: list[tuple[float, str, str]] = []
    for number, (title, points) in enumerate(lines.items()):
        colour, last = series_colour(number), points[-1][1]
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=2)
        ends.append((last, f"{short(title)}: {three(last)}", colour))
    for title, points in ceilings.items():
        last = points[-1][1]
        axes.plot(*zip(*points, strict=True), color=MUTED, linewidth=1, dashes=(5, 2))
        ends.append((last, f"{title}: {three(last)}", MUTED))
    _message_axis(axes, [size for points in lines.values() for size, _ in points])
    _plain_log(axes)
    axes.set_ylabel(unit)
    end_labels(
        axes, INNER, [(_fraction(axes, value), text, colour) for value, text, colour in ends]
    )
    return canvas.svg(name, label)


def _band(axes: Axes, band: Band, colour: str) -> None:
    if band.curves > 1:
        axes.fill_between(
            band.sizes_bytes, band.least, band.greatest, color=colour, alpha=0.18, linewidth=0
        )
    axes.plot(band.sizes_bytes, band.middle, color=colour, linewidth=2)


def _message_axis(axes: Axes, sizes_bytes: Sequence[int]) -> None:
    """Powers of two, a handful of them named."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(min(sizes_bytes), max(sizes_bytes))
    least, most = min(sizes_bytes), max(sizes_bytes)
    powers = [2**power for power in range(least.bit_length() - 1, most.bit_length())]
    inside = [power for power in powers if least <= power <= most]
    named = inside[:: max(1, -(-len(inside) // 6))]
    axes.set_xticks(named, [bytes_text(power) for power in named])
    axes.minorticks_off()
    axes.set_xlabel("message size")
    axes.xaxis.label.set_color(MUTED)


def _plain_log(axes: Axes) -> None:
    low, high = axes.get_ylim()
    if high / low < 30:
        low, high = low / 1.3, high * 1.3  # few ticks fall into a narrow range
    axes.set_ylim(low, high)
    steps = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(10, steps))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="y", labelsize=SMALL)
    axes.yaxis.label.set_color(MUTED)
    axes.title.set_color(INK)


def _fraction(axes: Axes, value: float) -> float:
    """The position of a value between the bottom and the top of a logarithmic axis."""
    _, y = axes.transAxes.inverted().transform(
        axes.transData.transform((axes.get_xlim()[0], value))
    )
    return float(y)

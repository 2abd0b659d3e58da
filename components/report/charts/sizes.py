"""Values against message size: bandwidth, latency, busbw and time."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from components.physics.ceilings import PATH_MTUS_BYTES, Path, bandwidth_ceiling
from components.report.charts.canvas import (
    MUTED,
    Canvas,
    frame,
    name_lines,
    series_colour,
    short,
    three,
)
from components.validation.benchmarks.verbs.plan import PROGRAMS
from components.validation.records import CurvePoint, RunRecord, TransferResult
from stacks.benchmarks import VerbsTest
from stacks.frozen import frozen
from stacks.words import bytes_text

Line = Sequence[tuple[int, float]]
"""Values by message size in bytes."""
SIZE = (512, 300)
MARGINS = (64, 132, 12, 44)
SOLID: tuple[float | None, ...] = (None, None)
DASHES = {4096: (5.0, 2.0), 2048: (3.0, 2.0), 1024: (1.0, 2.0)}


SHOWN_MTUS_BYTES = tuple(mtu for mtu in PATH_MTUS_BYTES if mtu >= 1024)


@frozen
class Band:
    """Curves of one test on one rail, put together: the values of each message size."""

    rail: str
    values: dict[int, list[float]]
    tails: dict[int, list[float]]
    """The 99th percentiles; empty where the tool does not print one of each size."""
    curves: int


@frozen
class Sizes:
    """One test over message sizes on all rails."""

    test: VerbsTest
    unit: str
    bands: tuple[Band, ...]
    line_rate_gbit_s: float | None
    """None where ports do not report it, where rails differ, and in the simulator; then no ceiling
    is drawn."""

    @property
    def latency(self) -> bool:
        return self.unit == "us"

    @property
    def sizes_bytes(self) -> list[int]:
        return [size for band in self.bands for size in band.values]

    def ceilings(self) -> dict[int, list[tuple[int, float]]]:
        """By path MTU, the most that a port of this rate can carry at each power of two."""
        if self.line_rate_gbit_s is None or self.unit != "Gbit/s":
            return {}
        low, high = min(self.sizes_bytes), max(self.sizes_bytes)
        between = []
        for power in range(low.bit_length(), (high - 1).bit_length()):
            between.append(2**power)
        ceilings = {}
        for mtu_bytes in SHOWN_MTUS_BYTES:
            path = Path(line_rate_gbit_s=self.line_rate_gbit_s, path_mtu_bytes=mtu_bytes)
            points = []
            for size in (low, *between, high):
                points.append((size, bandwidth_ceiling(replace(path, message_bytes=size)).value))
            ceilings[mtu_bytes] = points
        return ceilings


def sizes(record: RunRecord) -> list[Sizes]:
    """Each test over message sizes; latency tests last."""
    by_test: dict[str, list[TransferResult]] = {}
    for transfer in record.transfers:
        if transfer.curve and transfer.outcome == "measured":
            by_test.setdefault(transfer.test, []).append(transfer)
    last = sorted(by_test, key=lambda test: (test.endswith("_lat"), test))
    return [_sizes(by_test[test], simulated=record.simulated) for test in last]


def _sizes(transfers: list[TransferResult], *, simulated: bool) -> Sizes:
    rates = {None if simulated else t.line_rate_gbit_s for t in transfers}
    line_rate_gbit_s = rates.pop() if len(rates) == 1 else None
    curves: dict[str, list[tuple[CurvePoint, ...]]] = {}
    for t in transfers:
        curves.setdefault(t.rail, []).append(t.curve)
    return Sizes(
        test=transfers[0].test,
        unit=transfers[0].unit,
        bands=tuple(_band(rail, of_rail) for rail, of_rail in curves.items()),
        line_rate_gbit_s=line_rate_gbit_s,
    )


def _band(rail: str, curves: list[tuple[CurvePoint, ...]]) -> Band:
    values: dict[int, list[float]] = {}
    tails: dict[int, list[float]] = {}
    points = itertools.chain.from_iterable(curves)
    for point in sorted(points, key=lambda point: point.message_bytes):
        values.setdefault(point.message_bytes, []).append(point.value)
        if point.tail is not None:
            tails.setdefault(point.message_bytes, []).append(point.tail)
    if tails.keys() != values.keys():
        tails = {}
    return Band(rail=rail, values=values, tails=tails, curves=len(curves))


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
        way = "one way"
        if PROGRAMS[sizes.test].round_trip:
            way = "round trip"
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

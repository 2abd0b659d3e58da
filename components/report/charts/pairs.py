"""A heatmap of one test on one rail: how well each pair performs."""

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator, PercentFormatter

from components.report.charts.canvas import FAILED, INK, SMALL, UNTESTED, Canvas, short, three
from components.validation.records import RailTest
from stacks.words import plural

MOST_LABELS = 18
MOST_NUMBERS = 8
"""Nodes up to which each cell has its number."""
SIDE, CELL = 320, 72
"""Size of the square, and largest size of a cell."""
TICKS = MaxNLocator(8, steps=(1, 5, 10))
LOWEST_SHARE = 0.8
"""The colours span at least this to 1, so that noise between good pairs looks like noise."""


def pair_chart(test: RailTest, name: str) -> str:
    """Rows are clients, columns servers.

    Colour: share of the reference. Grey: not tested. Cross: failed.
    """
    nodes = test.nodes
    count = len(nodes)
    longest = max(len(short(node)) for node in nodes)
    margin = 34 + int(longest * 6.4)
    side = min(SIDE, CELL * count)
    canvas = Canvas(name, margin + side + 76, margin + side + 12, (margin, 76, 12, margin))
    axes = canvas.axes()
    shares = np.full((count, count), np.nan)
    place = {node: index for index, node in enumerate(nodes)}
    for client, server in test.values:
        shares[place[client], place[server]] = test.share((client, server))
    floor = min(LOWEST_SHARE, float(np.nanmin(shares)))
    top = max(1.0, float(np.nanmax(shares)))
    axes.set_facecolor(UNTESTED)
    cells, scale = np.ma.masked_invalid(shares), Normalize(floor, top)
    image = axes.imshow(cells, cmap="cividis", norm=scale, aspect="auto", interpolation="none")
    failed = set()
    for t in test.transfers:
        if t.outcome == "failed":
            failed.add((t.client, t.server))
    for client, server in sorted(failed):
        axes.plot(
            place[server],
            place[client],
            "x",
            color=FAILED,
            markersize=max(3, 90 / count),
            markeredgewidth=1.6,
        )
    if count <= MOST_NUMBERS:
        _numbers(canvas, test, place, (floor, top))
    step = -(-count // MOST_LABELS)
    ticks, labels = range(0, count, step), [short(node) for node in nodes[::step]]
    axes.set_yticks(ticks, labels)
    axes.set_xticks(ticks, labels, rotation=90)
    axes.set_ylabel("client")
    axes.set_xlabel("server")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    beside = canvas.axes_at(margin + side + 16, margin, 12, side)
    bar = canvas.figure.colorbar(image, cax=beside, format=PercentFormatter(1, 0), ticks=TICKS)
    bar.outline.set_visible(False)
    beside.tick_params(length=0)
    beside.axhline(1.0, color=INK, linewidth=1)
    return canvas.svg(
        f"{test.test} on {test.rail}: {plural(len(test.values), 'pair')} of {count} nodes, "
        f"from {float(np.nanmin(shares)):.1%} of {test.basis}"
    )


def _numbers(
    canvas: Canvas, test: RailTest, place: dict[str, int], span: tuple[float, float]
) -> None:
    axes = canvas.figure.axes[0]
    size = SMALL if len(place) > 4 else SMALL + 1
    for pair in test.values:
        share = test.share(pair)
        dark = (share - span[0]) / (span[1] - span[0]) < 0.55
        text = three(test.values[pair])
        # on the cell's colour, which is the same in light and dark
        colour = "#ffffff" if dark else "#111111"
        x, y = place[pair[1]], place[pair[0]]
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=colour)

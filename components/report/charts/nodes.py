"""How each node does over all its pairs: a box plot per node, a panel per rail."""

import numpy as np

from components.report.charts.canvas import FAILED, INK, SMALL, Canvas, frame, series_colour, short
from components.validation.records import RailTest

PANEL = 96
MOST_UPRIGHT = 12
GAP = 26
QUARTILES = (0, 25, 50, 75, 100)
OUTLIER_SHARE, LATENCY_OUTLIER_SHARE = 0.05, 0.15
"""A node whose median is this much worse than that of all nodes is marked."""


def node_chart(tests: list[RailTest], name: str) -> str:
    """Box: half of the pairs. Line: all of them. Dot: the median."""
    nodes = sorted({node for test in tests for node in test.nodes})
    longest = max(len(short(node)) for node in nodes)
    below = 14 + (int(longest * 6.4) if len(nodes) > 12 else 14)
    width = min(1000, max(460, 90 + 14 * len(nodes)))
    height = 24 + below + len(tests) * (PANEL + GAP) - GAP
    canvas = Canvas(name, width, height, (46, 12, 24, below))
    lows = [share for test in tests for share in map(test.share, test.values)]
    bottom = min(0.85, min(lows, default=1.0) - 0.02)
    top = max(1.02, max(lows, default=1.0) + 0.02)
    step = -(-len(nodes) // 72)
    for row, test in enumerate(tests):
        axes = canvas.axes(row, len(tests), GAP)
        frame(axes)
        _panel(canvas, test, nodes, series_colour(row))
        axes.set_ylim(bottom, top)
        axes.set_xlim(-0.7, len(nodes) - 0.3)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_title(test.rail, loc="left", fontsize=SMALL, color=INK, pad=5)
        axes.tick_params(axis="x", length=0)
        if row == len(tests) - 1:
            labels = [short(node) for node in nodes[::step]]
            rotation = 90 if len(nodes) > MOST_UPRIGHT else 0
            axes.set_xticks(range(0, len(nodes), step), labels, rotation=rotation)
        else:
            axes.set_xticks([])
    first = tests[0]
    return canvas.svg(f"{first.test} per node: spread over its pairs, as share of {first.basis}")


def _panel(canvas: Canvas, test: RailTest, nodes: list[str], colour: str) -> None:
    axes = canvas.figure.axes[-1]
    boxes = {}
    for at, node in enumerate(nodes):
        shares = [test.share(pair) for pair in test.values if node in pair]
        if shares:
            boxes[at] = np.percentile(shares, QUARTILES)
    if not boxes:
        return
    middle = sorted(box[2] for box in boxes.values())[len(boxes) // 2]
    wide = min(9.0, 0.55 * (canvas.width - 58) / len(nodes))
    least = middle * (1 - OUTLIER_SHARE)
    if test.unit == "us":
        least = middle * (1 - LATENCY_OUTLIER_SHARE)
    groups = (
        (colour, {at: box for at, box in boxes.items() if box[2] >= least}),
        (FAILED, {at: box for at, box in boxes.items() if box[2] < least}),
    )
    for shade, group in groups:
        if group:
            places = list(group)
            columns = list(zip(*group.values(), strict=True))
            axes.vlines(places, columns[0], columns[4], color=shade, linewidth=1)
            axes.vlines(places, columns[1], columns[3], color=shade, linewidth=wide, alpha=0.45)
            axes.plot(places, columns[2], "o", color=shade, markersize=max(2.5, wide / 2.2))

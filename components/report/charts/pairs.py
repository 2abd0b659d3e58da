"""A heatmap of one test on one rail: how well each pair performs."""

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Normalize

from components.report.charts.canvas import FAILED, INK, MUTED, SMALL, UNTESTED, Canvas
from components.report.shapes import Matrix, short, three
from stacks.words import plural

MOST_LABELS = 18
MOST_NUMBERS = 8
"""Nodes up to which each cell has its number."""
SIDE, CELL = 320, 72
"""Size of the square, and largest size of a cell."""
LOWEST_SHARE = 0.8
"""The colours span at least this to 1, so that noise between good pairs looks like noise."""


def pair_chart(matrix: Matrix, name: str) -> str:
    """Rows are clients, columns servers.

    Colour: share of the reference. Grey: not tested. Cross: failed.
    """
    count = len(matrix.nodes)
    longest = max(len(short(node)) for node in matrix.nodes)
    margin = 34 + int(longest * 6.4)
    side = min(SIDE, CELL * count)
    canvas = Canvas(margin + side + 76, margin + side + 12, (margin, 76, 12, margin))
    axes = canvas.axes()
    shares = np.full((count, count), np.nan)
    place = {node: index for index, node in enumerate(matrix.nodes)}
    for client, server in matrix.values:
        shares[place[client], place[server]] = matrix.share((client, server))
    floor = min(LOWEST_SHARE, float(np.nanmin(shares)))
    top = max(1.0, float(np.nanmax(shares)))
    scale, colours = Normalize(floor, top), colormaps["cividis"]
    axes.set_facecolor(UNTESTED)
    axes.imshow(
        np.ma.masked_invalid(shares), cmap=colours, norm=scale, interpolation="none", aspect="auto"
    )
    for client, server in sorted(matrix.failed):
        axes.plot(
            place[server],
            place[client],
            "x",
            color=FAILED,
            markersize=max(3, 90 / count),
            markeredgewidth=1.6,
        )
    if count <= MOST_NUMBERS:
        _numbers(canvas, matrix, place, (floor, top))
    step = -(-count // MOST_LABELS)
    ticks, labels = range(0, count, step), [short(node) for node in matrix.nodes[::step]]
    axes.set_yticks(ticks, labels)
    axes.set_xticks(ticks, labels, rotation=90)
    axes.set_ylabel("client")
    axes.set_xlabel("server")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _bar(canvas, (floor, top))
    return canvas.svg(
        name,
        f"{matrix.test} on {matrix.rail}: {plural(len(matrix.values), 'pair')} of {count} nodes, "
        f"from {floor if not matrix.values else float(np.nanmin(shares)):.1%} of {matrix.basis}",
    )


def _numbers(
    canvas: Canvas, matrix: Matrix, place: dict[str, int], span: tuple[float, float]
) -> None:
    axes = canvas.figure.axes[0]
    size = SMALL if len(matrix.nodes) > 4 else SMALL + 1
    for pair in matrix.values:
        share = matrix.share(pair)
        dark = (share - span[0]) / (span[1] - span[0]) < 0.55
        text = three(matrix.values[pair])
        # on the cell's colour, which is the same in light and dark
        colour = "#ffffff" if dark else "#111111"
        x, y = place[pair[1]], place[pair[0]]
        axes.text(x, y, text, ha="center", va="center", fontsize=size, color=colour)


def _bar(canvas: Canvas, span: tuple[float, float]) -> None:
    """The legend of the colours."""
    left = (canvas.width - 60) / canvas.width
    inner = canvas.height - canvas.top - canvas.bottom
    box = (left, canvas.bottom / canvas.height, 12 / canvas.width, inner / canvas.height)
    axes = canvas.figure.add_axes(box)
    steps = np.linspace(span[0], span[1], 64).reshape(-1, 1)
    extent = (0.0, 1.0, span[0], span[1])
    axes.imshow(
        steps, cmap="cividis", origin="lower", aspect="auto", extent=extent, interpolation="none"
    )
    axes.yaxis.tick_right()
    step = 0.05 if span[1] - span[0] < 0.45 else 0.1
    marks = [count * step for count in range(round(span[0] / step), round(span[1] / step) + 1)]
    shown = [mark for mark in marks if span[0] <= mark <= span[1] + 1e-9]
    axes.set_yticks(shown, [f"{mark:.0%}" for mark in shown])
    axes.set_xticks([])
    axes.tick_params(length=0, labelcolor=MUTED)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.axhline(1.0, color=INK, linewidth=1)

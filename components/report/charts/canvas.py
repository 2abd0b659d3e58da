"""One drawing: matplotlib without its defaults, so that equal values give equal bytes everywhere.

A drawing is made in stand-ins for colours, which become the page's CSS variables in the finished
SVG: no fonts, no colours, no names of its own, so that it fits into a page with others.
"""

import io
import re
import warnings
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from components.finding import plain

INK = "#010101"
MUTED = "#020202"
GRID = "#030303"
SURFACE = "#040404"
UNTESTED = "#050505"
FAILED = "#060606"
SERIES = tuple(f"#0101{n:02x}" for n in range(0x10, 0x18))
"""Colours of lines, which the page keeps distinct for colour-blind readers too."""

VARIABLE_OF = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SURFACE: "var(--surface)",
    UNTESTED: "var(--untested)",
    FAILED: "var(--fail)",
    **{colour: f"var(--s{n})" for n, colour in enumerate(SERIES)},
}

LARGEST = 1.12
"""How far a drawing grows where there is room: text should not be larger than that around it."""
OUTSIDE = re.compile(
    r"^.*?<svg [^>]*>|<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL
)
TAG = re.compile("<[^>]+>")
IN_TAG = (
    (re.compile('^<g id="[^"]*"'), "<g"),
    (re.compile("xlink:href="), "href="),
    (re.compile("^<image "), '<image preserveAspectRatio="none" '),
    (re.compile(r"font: (?:bold |\d{3} )?([\d.]+)px [^;]+"), r"font-size: \1px"),
    (re.compile(r"(-?\d+\.\d\d)\d+"), r"\1"),
    (re.compile("; "), ";"),
    (re.compile(": "), ":"),
)
"""What a page needs otherwise in a tag than matplotlib writes it."""
COLOUR = re.compile(r"#[0-9a-f]{6}\b")

POINTS_PER_INCH = 72
TEXT = 12
SMALL = 11


def short(name: str, most: int = 12) -> str:
    """A node's name for the edge of a chart, cut in the middle: its end makes it unique."""
    if len(name) <= most:
        return name
    return f"{name[: most - 7]}…{name[-6:]}"


def three(value: float) -> str:
    """Three significant digits, and no powers of ten: what a chart has room for."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")


def series_colour(number: int) -> str:
    """The colour of a line; they repeat after eight, which is as many rails as a node has."""
    return SERIES[number % len(SERIES)]


def prepare(name: str) -> None:
    """Sets everything that decides how a drawing looks, whatever the user's own settings are."""
    mpl.rcdefaults()
    # text stays text: it is found, copied, and set in the reader's own font
    mpl.rc("svg", fonttype="none", hashsalt=name, image_inline=True)
    mpl.rc("text", parse_math=False, color=INK)  # a dollar sign in a name is a dollar sign
    # comes with matplotlib, and is wider than what a browser uses
    mpl.rc("font", family="DejaVu Sans", size=TEXT)
    mpl.rc("axes", edgecolor=GRID, facecolor="none", labelcolor=MUTED, labelsize=SMALL, linewidth=1)
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("figure", facecolor="none")
    mpl.rc("savefig", facecolor="none")
    mpl.rc("grid", color=GRID, linewidth=0.8)
    mpl.rc("image", composite_image=False)
    mpl.rc("lines", solid_capstyle="round")
    mpl.rc("legend", frameon=False, fontsize=SMALL, labelcolor="linecolor", handlelength=0.8)
    mpl.rc("xtick", color=GRID, labelcolor=MUTED, labelsize=SMALL)
    mpl.rc("ytick", color=GRID, labelcolor=MUTED, labelsize=SMALL)


class Canvas:
    """A figure of a fixed size in CSS pixels with fixed margins, so that no font moves the axes.

    Its name is unique on the page.
    """

    def __init__(
        self, name: str, width: int, height: int, margins: tuple[int, int, int, int]
    ) -> None:
        """Margins are left, right, top and bottom."""
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = margins
        prepare(name)
        self.figure = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))
        FigureCanvasSVG(self.figure)

    def axes(self, row: int = 0, rows: int = 1, gap: int = 0) -> Axes:
        """The axes of one of `rows` panels, the first one on top."""
        inner = self.height - self.top - self.bottom
        panel = (inner - gap * (rows - 1)) / rows
        below = self.bottom + (rows - 1 - row) * (panel + gap)
        return self.axes_at(self.left, below, self.width - self.left - self.right, panel)

    def axes_at(self, left: float, below: float, width: float, height: float) -> Axes:
        """Axes in a box of CSS pixels."""
        across, up = self.width, self.height
        axes = self.figure.add_axes((left / across, below / up, width / across, height / up))
        axes.tick_params(length=3)
        return axes

    def svg(self, label: str) -> str:
        """The drawing as an element for a page; the label is for those who cannot see it."""
        text = io.StringIO()
        with warnings.catch_warnings():
            # the font that only measures lacks a letter; the reader's own font may have it
            warnings.filterwarnings("ignore", message=r"Glyph \d+")
            self.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        body = TAG.sub(_for_page, OUTSIDE.sub("", plain(text.getvalue())))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
            f'aria-label="{escape(plain(label))}" viewBox="0 0 {self.width} {self.height}" '
            f'style="max-width:{self.width * LARGEST:.0f}px">{body}'
        )


def _for_page(tag: re.Match[str]) -> str:
    text = tag[0]
    for pattern, replacement in IN_TAG:
        text = pattern.sub(replacement, text)
    return COLOUR.sub(lambda colour: VARIABLE_OF.get(colour[0], colour[0]), text)


def frame(axes: Axes) -> None:
    """Horizontal lines to read values off, and no other ones."""
    axes.grid(visible=True, axis="y", color=GRID)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def name_lines(axes: Axes) -> None:
    """Names lines beside the axes, in their colours."""
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0)

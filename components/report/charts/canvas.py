"""One drawing: matplotlib without its defaults, so that equal values give equal bytes everywhere.

A drawing is made in stand-ins for colours, which become the page's CSS variables in the finished
SVG: no fonts, no colours, no names of its own, so that it fits into a page with others.
"""

import io
import re
import warnings
import xml.etree.ElementTree as ET  # reads only what matplotlib has just written
from collections.abc import Iterator, Sequence

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
ACCENT = "#070707"
SERIES = tuple(f"#0101{n:02x}" for n in range(0x10, 0x18))
"""Colours of lines, which the page keeps distinct for colour-blind readers too."""

VARIABLE_OF = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    SURFACE: "var(--surface)",
    UNTESTED: "var(--untested)",
    FAILED: "var(--fail)",
    ACCENT: "var(--accent)",
    **{colour: f"var(--s{n})" for n, colour in enumerate(SERIES)},
}

SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 1.12
"""How far a drawing grows where there is room: text should not be larger than that around it."""
LINK = "{http://www.w3.org/1999/xlink}href"
DROPPED = (f"{SVG}metadata", f"{SVG}style", f"{SVG}title")

_FONT = re.compile(r"font: (?:(?P<weight>bold|\d{3}) )?(?P<size>[\d.]+)px [^;]+")
_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")

POINTS_PER_INCH = 72
TEXT = 12
SMALL = 11


def series_colour(number: int) -> str:
    """The colour of a line; they repeat after eight, which is as many rails as a node has."""
    return SERIES[number % len(SERIES)]


def prepare() -> None:
    """Sets everything that decides how a drawing looks, whatever the user's own settings are."""
    mpl.rcdefaults()
    # text stays text: it is found, copied, and set in the reader's own font
    mpl.rc("svg", fonttype="none", hashsalt="rocelab", image_inline=True)
    mpl.rc("text", parse_math=False, color=INK)  # a dollar sign in a name is a dollar sign
    mpl.rc(
        "font", family="DejaVu Sans", size=TEXT
    )  # comes with matplotlib, and is wider than what a browser uses
    mpl.rc("axes", edgecolor=GRID, facecolor="none", labelcolor=MUTED, labelsize=SMALL, linewidth=1)
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("figure", facecolor="none")
    mpl.rc("savefig", facecolor="none")
    mpl.rc("grid", color=GRID, linewidth=0.8)
    mpl.rc("image", composite_image=False)
    mpl.rc("lines", solid_capstyle="round")
    mpl.rc("xtick", color=GRID, labelcolor=MUTED, labelsize=SMALL)
    mpl.rc("ytick", color=GRID, labelcolor=MUTED, labelsize=SMALL)


class Canvas:
    """A figure of a fixed size in CSS pixels with fixed margins.

    Nothing in it depends on a measured font.
    """

    def __init__(self, width: int, height: int, margins: tuple[int, int, int, int]) -> None:
        """Margins are left, right, top and bottom."""
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = margins
        prepare()
        self.figure = Figure(figsize=(width / POINTS_PER_INCH, height / POINTS_PER_INCH))
        FigureCanvasSVG(self.figure)

    def axes(self, row: int = 0, rows: int = 1, gap: int = 0) -> Axes:
        """The axes of one of `rows` panels, the first one on top."""
        inner = self.height - self.top - self.bottom
        panel = (inner - gap * (rows - 1)) / rows
        below = self.bottom + (rows - 1 - row) * (panel + gap)
        box = (
            self.left / self.width,
            below / self.height,
            (self.width - self.left - self.right) / self.width,
            panel / self.height,
        )
        axes = self.figure.add_axes(box)
        axes.tick_params(length=3)
        return axes

    def svg(self, name: str, label: str) -> str:
        """The finished drawing."""
        text = io.StringIO()
        with warnings.catch_warnings():
            # the font that only measures lacks a letter; the reader's own font may have it
            warnings.filterwarnings("ignore", message=r"Glyph \d+")
            self.figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        return for_page(text.getvalue(), name, label)


def end_labels(
    axes: Axes,
    height: float,
    labels: Sequence[tuple[float, str, str]],
    *,
    least: float = 13,
    offset: float = 6,
) -> None:
    """Names lines at their right ends, moved apart where they would cover each other.

    Args:
        axes: where the lines are.
        height: of the axes in points.
        labels: y in axes coordinates (0 to 1), text and colour of each.
        least: distance between two texts in points.
        offset: from the right edge in points.
    """
    ordered = sorted(labels)
    places = _apart([y * height for y, _, _ in ordered], least, height)
    for (y, text, colour), place in zip(ordered, places, strict=True):
        axes.annotate(
            text,
            xy=(1, y),
            xycoords="axes fraction",
            xytext=(offset, place - y * height),
            textcoords="offset points",
            color=colour,
            fontsize=SMALL,
            va="center",
            annotation_clip=False,
        )


def _apart(places: list[float], least: float, height: float) -> list[float]:
    """The nearest places in the same order that keep their distance.

    Texts too close form a block.
    """
    blocks: list[list[float]] = []
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and _start(blocks[-1], least, height) < _start(
            blocks[-2], least, height
        ) + least * len(blocks[-2]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    apart = []
    for block in blocks:
        start = _start(block, least, height)
        apart += [start + index * least for index in range(len(block))]
    return apart


def _start(block: list[float], least: float, height: float) -> float:
    """The position of a block's first text, so that the block stays inside the axes if it fits."""
    extent = least * (len(block) - 1)
    return max(0.0, min(sum(block) / len(block) - extent / 2, height - extent))


def frame(axes: Axes) -> None:
    """Horizontal lines to read values off, and no other ones."""
    axes.grid(visible=True, axis="y", color=GRID)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_facecolor("none")


def for_page(text: str, name: str, label: str) -> str:
    """The drawing as an element for a page.

    Args:
        text: as matplotlib wrote it.
        name: of the chart, unique on the page: it goes in front of every id.
        label: what the chart shows, for those who cannot see it.
    """
    root = ET.fromstring(plain(text))  # noqa: S314  # see above; a name may hold what XML cannot
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in DROPPED]:
            parent.remove(child)
    used = set(_references(root))
    for element in root.iter():
        _tidy(element, name, used)
    box = root.attrib["viewBox"]
    width = float(box.split()[2]) * LARGEST
    root.attrib.clear()
    attributes = {"class": "chart", "role": "img", "aria-label": plain(label), "viewBox": box}
    root.attrib.update({**attributes, "style": f"max-width:{width:.0f}px"})
    ET.register_namespace("", SVG[1:-1])
    return ET.tostring(root, encoding="unicode")


def _references(root: ET.Element) -> Iterator[str]:
    for element in root.iter():
        for value in element.attrib.values():
            yield from re.findall(r"url\(#([^)]+)\)", value)
        if (link := element.attrib.get(LINK, "")).startswith("#"):
            yield link[1:]


def _tidy(element: ET.Element, name: str, used: set[str]) -> None:
    attributes = dict(element.attrib)
    element.attrib.clear()
    for key, value in attributes.items():
        if key == "id":
            if value in used:
                element.set("id", f"{name}-{value}")
        elif key == LINK:
            element.set("href", re.sub("^#", f"#{name}-", value))
        elif key in ("d", "x", "y", "transform", "points", "width", "height"):
            element.set(key, _DECIMALS.sub(r"\1", value))
        elif key == "style" or key in ("clip-path", "fill", "stroke"):
            element.set(key, _style(value, name))
        else:
            element.set(key, value)
    if element.tag == f"{SVG}image":
        element.set("style", "image-rendering:pixelated")
        element.set("preserveAspectRatio", "none")


def _style(value: str, name: str) -> str:
    value = _FONT.sub(_font, value)
    value = _COLOUR.sub(lambda match: VARIABLE_OF.get(match[0], match[0]), value)
    return (
        re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value).replace("; ", ";").replace(": ", ":")
    )


def _font(match: re.Match[str]) -> str:
    weight = f"font-weight:{match['weight']};" if match["weight"] else ""
    return f"{weight}font-size:{float(match['size']):g}px"

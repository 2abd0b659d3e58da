"""Makes matplotlib's SVG fit to stand in a page beside others: no fonts, no colours, no names of its own. Pure."""

import re
import xml.etree.ElementTree as ET  # reads only what matplotlib has just written
from collections.abc import Iterator

from components.report.charts.palette import VARIABLE_OF
from components.report.lines import plain

SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 1.12
"""How far a drawing grows where there is room: text should not be larger than that around it."""
LINK = "{http://www.w3.org/1999/xlink}href"
DROPPED = (f"{SVG}metadata", f"{SVG}style", f"{SVG}title")

_FONT = re.compile(r"font: (?:(?P<weight>bold|\d{3}) )?(?P<size>[\d.]+)px [^;]+")
_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")


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
    told = {"class": "chart", "role": "img", "aria-label": plain(label), "viewBox": box}
    root.attrib.update({**told, "style": f"max-width:{width:.0f}px"})
    ET.register_namespace("", SVG[1:-1])
    return ET.tostring(root, encoding="unicode")


def _references(root: ET.Element) -> Iterator[str]:
    for element in root.iter():
        for value in element.attrib.values():
            yield from re.findall(r"url\(#([^)]+)\)", value)
        if (link := element.attrib.get(LINK, "")).startswith("#"):
            yield link[1:]


def _tidy(element: ET.Element, name: str, used: set[str]) -> None:
    found = dict(element.attrib)
    element.attrib.clear()
    for key, value in found.items():
        if key == "id":
            if value in used:
                element.set("id", f"{name}-{value}")
        elif key == LINK:
            element.set("href", f"#{name}-{value[1:]}" if value.startswith("#") else value)
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
    value = _COLOUR.sub(lambda found: VARIABLE_OF.get(found[0], found[0]), value)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", value).replace("; ", ";").replace(": ", ":")


def _font(found: re.Match[str]) -> str:
    weight = f"font-weight:{found['weight']};" if found["weight"] else ""
    return f"{weight}font-size:{float(found['size']):g}px"

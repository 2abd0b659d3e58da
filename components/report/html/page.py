"""The whole page. Pure: the same material gives the same bytes."""

from collections.abc import Iterator

from components.report.html import inventory
from components.report.html.curves import size_section
from components.report.html.pairs import node_section, pair_section
from components.report.html.raw_list import raw_section
from components.report.html.runs import collective_section, history_section
from components.report.html.sources import Sources
from components.report.html.style import STYLE
from components.report.html.tags import Html, tag
from components.report.html.verdict import ceilings, findings, head, tests
from components.report.lines import headline
from components.report.shapes import matrices
from components.report.sources import Material

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A browser that opens the page asks nobody for anything, even if something in it should try."""

TITLES = {
    "tests": "Tests",
    "findings": "Findings",
    "pairs": "Pairs",
    "nodes": "Nodes",
    "sizes": "Message sizes",
    "collectives": "Collectives",
    "history": "Over time",
    "inventory": "Inventory",
    "mtu": "MTUs",
    "counters": "Counters",
    "limits": "Limits",
    "raw": "Raw outputs",
}
LIMITS = (
    "Without a map of the switches, a path is named by its ends: which link of it is slow cannot be told from them.",
    "A hint follows from numbers. Two faults can give the same number: do the test that a hint names.",
    "What was skipped was not tested. It is no pass.",
)
SIMULATED_LIMITS = (
    "A simulated lab proves that steps work on a real kernel; nothing about speed, offloads, PFC, ECN and buffers.",
)


def render_html(material: Material) -> str:
    """The file's text."""
    sources = Sources(material)
    found = findings(material)
    limits = (*(SIMULATED_LIMITS if material.summary.simulated else ()), *LIMITS)
    body = [
        tests(material, sources),
        *([found] if found else []),
        *_measured(material, sources),
        *inventory.sections(material),
        tag("section", tag("h2", "What this cannot tell"), _list(limits), ceilings(material), id="limits"),
        raw_section(material, sources),
    ]
    text = "".join(body)
    links = [tag("a", title, href=f"#{name}") for name, title in TITLES.items() if f'id="{name}"' in text]
    page = tag(
        "html",
        tag("head", *_meta(material)),
        tag(
            "body",
            tag("main", tag("header", head(material), tag("nav", links)), Html(text), _foot(material)),
            class_="simulated" if material.summary.simulated else None,
        ),
        lang="en",
    )
    return f"<!DOCTYPE html>\n{page}\n"


def _measured(material: Material, sources: Sources) -> Iterator[Html]:
    """What there is of charts."""
    if record := material.record:
        found = matrices(record, material.summary)
        yield from pair_section(record, found, sources)
        yield from node_section(found)
        yield from size_section(record, sources)
        yield from collective_section(material, record, sources)
    yield from history_section(material)


def _meta(material: Material) -> list[Html]:
    return [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="description", content=headline(material.summary)),
        tag("title", f"{material.summary.lab}: {headline(material.summary)}"),
        tag("style", Html(STYLE.replace("\n", " "))),
    ]


def _list(texts: tuple[str, ...]) -> Html:
    return tag("ul", [tag("li", text) for text in texts], class_="texts")


def _foot(material: Material) -> Html:
    return tag("footer", f"Made by rocelab from the outputs of the stack; run {material.summary.run_id}.")

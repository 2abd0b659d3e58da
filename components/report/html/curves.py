"""The part of the page about message sizes: a chart a test, and the curves in numbers."""

from collections.abc import Iterator

from components.report.charts.sizes import bandwidth_chart, latency_chart
from components.report.html.parts import figure, section
from components.report.html.sources import Sources
from components.report.html.tags import Html, number_cell, table, tag
from components.report.shapes import bytes_text, sizes
from components.validation.records import RunRecord, unit_text

MOST_CURVES = 8
"""Columns of numbers that a page has room for."""


def size_section(record: RunRecord, sources: Sources) -> Iterator[Html]:
    """Bandwidth and latency against message size, where they were measured."""
    found = sizes(record)
    if not found:
        return
    charts = []
    for index, each in enumerate(found):
        pairs = max(band.curves for band in each.bands)
        note = f"median of {pairs} pairs a rail, with their range" if pairs > 1 else "one pair a rail"
        if each.unit == "us":
            charts.append(figure(f"{each.test}: latency", f"{note}; dashed: p99", latency_chart(each, f"size{index}")))
        else:
            dashed = "; dashed: the ceiling of a path MTU" if each.line_rate_gbit_s else ""
            charts.append(figure(f"{each.test}: bandwidth", note + dashed, bandwidth_chart(each, f"size{index}")))
    yield section("Message sizes", "sizes", tag("div", charts, class_="charts"), _points(record, sources))


def _points(record: RunRecord, sources: Sources) -> Html:
    """The curves in numbers: a line a message size, a column a curve."""
    curves = [t for t in record.transfers if t.curve and t.outcome == "measured"][:MOST_CURVES]
    values = [{point.message_bytes: point.value for point in t.curve} for t in curves]
    rows = [
        (
            bytes_text(size),
            *(
                number_cell(sources.transfer(t, found[size]) if size in found else "")
                for t, found in zip(curves, values, strict=True)
            ),
        )
        for size in sorted({size for found in values for size in found})
    ]
    head = [
        "message",
        *([t.test, tag("small", f"{t.rail}, {t.client} to {t.server}, {unit_text(t.unit)}")] for t in curves),
    ]
    return tag("details", tag("summary", "The curves in numbers"), table(head, rows))

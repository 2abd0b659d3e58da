"""The part of the page about pairs and nodes: heatmaps, the slowest pairs in numbers, and box plots."""

from collections.abc import Iterator

from components.report.charts.nodes import node_chart
from components.report.charts.pairs import pair_chart
from components.report.html.parts import figure, section
from components.report.html.sources import Sources
from components.report.html.tags import Html, number_cell, table, tag
from components.report.html.verdict import slowest
from components.report.lines import number, test_name
from components.report.shapes import Matrix
from components.validation.records import RunRecord, TransferResult, unit_text
from stacks.words import plural

MOST_PAIRS = 60
"""Pairs in a table: with more of them, the slowest."""


def pair_section(record: RunRecord, found: list[Matrix], sources: Sources) -> Iterator[Html]:
    """A heatmap a test and rail, and the slowest pairs in numbers."""
    if not found:
        return
    charts = [
        figure(
            f"{test_name(m.test, m.shape)}, {m.rail}",
            f"share of {m.basis}, {number(m.reference)} {unit_text(m.unit)}",
            pair_chart(m, f"pair{index}"),
        )
        for index, m in enumerate(found)
    ]
    told = (
        "Row: client, which sends. Column: server. Brighter is better, for latency too. Grey: not tested. "
        "Cross: failed. A dark row is a node that sends badly, a dark column one that receives badly."
    )
    again = sum(bool(t.retest) for t in record.transfers)
    if again:
        told += (
            f" Colours are those of the first measurement. {plural(again, 'transfer was', 'transfers were')} measured "
            "again with less beside, and judged by that: the numbers below have both."
        )
    later = sum(t.second_try for t in record.transfers)
    if later:
        told += f" Failed at first: {plural(later, 'transfer')}, with the values of another try under another load."
    yield section(
        "Pairs",
        "pairs",
        tag("p", told, class_="lead"),
        tag("div", charts, class_="charts"),
        _pair_table(record, sources),
    )


def _pair_table(record: RunRecord, sources: Sources) -> Html:
    measured = [t for t in record.transfers if t.outcome == "measured" and t.samples and t.shape != "sizes"]
    shown: list[TransferResult] = []
    for test in dict.fromkeys((t.test, t.shape) for t in measured):
        shown += slowest([t for t in measured if (t.test, t.shape) == test], MOST_PAIRS)
    rows = [
        (
            test_name(t.test, t.shape),
            t.rail,
            t.client,
            t.server,
            number_cell([sources.transfer(t, t.value), f" {unit_text(t.unit)}"]),
            number_cell(str(len(t.samples))),
            number_cell("failed at first" if t.second_try else ", ".join(number(value) for value in t.retest)),
            number_cell(str(t.queue_pairs or "")),
        )
        for t in shown
    ]
    head = ("test", "rail", "client", "server", "median", "repeats", "tested again", "queue pairs")
    left = f" The slowest {MOST_PAIRS} of each test; report.json has all of them." if len(shown) < len(measured) else ""
    title = tag("summary", f"{len(shown)} of {plural(len(measured), 'pair')} in numbers, slowest first")
    return tag("details", title, tag("p", left, class_="small") if left else None, table(head, rows))


def node_section(found: list[Matrix]) -> Iterator[Html]:
    """Box plots, where a node has more than one pair."""
    groups: dict[tuple[str, str], list[Matrix]] = {}
    for matrix in found:
        if len(matrix.nodes) > 2:
            groups.setdefault((matrix.test, matrix.shape), []).append(matrix)
    if not groups:
        return
    charts = [
        figure(
            test_name(*group),
            f"share of {of_group[0].basis}",
            node_chart(of_group, f"node{index}"),
            kind="wide" if len(of_group[0].nodes) > 12 else None,
        )
        for index, (group, of_group) in enumerate(groups.items())
    ]
    told = (
        "Each node over all its pairs, as client and as server. Line: from the least to the greatest. Thick: the "
        "middle half. Dot: the median. Red: it is clearly worse than that of the other nodes (bandwidth by 5 %, "
        "latency by 15 %)."
    )
    wide = any(len(of_group[0].nodes) > 12 for of_group in groups.values())
    boxed = charts if wide else [tag("div", charts, class_="charts")]
    yield section("Nodes", "nodes", tag("p", told, class_="lead"), *boxed)

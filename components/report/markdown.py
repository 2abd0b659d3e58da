"""The report as Markdown. Pure: the same material gives the same bytes."""

import re
from collections.abc import Iterable, Iterator, Sequence

from components.report.lines import COLUMNS, cells, duration, headline, other_hints
from components.report.shapes import matrices, mtu_chains
from components.report.sources import Material
from components.validation.records import unit_text
from components.validation.summary import Summary

MOST_PAIRS = 10


def render_markdown(material: Material) -> str:
    """The whole file."""
    return "\n".join(_lines(material)) + "\n"


def _lines(material: Material) -> Iterator[str]:
    summary = material.summary
    yield f"# Validation of {_escaped(summary.lab)}"
    yield ""
    yield f"**{_escaped(headline(summary))}**"
    yield ""
    yield from _warnings(summary)
    shown = [cells(test, simulated=summary.simulated) for test in summary.tests]
    columns = [at for at in range(len(COLUMNS)) if any(row[at] for row in shown)]
    yield from _table([COLUMNS[at] for at in columns], ([row[at] for at in columns] for row in shown))
    yield from _listed("Reasons", summary.reasons)
    yield from _listed(
        "Findings",
        [f"{f.where}: {f.evidence}{f'. {f.hint}' if f.hint else ''} ({f.code})" for f in summary.findings],
    )
    yield from _listed("Hints", other_hints(summary))
    if found := summary.regression:
        against = f"Against run {found.baseline_run}: {found.verdict}"
        yield from _listed("Over time", (against, *found.reasons))
    yield from _slowest(material)
    yield from _mtus(material)
    yield from _run(material)


def _warnings(summary: Summary) -> Iterator[str]:
    if summary.stale:
        yield "This verdict is stale. Since it was measured:"
        yield ""
        yield from (f"- {_escaped(text)}" for text in summary.stale)
        yield ""
    if summary.simulated:
        yield (
            "All of this was measured on the simulator: behavior is real, speed is not, and no number here says "
            "anything about hardware."
        )
        yield ""
    if any(test.function == "replayed" for test in summary.tests):
        yield "*replayed*: the log was recorded on other machines and is only shown; it enters no verdict."
        yield ""


def _listed(title: str, texts: Iterable[str]) -> Iterator[str]:
    lines = [f"- {_escaped(text)}" for text in texts]
    if lines:
        yield from ("", f"## {title}", "", *lines)


def _slowest(material: Material) -> Iterator[str]:
    """The worst pairs of each test on each rail; the page and the JSON file have all of them."""
    if material.record is None:
        return
    found = matrices(material.record, material.summary)
    rows = [
        (
            m.test,
            m.rail,
            f"{pair[0]} to {pair[1]}",
            f"{m.values[pair]:.4g} {unit_text(m.unit)}",
            f"{m.share(pair):.1%} of {m.basis}",
        )
        for m in found
        for pair in sorted(m.values, key=m.share)[: max(1, MOST_PAIRS // len(found))]
    ]
    if rows:
        yield from ("", "## Slowest pairs", "")
        yield from _table(("test", "rail", "pair", "median", "share"), rows)


def _mtus(material: Material) -> Iterator[str]:
    if chains := mtu_chains(material.document) if material.document else []:
        yield from ("", "## Chain of MTUs", "")
        rows = (
            (links[0].rail, *(f"{link.text or 'unknown'}{f' ({link.fault})' if link.fault else ''}" for link in links))
            for links in chains
        )
        yield from _table(("rail", *(link.what for link in chains[0])), rows)


def _run(material: Material) -> Iterator[str]:
    summary = material.summary
    yield from ("", "## Run", "")
    yield from _table(
        ("what", "value"),
        (
            ("run", summary.run_id),
            ("started", summary.started_at),
            ("took", duration(summary.duration_s)),
            ("mode", summary.mode),
            ("fingerprint", summary.fingerprint[:16]),
            ("raw outputs, SHA-256", summary.raw_sha256),
        ),
    )
    yield from ("", *material.missing) if material.missing else ()


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows)


def _escaped(text: str) -> str:
    """Texts of hosts and tools may hold anything; in a table nothing of it may act."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text)
    for mark in ("\\", "|", "<", "`", "*", "[", "]"):
        text = text.replace(mark, f"\\{mark}")
    return text

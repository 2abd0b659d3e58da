"""The report as Markdown. Pure: the same material gives the same bytes."""

from collections.abc import Iterable, Iterator, Sequence

from components.finding import bullets, escaped, table
from components.report.lines import COLUMNS, cells, duration, headline, other_hints
from components.report.mtus import mtu_chains
from components.validation.records import unit_text
from components.validation.store import Material
from components.validation.summary import Summary

MOST_PAIRS = 10


def render_markdown(material: Material) -> str:
    """The whole file."""
    return "\n".join(_lines(material)).rstrip() + "\n"


def _lines(material: Material) -> Iterator[str]:
    summary = material.summary
    yield f"# Validation of {escaped(summary.lab)}"
    yield ""
    yield f"**{escaped(headline(summary))}**"
    yield ""
    yield from _warnings(summary)
    tests = (cells(test, simulated=summary.simulated) for test in summary.tests)
    yield from _escaped_table(COLUMNS, tests)
    yield from bullets("## Reasons", summary.reasons)
    if summary.findings:
        rows = ((row.where, row.evidence, row.hint, row.code) for row in summary.findings)
        yield from ("## Findings", "")
        yield from _escaped_table(("where", "found", "fix", "code"), rows)
    yield from bullets("## Hints", other_hints(summary))
    if comparison := summary.regression:
        against = f"Against run {comparison.baseline_run}: {comparison.verdict}"
        yield from bullets("## Over time", (against, *comparison.reasons))
    yield from _slowest(material)
    yield from _mtus(material)
    yield from _run(material)


def _warnings(summary: Summary) -> Iterator[str]:
    if summary.stale:
        yield "This verdict is stale. Since it was measured:"
        yield ""
        for text in summary.stale:
            yield f"- {escaped(text)}"
        yield ""
    if summary.simulated:
        yield (
            "All of this was measured on the simulator: behavior is real, speed is not, and no "
            "number here says "
            "anything about hardware."
        )
        yield ""
    if any(test.function == "replayed" for test in summary.tests):
        yield (
            "*replayed*: the log was recorded on other machines and is only shown; it enters no "
            "verdict."
        )
        yield ""


def _slowest(material: Material) -> Iterator[str]:
    """The worst pairs of each test on each rail; the page and the JSON file have all of them."""
    if material.record is None:
        return
    measured = material.record.rail_tests(material.summary.ceilings)
    rows = []
    for test in measured:
        worst_first = sorted(test.values, key=test.share)
        for pair in worst_first[: max(1, MOST_PAIRS // len(measured))]:
            value = f"{test.values[pair]:.4g} {unit_text(test.unit)}"
            share = f"{test.share(pair):.1%} of {test.basis}"
            rows.append([test.test, test.rail, " to ".join(pair), value, share])
    if rows:
        yield from ("## Slowest pairs", "")
        yield from _escaped_table(("test", "rail", "pair", "median", "share"), rows)


def _mtus(material: Material) -> Iterator[str]:
    chains = mtu_chains(material.document) if material.document else []
    if not chains:
        return
    rows = []
    for links in chains:
        row = [links[0].rail]
        for link in links:
            fault = f" ({link.fault})" if link.fault else ""
            row.append(f"{link.text or 'unknown'}{fault}")
        rows.append(row)
    yield from ("## Chain of MTUs", "")
    yield from _escaped_table(("rail", *(link.what for link in chains[0])), rows)


def _run(material: Material) -> Iterator[str]:
    summary = material.summary
    rows = (
        ("run", summary.run_id),
        ("started", summary.started_at),
        ("took", duration(summary.duration_s)),
        ("mode", summary.mode),
        ("fingerprint", summary.fingerprint[:16]),
        ("raw outputs, SHA-256", summary.raw_sha256),
    )
    yield from ("## Run", "")
    yield from _escaped_table(("what", "value"), rows)
    yield from material.missing


def _escaped_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield from table(head, (tuple(map(escaped, row)) for row in rows))

"""The page: what its template shows, worked out from the material. Pure: the same material gives
the same bytes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from components.report.charts.nodes import node_chart
from components.report.charts.pairs import pair_chart
from components.report.charts.sizes import Line, lines_chart, size_chart, sizes
from components.report.charts.trend import Trend, trend_chart, trends
from components.report.frame import environment
from components.report.lines import (
    counted,
    duration,
    headline,
    number,
    other_hints,
    percent,
    rated,
    test_name,
    test_on_rail,
    test_title,
    when,
)
from components.report.mtus import mtu_chains
from components.validation.benchmarks.jobs.judge import comparisons
from components.validation.benchmarks.jobs.plan import ALL_REDUCE, MPI_ALL_REDUCE
from components.validation.records import (
    JobResult,
    LogResult,
    MeasuredHost,
    RailTest,
    RunRecord,
    TransferResult,
    unit_text,
)
from components.validation.store import Material, RawFile
from components.validation.summary import JudgedTest, Summary
from stacks.frozen import frozen
from stacks.words import bytes_text, plural, some

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
SIGNS = {
    "pass": "✓",
    "warn": "!",
    "fail": "✕",
    "partial": "◐",
    "skip": "\N{MINUS SIGN}",
    "error": "?",
    "unstable": "~",
    "replayed": "⟲",
    "not run": "○",
    "not rated": "○",
}
STILL = ("not rated", "replayed", "not run")
"""States that say nothing, neither good nor bad."""
COLUMNS = (
    "test",
    "rail",
    "function",
    "performance",
    "median",
    "slowest",
    "ceiling",
    "of ceiling",
    "change",
    "note",
)
UNKNOWN = "unknown"
OTHERS = "other outputs"
AGAIN = "again"
"""Stands for the shape of a group that lists repetitions of suspect transfers."""
MOST_PAIRS = 60
"""Pairs in a table: with more of them, the slowest."""
MOST_CURVES = 8
"""Columns of numbers that a page has room for."""
WIDE_NODES = 12
MOST_LISTED = 20_000
"""Outputs listed one by one. The digest of the bundle covers the others too."""
MOST_COMMANDS = 400
"""Outputs up to which each one's command is written out; with more of them, the first of each
group."""

Shown = Mapping[str, object]
REPLAYED = ", replayed"
Group = tuple[str, str, str]
"""Test, shape and rail."""


@frozen
class Chart:
    """A drawing, what it shows and how to read it. `wide` scrolls on its own; `replayed` is not
    even simulated.
    """

    caption: str
    note: str
    svg: Markup
    kind: str = ""


def render_html(material: Material) -> str:
    """The file's text."""
    summary, record, sources = material.summary, material.record, Sources(material)
    measured = record.rail_tests(summary.ceilings) if record else []
    hints = other_hints(summary)
    sections: dict[str, object] = {
        "tests": _tests(summary, sources),
        "findings": summary.reasons or summary.findings or hints or summary.quarantined,
        "pairs": _pairs(record, measured) if record and measured else None,
        "nodes": list(_nodes(measured)),
        "sizes": _sizes(record) if record else None,
        "collectives": _collectives(summary, record) if record else None,
        "history": _history(material),
        "inventory": _inventory(record.hosts) if record and record.hosts else None,
        "mtu": mtu_chains(material.document) if material.document else [],
        "counters": list(_counters(record)) if record else [],
        "limits": [f"{test_on_rail(t)}: {t.basis}" for t in summary.tests if t.basis],
        "raw": sources.listed(material),
    }
    whole: dict[str, object] = {
        "summary": summary,
        "sources": sources,
        "signs": SIGNS,
        "headline": headline(summary),
        "title": f"{summary.lab}: {headline(summary)}",
        "kind": "simulated" if summary.simulated else "",
        "passed": _passed(summary),
        "rated": rated(summary),
        "replayed": any(test.function == "replayed" for test in summary.tests),
        "missing": material.missing,
        "hints": hints,
        "links": [
            (name, title) for name, title in TITLES.items() if sections[name] or name == "limits"
        ],
    }
    return str(_environment().get_template("page.html").render(sections | whole)) + "\n"


@cache  # it keeps the compiled templates
def _environment() -> Environment:
    filters = {
        "number": number,
        "when": when,
        "duration": duration,
        "plural": plural,
        "unit": unit_text,
        "style": state_class,
        "some": lambda names: some(names, 1),
        "said": _said,
        "grouped": lambda count: f"{count:,}".replace(",", "\N{NARROW NO-BREAK SPACE}"),
    }
    made = environment(filters=filters)
    made.globals["test_name"] = test_name
    return made


def state_class(state: str, stale: Sequence[str] = ()) -> str:
    """The style of a state. What is stale is never green."""
    if state in STILL:
        return "still"
    return "warn" if stale and state == "pass" else state


def anchor_of(*words: str) -> str:
    """An id out of names that may hold anything."""
    return "raw-" + re.sub(r"[^a-zA-Z0-9-]", lambda match: f"_{ord(match[0]):x}", "-".join(words))


class Sources:
    """The raw outputs behind the numbers: where on the page they are listed. An empty anchor:
    nowhere.
    """

    def __init__(self, material: Material) -> None:
        self.files = {file.name: file for file in material.raw}
        self.groups: dict[Group, list[str]] = {}
        """Names of the outputs that the values of a test on a rail were read from."""
        self._judged: dict[tuple[str, str, str, str, str], Group] = {}
        """The outputs that a transfer is judged by: its own, or those of its repetitions."""
        record = material.record if self.files else None
        self._nccl = record.nccl.raw if record and record.nccl else ""
        measured = (
            [t for t in record.transfers if t.outcome == "measured" and t.raw] if record else []
        )
        for transfer in measured:
            group, repetitions = _group(transfer), (transfer.test, AGAIN, transfer.rail)
            # a repetition that failed gave no value, and one that is not here shows none
            repeated = transfer.retest_raw if all(transfer.retest) else ()
            repeated = repeated if self.files.keys() >= set(repeated) else ()
            self.groups.setdefault(group, []).extend(transfer.raw)
            if repeated:
                self.groups.setdefault(repetitions, []).extend(repeated)
            if repeated or not transfer.retest:
                self._judged[*group, transfer.client, transfer.server] = (
                    repetitions if repeated else group
                )

    def transfer(self, transfer: TransferResult) -> str:
        """Anchor of a transfer's outputs."""
        if transfer.raw and self.files:
            return anchor_of(*_group(transfer))
        return ""

    def median(self, test: JudgedTest) -> str:
        """Anchor of the outputs behind a test's median on a rail, or of the all-reduce's log."""
        if test.rail is None:
            # with a transport as its shape it is one of several jobs
            alone = (test.test, test.shape) == ("nccl_all_reduce", "")
            return self._log(self._nccl) if alone else ""
        group = (test.test, test.shape, test.rail)
        if group in self.groups:
            return anchor_of(*group)
        return ""

    def worst(self, test: JudgedTest) -> str:
        """Anchor of the outputs by which a test's slowest transfer is judged."""
        if test.worst is None:
            return ""
        group = self._judged.get(
            (test.test, test.shape, test.rail or "", test.worst.client, test.worst.server)
        )
        return anchor_of(*group) if group else ""

    def job(self, job: JobResult) -> str:
        """Anchor of a job's log."""
        return self._log(job.raw)

    def listed(self, material: Material) -> Shown:
        """Every output with its digest and the command that made it, by group."""
        used = set[str]().union(*self.groups.values())
        others = [name for name in self.files if name not in used]
        parts: list[tuple[str, str, list[str], int]] = []
        for group, names in self.groups.items():
            title = f"{test_name(group[0], group[1])} on {group[2]}"
            title += f": {plural(len(names), 'output')} of clients"
            parts.append((anchor_of(*group), title, names, 1))
        if others:
            title = f"{plural(len(others), 'other output')}: "
            title += "server ends, job logs, host inventories"
            parts.append((anchor_of(OTHERS), title, others, 0))
        room, groups = MOST_LISTED, []
        for anchor, title, names, brief in parts:
            commands = len(names) if len(self.files) <= MOST_COMMANDS else brief
            rows, more = self._rows(names[:room], commands), max(len(names) - room, 0)
            groups.append({"anchor": anchor, "title": title, "rows": rows, "more": more})
            room -= min(room, len(names))
        return {"count": len(self.files), "bundle": material.bundle, "groups": groups}

    def _rows(self, names: list[str], commands: int) -> list[tuple[str, RawFile | None, str]]:
        """Each output, the first of them with the commands that made them."""
        rows = []
        for at, name in enumerate(names):
            file, command = self.files.get(name), ""
            if file and at < commands:
                command = file.command or "command not recorded"
            rows.append((name, file, command))
        return rows

    def _log(self, name: str) -> str:
        return anchor_of(OTHERS) if name in self.files else ""


def _group(transfer: TransferResult) -> Group:
    return transfer.test, transfer.shape, transfer.rail


def _passed(summary: Summary) -> str:
    tests = [test for test in summary.tests if test.function not in ("replayed", "not run")]
    passed = sum(test.function == "pass" for test in tests)
    quarantined = ""
    if summary.quarantined:
        quarantined = f", {plural(len(summary.quarantined), 'host')} quarantined"
    return f"{passed} of {plural(len(tests), 'test')} pass{quarantined}"


def _tests(summary: Summary, sources: Sources) -> Shown:
    """Every test in a line; columns of which no test has anything are left out."""
    rows, used = [], set[str]()
    for test in summary.tests:
        row = dict(zip(COLUMNS, _cells(test, summary, sources), strict=True))
        rows.append(row)
        used.update(column for column in COLUMNS if row[column])
    return {"columns": [column for column in COLUMNS if column in used], "rows": rows}


def _cells(test: JudgedTest, summary: Summary, sources: Sources) -> Iterator[object]:
    if test.function == "replayed":
        label = "replayed"
    else:
        label = "simulated" if summary.simulated else ""
    unit, worst = f" {unit_text(test.unit)}", test.worst
    yield test_title(test)
    yield test.rail or "all"
    yield {"state": test.function, "note": counted(test)}
    yield {"state": test.performance, "note": ""}
    median = {"value": test.median, "anchor": sources.median(test), "unit": unit, "note": label}
    yield median if test.median is not None else None
    pair = f"{worst.client} to {worst.server}" if worst else ""
    yield (
        {"value": worst.value, "anchor": sources.worst(test), "unit": "", "note": pair}
        if worst
        else None
    )
    bound = "bound " if test.unit == "us" else ""
    yield f"{bound}{number(test.ceiling)}{unit}" if test.ceiling is not None else None
    yield percent(test.ratio)
    yield percent(test.change, signed=True)
    yield test.because if test.because != label else ""


def _pairs(record: RunRecord, drawn: list[RailTest]) -> Shown:
    """A heatmap per test and rail, and the slowest pairs in numbers."""
    measured = [
        t for t in record.transfers if t.outcome == "measured" and t.samples and t.shape != "sizes"
    ]
    shown: list[TransferResult] = []
    for test in dict.fromkeys((t.test, t.shape) for t in measured):
        of_test = [t for t in measured if (t.test, t.shape) == test]
        shown += sorted(of_test, key=lambda t: -t.value if t.unit == "us" else t.value)[:MOST_PAIRS]
    return {
        "charts": [_heatmap(test, f"pair{at}") for at, test in enumerate(drawn)],
        "again": sum(bool(t.retest) for t in record.transfers),
        "later": sum(t.second_try for t in record.transfers),
        "shown": shown,
        "count": len(measured),
        "most": MOST_PAIRS,
    }


def _heatmap(test: RailTest, name: str) -> Chart:
    return Chart(
        caption=f"{test_name(test.test, test.shape)}, {test.rail}",
        note=f"share of {test.basis}, {number(test.reference)} {unit_text(test.unit)}",
        svg=_svg(pair_chart(test, name)),
    )


def _nodes(measured: list[RailTest]) -> Iterator[Chart]:
    """Box plots, where a node has more than one pair."""
    groups: dict[tuple[str, str], list[RailTest]] = {}
    for test in measured:
        if len(test.nodes) > 2:
            groups.setdefault((test.test, test.shape), []).append(test)
    for index, (group, of_group) in enumerate(groups.items()):
        kind = "wide" if len(of_group[0].nodes) > WIDE_NODES else ""
        yield Chart(
            caption=test_name(*group),
            note=f"share of {of_group[0].basis}",
            svg=_svg(node_chart(of_group, f"node{index}")),
            kind=kind,
        )


def _sizes(record: RunRecord) -> Shown | None:
    """Bandwidth and latency against message size: a chart per test, and the curves in numbers."""
    charts = []
    for index, test in enumerate(sizes(record)):
        pairs = max(band.curves for band in test.bands)
        note = "one pair per rail"
        if pairs > 1:
            note = f"median of {pairs} pairs per rail, with their range"
        if test.latency:
            note += "; dashed: p99"
        elif test.line_rate_gbit_s:
            note += "; dashed: the ceiling of a path MTU"
        kind = "latency" if test.latency else "bandwidth"
        drawn = size_chart(test, f"size{index}")
        charts.append(Chart(caption=f"{test.test}: {kind}", note=note, svg=_svg(drawn)))
    curves = [t for t in record.transfers if t.curve and t.outcome == "measured"][:MOST_CURVES]
    by_size: dict[int, dict[int, float]] = {}
    for at, t in enumerate(curves):
        for point in t.curve:
            by_size.setdefault(point.message_bytes, {})[at] = point.value
    rows = []
    for size, values in sorted(by_size.items()):
        rows.append((bytes_text(size), [(t, values.get(at)) for at, t in enumerate(curves)]))
    return {"charts": charts, "curves": curves, "rows": rows} if charts else None


def _collectives(summary: Summary, record: RunRecord) -> Shown | None:
    """All-reduce and applications, and what the transports gained."""
    charts: list[Chart] = []
    for program, caption in ((ALL_REDUCE, "NCCL all-reduce"), (MPI_ALL_REDUCE, "MPI all-reduce")):
        curves: dict[str, LogResult] = {}
        if record.nccl and program == ALL_REDUCE:
            _add_curve(curves, "fabric", record.nccl)
        for job in record.jobs:
            if job.program == program:
                _add_curve(curves, job.transport, job)
        if curves:
            ceiling = next((t.ceiling for t in summary.tests if t.test == program), None)
            charts += _all_reduce(program, caption, curves, ceiling)
    shown = {"charts": charts, "jobs": record.jobs, "compared": comparisons(record.jobs)}
    return shown if charts or record.jobs else None


def _add_curve(curves: dict[str, LogResult], name: str, result: LogResult) -> None:
    """A logarithmic axis has no room for a curve of zeros."""
    if any(point.value > 0 for point in result.curve):
        curves[f"{name}{REPLAYED if result.replayed else ''}"] = result


def _all_reduce(
    program: str, caption: str, curves: Mapping[str, LogResult], ceiling_gbyte_s: float | None
) -> Iterator[Chart]:
    """Bus bandwidth and, where the run kept it, time: a line per transport over message sizes."""
    busbw: dict[str, Line] = {}
    times: dict[str, Line] = {}
    for label, result in curves.items():
        busbw[label] = [(p.message_bytes, p.value) for p in result.curve if p.value > 0]
        timed = [(p.message_bytes, p.time_us) for p in result.curve if p.time_us]
        if timed:
            times[label] = timed
    ceilings: dict[str, Line] = {}
    if ceiling_gbyte_s:
        measured = [size for points in busbw.values() for size, _ in points]
        ends = (min(measured), max(measured))
        ceilings["ceiling"] = [(size, ceiling_gbyte_s) for size in ends]
    kind = ""
    if any(label.endswith(REPLAYED) for label in curves):
        kind = "replayed"
    drawings = (("bandwidth", busbw, "busbw, GB/s"), ("time", times, "time, µs"))
    for what, lines, unit in drawings:
        if lines:
            label = f"{what} of the all-reduce against message size"
            bounds = ceilings if lines is busbw else {}
            drawn = lines_chart(lines, bounds, unit, f"{program}_{what}", label)
            yield Chart(
                caption=f"{caption}: {what}",
                note="out of place; both axes logarithmic",
                svg=_svg(drawn),
                kind=kind,
            )


def _said(job: JobResult) -> str:
    details = []
    for key, text in job.details.items():
        if isinstance(text, str | int | float):
            details.append(f"{key}: {text}")
    return "; ".join([*job.reasons, *details])


def _history(material: Material) -> Shown | None:
    """Earlier runs, and this one against its baseline."""
    summary, compared = material.summary, material.summary.regression
    history = material.document.history if material.document else ()
    baseline = compared.baseline_run if compared else ""
    drawn_trends = trends(history, baseline)
    if compared is None and not drawn_trends:
        return None
    charts = []
    for at, trend in enumerate(drawn_trends):
        svg = _svg(trend_chart(trend, f"trend{at}"))
        charts.append(Chart(caption=trend.title, note=_how_to_read(trend), svg=svg))
    state = {"same": "pass", "better": "pass", "worse": "fail", "unconfirmed": "unstable"}
    changes = []
    for test in summary.tests:
        if test.change is not None:
            changes.append(f"{test_on_rail(test)}: {percent(test.change, signed=True)}")
    return {
        "charts": charts,
        "began": next((when(run.started_at) for run in history if run.run_id == baseline), ""),
        "state": state_class(state.get(compared.verdict, "not rated")) if compared else "",
        "changes": changes,
    }


def _how_to_read(trend: Trend) -> str:
    notes = [f"the last {len(trend.runs)} runs"]
    notes += [] if all(trend.settled) else ["hollow: it did not pass"]
    notes += [] if trend.baseline is None else ["dashed: the baseline"]
    notes += ["interrupted: the configuration changed"] if len(set(trend.parts)) > 1 else []
    return "; ".join(notes)


def _inventory(hosts: Mapping[str, MeasuredHost]) -> Shown:
    """Hosts that are alike share a line, so that the odd one stands out."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, facts in hosts.items():
        alike.setdefault(_described(facts), []).append(name)
    ordered = sorted(alike.items(), key=lambda item: (-len(item[1]), item[1]))
    return {"count": len(hosts), "rows": [(names, cells) for cells, names in ordered]}


def _described(facts: MeasuredHost) -> tuple[str, ...]:
    texts = (facts.nic, facts.driver, facts.firmware, facts.kernel, facts.perftest)
    return (
        *(text or UNKNOWN for text in texts),
        _per_device({device: f"{rate:g}" for device, rate in facts.line_rate_gbit_s.items()}),
        _per_device(facts.pcie),
        _per_device({device: str(node) for device, node in facts.numa_node.items()}),
    )


def _per_device(values: Mapping[str, str]) -> str:
    """One text where all devices agree."""
    if len(set(values.values())) < 2:
        return next(iter(values.values()), UNKNOWN)
    return ", ".join(f"{device} {value}" for device, value in sorted(values.items()))


def _counters(record: RunRecord) -> Iterable[Shown]:
    """Per counter and rail, with the pair that did most of it."""
    grew: dict[tuple[str, str], dict[str, int]] = {}
    for transfer in record.transfers:
        for name, count in transfer.counters.items():
            pairs = grew.setdefault((name, transfer.rail), {})
            pair = f"{transfer.client} to {transfer.server}"
            pairs[pair] = pairs.get(pair, 0) + count
    for (name, rail), pairs in sorted(
        grew.items(), key=lambda item: (-sum(item[1].values()), item[0])
    ):
        most = max(sorted(pairs), key=lambda pair: pairs[pair])
        yield {
            "name": name,
            "rail": rail,
            "total": sum(pairs.values()),
            "pairs": pairs,
            "most": most,
        }


def _svg(text: str) -> Markup:
    return Markup(text)  # noqa: S704  # the drawing escapes what hosts say

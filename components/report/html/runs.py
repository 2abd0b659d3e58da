"""The part of the page about jobs, the transports that they used, and earlier runs."""

from collections.abc import Iterator, Sequence

from components.report.charts.sizes import busbw_chart
from components.report.charts.trend import trend_chart
from components.report.html.parts import bullets, figure, section
from components.report.html.sources import Sources
from components.report.html.tags import Content, Html, number_cell, table, tag
from components.report.html.verdict import regression
from components.report.lines import number, percent, test_name
from components.report.shapes import Trend, trends
from components.report.sources import Material
from components.validation.judging.comparison import Comparison, comparisons
from components.validation.records import CurvePoint, RunRecord


def collective_section(material: Material, record: RunRecord, sources: Sources) -> Iterator[Html]:
    """All-reduce and applications, and what the transports gained."""
    content: list[Content] = []
    curves = {}
    if record.nccl and _drawn(record.nccl.curve):
        curves["replayed" if record.nccl.replayed else "fabric"] = record.nccl.curve
    for job in record.jobs:
        if job.program == "nccl_all_reduce" and _drawn(job.curve):
            curves[f"{job.transport}{', replayed' if job.replayed else ''}"] = job.curve
    if curves:
        judged = next((t for t in material.summary.tests if t.test == "nccl_all_reduce"), None)
        chart = busbw_chart(curves, judged.ceiling if judged else None, "busbw")
        note = "bus bandwidth, out of place; both axes logarithmic"
        kind = "replayed" if record.nccl and record.nccl.replayed else None
        content.append(tag("div", figure("NCCL all-reduce", note, chart, kind=kind), class_="charts"))
    if record.jobs:
        content += [_jobs(record, sources), _comparison(record)]
    if content:
        yield section("Collectives and applications", "collectives", *content)


def _drawn(curve: Sequence[CurvePoint]) -> bool:
    """Whether a logarithmic axis has room for any of it."""
    return any(point.value > 0 for point in curve)


def _jobs(record: RunRecord, sources: Sources) -> Html:
    rows = []
    for job in record.jobs:
        value = [sources.job(job, job.value), f" {job.unit}"] if job.value is not None else None
        told = [f"{key}: {text}" for key, text in job.details.items() if isinstance(text, str | int | float)]
        dropped = f"{len(job.dropped)}: {', '.join(map(number, job.dropped))}" if job.dropped else ""
        outcome = f"{job.outcome}{', replayed' if job.replayed else ''}"
        rows.append(
            (
                job.program,
                job.transport,
                outcome,
                number_cell(value),
                number_cell(str(len(job.samples) or "")),
                dropped,
                [*job.reasons, "; ".join(told)],
            )
        )
    head = ("program", "transport", "outcome", "median", "samples", "outliers left out", "what it says itself")
    return Html(tag("h3", "Jobs, in the order they ran") + table(head, rows))


def _comparison(record: RunRecord) -> Html | None:
    rows = [
        (
            one.program,
            number_cell(f"{number(one.roce)} {one.unit}"),
            *(number_cell(f"{number(value)} {one.unit}" if value is not None else "") for value in (one.tcp, one.host)),
            number_cell(_speedup(one)),
            number_cell(f"{one.sriov_overhead_percent:+.1f} %" if one.sriov_overhead_percent is not None else ""),
        )
        for one in comparisons(record.jobs)
    ]
    if not rows:
        return None
    head = ("program", "RoCE", "TCP", "hosts' network", "RoCE over TCP", "pods' overhead")
    told = (
        "Medians over all runs of a transport, which alternate so that drift cancels. In brackets: the 95 % interval, "
        "from five values a side. Overhead: what RoCE in pods lacks to the hosts' own network."
    )
    return Html(tag("h3", "Transports compared") + tag("p", told, class_="small") + table(head, rows))


def _speedup(one: Comparison) -> str:
    if one.speedup is None:
        return ""
    between = f" ({one.speedup_interval[0]:.2f} to {one.speedup_interval[1]:.2f})" if one.speedup_interval else ""
    return f"{one.speedup:.2f} times{between}"


def _how_to_read(trend: Trend) -> str:
    told = [f"the last {len(trend.runs)} runs"]
    told += [] if all(trend.settled) else ["hollow: it did not pass"]
    told += [] if trend.baseline is None else ["dashed: the baseline"]
    told += ["interrupted: the configuration changed"] if len(set(trend.parts)) > 1 else []
    return "; ".join(told)


def history_section(material: Material) -> Iterator[Html]:
    """Earlier runs, and this one against its baseline."""
    history = material.document.history if material.document else ()
    found = trends(history, material.summary.regression.baseline_run if material.summary.regression else "")
    told = regression(material.summary.regression, history)
    changes = [
        f"{test_name(t.test, t.shape)}{f' on {t.rail}' if t.rail else ''}: {percent(t.change, signed=True)}"
        for t in material.summary.tests
        if t.change is not None
    ]
    if not found and told is None:
        return
    charts: list[Html] = []
    if found:
        charts = [
            figure(trend.title, _how_to_read(trend), trend_chart(trend, f"trend{index}"))
            for index, trend in enumerate(found)
        ]
    yield section(
        "Over time",
        "history",
        told,
        bullets(changes) if changes else None,
        tag("div", charts, class_="charts") if charts else None,
    )

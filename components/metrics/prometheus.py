"""Alert rules, a board and the verdict of a lab, for Prometheus and Grafana. Pure."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from components.audit.checks.gpus import BROKEN
from components.audit.checks.links import BIT_ERRORS, BIT_ERRORS_PER_HOUR, MODULE_FAULTS
from components.audit.checks.losses import (
    FEW_PAUSES_PER_S,
    LEAST_RESENT_PER_S,
    LIMITS,
    MOST_RESENT_SHARE,
    RESENT,
    SENT,
    STORMS,
    TIMES_MEDIAN,
)
from components.audit.checks.pcie import INTEGRITY
from components.audit.registry import checks
from components.gate.measured import MeasuredState
from stacks.lab import Lab
from stacks.safe_yaml import load_kubernetes_yaml

FOLDER = Path(__file__).parent
LEAST_STALE_S = 60
COUNTER = "{{ $labels.node }} {{ $labels.rail }} {{ $labels.counter }}"
WIDTH, HEIGHT, ACROSS = 12, 8, 2

Document = dict[str, Any]


def rules_of(lab: Lab) -> Document:
    """The rule file of a lab for Prometheus: the audit's checks over what the hosts' timer writes.

    Only nodes that the lab file has as active are judged.
    """
    every_s = lab.system.watch.every_s if lab.system.watch else 0
    document = _filled(
        "rules.yaml",
        LAB=lab.name,
        STALE_S=max(LEAST_STALE_S, 4 * every_s),
        BIT_ERRORS="|".join(BIT_ERRORS),
        BIT_ERRORS_PER_HOUR=BIT_ERRORS_PER_HOUR,
        STORMS="|".join(STORMS),
        MODULE_FAULTS="|".join(MODULE_FAULTS),
        INTEGRITY="|".join(INTEGRITY),
        FEW_PAUSES_PER_S=FEW_PAUSES_PER_S,
        TIMES_MEDIAN=TIMES_MEDIAN,
        XIDS="|".join(map(str, BROKEN)),
    )
    expected, faults, _ = document["groups"]
    expected["rules"] += _expected(lab)
    faults["rules"] += _losses(lab)
    for rule in faults["rules"]:
        check = checks().get(rule["labels"]["code"])
        if check:
            rule["expr"] += " and on (lab, node) rocelab:expected_node"
            rule["labels"]["severity"] = check.severity.word
            rule["annotations"]["summary"] += f": {check.title}"
            rule["annotations"]["remedy"] = check.remedy
    if lab.benchmarks is None or lab.benchmarks.mode == "off":
        document["groups"].pop()
    return document


def _expected(lab: Lab) -> Iterator[Document]:
    for node in lab.active_nodes:
        labels = {"lab": lab.name, "node": node.name}
        yield {"record": "rocelab:expected_node", "expr": "vector(1)", "labels": labels}
        if "gpus" in node.model_fields_set and not lab.simulated:
            expr = f"vector({node.gpus})"
            yield {"record": "rocelab:expected_gpus", "expr": expr, "labels": {**labels}}


def _losses(lab: Lab) -> Iterator[Document]:
    rates = {}
    for counter in (*LIMITS, SENT, RESENT):
        window = "10m" if counter.endswith("_phy") else "2m"
        series = f'rocelab_port_events_total{{lab="{lab.name}",counter="{counter}"}}'
        rates[counter] = f"rate({series}[{window}])"
    losses = [f"{rates[counter]} > {limit}" for counter, limit in LIMITS.items()]
    if lab.simulated:
        port = "on (lab, node, rail)"
        least = f"{rates[RESENT]} > {LEAST_RESENT_PER_S}"
        share = f"{rates[RESENT]} > {port} {MOST_RESENT_SHARE} * {rates[SENT]}"
        losses.append(f"({least} and {port} {share})")
    for loss in losses:
        yield {
            "alert": "RocelabPacketLoss",
            "expr": loss,
            "labels": {"code": "packet-loss"},
            "annotations": {"summary": COUNTER},
        }


def board_of(lab: Lab) -> Document:
    """The board of a lab for Grafana."""
    board = _filled("board.yaml", LAB=lab.name)
    for number, panel in enumerate(board["panels"]):
        row, column = divmod(number, ACROSS)
        panel["id"] = number + 1
        panel["type"] = "timeseries"
        panel["datasource"] = {"type": "prometheus", "uid": "${datasource}"}
        panel["gridPos"] = {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT}
    return board


def _filled(file: str, **values: object) -> Document:
    text = (FOLDER / file).read_text()
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    document: Document = load_kubernetes_yaml(text)
    return document


def verdict_text(lab: str, measured: MeasuredState | None) -> str:
    """Value and age of a stack's verdict as a text file of node_exporter; empty without one.

    0: the axis failed, or the lab works only in part.
    """
    if measured is None:
        return ""
    verdict = measured.verdict
    good = {
        "function": verdict.function in ("pass", "skip"),
        "performance": verdict.performance != "fail",
    }
    name = "rocelab_verdict"
    lines = [f"# TYPE {name} gauge"]
    for axis, is_good in good.items():
        lines.append(f'{name}{{lab="{lab}",axis="{axis}"}} {int(is_good)}')
    begun_s = datetime.fromisoformat(verdict.started_at).timestamp()
    is_stale = bool(verdict.stale or measured.lab_changes)
    for metric, value in (("timestamp_seconds", begun_s), ("stale", int(is_stale))):
        lines += [f"# TYPE {name}_{metric} gauge", f'{name}_{metric}{{lab="{lab}"}} {value:.15g}']
    return "".join(f"{line}\n" for line in lines)

"""The alerts of a lab: the audit's checks as rules over what the hosts' timer writes. Pure."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pydantic import JsonValue

from components.audit.checks.gpus import BROKEN
from components.audit.checks.links import BIT_ERRORS, BIT_ERRORS_PER_HOUR, MODULE_FAULTS
from components.audit.checks.losses import FEW_PAUSES_PER_S, LIMITS, STORMS, TIMES_MEDIAN
from components.audit.checks.pcie import INTEGRITY
from components.audit.registry import checks
from components.cluster.manifests import Manifest, render
from stacks.lab import Lab

SOFT_ROCE_LIMITS = {"rcvd_seq_err": 1, "completer_retry_err": 1}
"""Packets that soft-RoCE must send again, per second: 0.1 % of what emulated NICs carry is more."""
RESTARTED_S = 600
"""So long after a boot, links that come up are no flaps."""
LEAST_STALE_S = 60
NODE, RAIL, GPU = (f"{{{{ $labels.{name} }}}}" for name in ("node", "rail", "gpu"))
COUNTER = f"{RAIL} {{{{ $labels.counter }}}}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One rule."""

    name: str
    code: str
    expr: str
    severity: str
    summary: str
    """`$labels` of the alert are filled in by Prometheus."""
    remedy: str
    hold: str = ""

    def document(self) -> dict[str, JsonValue]:
        document: dict[str, JsonValue] = {**asdict(self)}
        document["alert"] = document.pop("name")
        return document


def of_check(name: str, code: str, expr: str, *, place: str = RAIL, hold: str = "") -> Alert:
    """An alert with severity, title and remedy of the audit's check for the same fault.

    Args:
        name: of the alert.
        code: of the check.
        expr: when it fires, on whatever node.
        place: what its series name besides the node.
        hold: how long it must be true.
    """
    check = checks()[code]
    return Alert(
        name=name,
        code=code,
        expr=f"{expr} and on (lab, node) rocelab:expected_node",
        severity=check.severity.word,
        summary=f"{NODE} {place}: {check.title}",
        remedy=check.remedy,
        hold=hold,
    )


def rules_of(lab: Lab) -> Manifest:
    """The rule file of a lab for Prometheus."""
    nodes: list[JsonValue] = []
    for node in lab.active_nodes:
        expected = ""
        if "gpus" in node.model_fields_set and not lab.simulated:
            expected = f"vector({node.gpus})"
        nodes.append({"name": node.name, "gpus_expr": expected})
    alerts = [*watch_alerts(lab), *port_alerts(lab), *gpu_alerts(lab)]
    if lab.benchmarks is not None and lab.benchmarks.mode != "off":
        alerts += verdict_alerts(lab)
    rules = [alert.document() for alert in alerts]
    return render("metrics/rules", lab=lab.name, nodes=nodes, rules=rules)


def watch_alerts(lab: Lab) -> Iterator[Alert]:
    """What is not known: silence is no health."""
    every_s = lab.system.watch.every_s if lab.system.watch else 0
    of_lab = f'{{lab="{lab.name}"}}'
    written = f"rocelab_watch_timestamp_seconds{of_lab}"
    old = f"time() - {written} > {max(LEAST_STALE_S, 4 * every_s)}"
    unread = f"rocelab_port_unread{of_lab} == 1"
    yield Alert(
        name="RocelabWatchSilent",
        code="watch-silent",
        expr=f"rocelab:expected_node{of_lab} unless on (lab, node) {written}",
        severity="medium",
        summary=f"no counters of {NODE} for five minutes: nothing is known of it",
        remedy="is the node up, node_exporter running, and system.watch.folder its folder?",
        hold="5m",
    )
    yield Alert(
        name="RocelabWatchStale",
        code="watch-stale",
        expr=f"{old} and on (lab, node) rocelab:expected_node",
        severity="medium",
        summary=f"the counters of {NODE} are old: the timer does not run, or fails",
        remedy="on the node: systemctl list-timers 'rocelab-watch-*'",
    )
    yield Alert(
        name="RocelabPortUnread",
        code="port-unread",
        expr=f"{unread} and on (lab, node) rocelab:expected_node",
        severity="medium",
        summary=f"{NODE} {RAIL} cannot be read, which says nothing about it",
        remedy="read dmesg on the node: the driver may be recovering the NIC's firmware",
        hold="1m",
    )


def verdict_alerts(lab: Lab) -> Iterator[Alert]:
    of_lab = f'{{lab="{lab.name}"}}'
    yield Alert(
        name="RocelabVerdict",
        code="verdict",
        expr=f"rocelab_verdict{of_lab} == 0",
        severity="high",
        summary="the last measurement failed: {{ $labels.axis }}",
        remedy="rocelab report shows why",
    )
    yield Alert(
        name="RocelabVerdictStale",
        code="stale",
        expr=f"rocelab_verdict_stale{of_lab} == 1",
        severity="medium",
        summary="hosts, switches or the lab file changed since the last measurement",
        remedy="pulumi up measures again",
        hold="1h",
    )


def port_alerts(lab: Lab) -> Iterator[Alert]:
    """One fault has one alert: what is gone is not also down, what is down has no RDMA to lose."""

    def port(metric: str) -> str:
        return f'rocelab_port_{metric}{{lab="{lab.name}"}}'

    def counter(name: str) -> str:
        return f'rocelab_port_events_total{{lab="{lab.name}",counter=~"{name}"}}'

    yield of_check("RocelabPortGone", "pci-missing", f"{port('present')} == 0", hold="30s")
    yield of_check("RocelabLinkDown", "link-down", f"{port('up')} == 0", hold="15s")
    up = f"{port('up')} == 1"
    no_rdma = f"({port('rdma_active')} == 0 and on (lab, node, rail) {up})"
    yield of_check("RocelabRdmaGone", "rdma-port", no_rdma, hold="30s")
    # a counter that began again with the driver or the host is not a flap
    downs = port("carrier_down_total")
    settled = f"time() - rocelab_boot_time_seconds > {RESTARTED_S}"
    flaps = (
        f"(increase({downs}[5m]) > 0 unless resets({downs}[10m]) > 0)"
        f" and on (lab, node, rail) {up} and on (lab, node) {settled}"
    )
    yield of_check("RocelabLinkFlap", "link-flaps", flaps)
    limits: dict[str, int] = dict(LIMITS)
    if lab.simulated:
        limits |= SOFT_ROCE_LIMITS
    for name, limit in limits.items():
        window = "10m" if name.endswith("_phy") else "2m"
        lost = f"rate({counter(name)}[{window}]) > {limit}"
        yield of_check("RocelabPacketLoss", "packet-loss", lost, place=COUNTER)
    errors = f"rate({counter('|'.join(BIT_ERRORS))}[30m]) * 3600 > {BIT_ERRORS_PER_HOUR}"
    yield of_check("RocelabLinkErrors", "link-errors", errors, place=COUNTER)
    rising = (
        ("RocelabPauseStorm", "pause-storm", STORMS),
        ("RocelabModuleFault", "link-module", MODULE_FAULTS),
        ("RocelabPcieErrors", "pcie-errors", INTEGRITY),
    )
    for alert, code, names in rising:
        rise = f"increase({counter('|'.join(names))}[15m]) > 0"
        yield of_check(alert, code, rise, place=COUNTER)
    paused = f"rate({counter('rx_prio[0-7]_pause')}[10m])"
    usual = f"quantile by (lab, rail, counter) (0.5, {paused})"
    often = (
        f"({paused} > {FEW_PAUSES_PER_S}"
        f" and {paused} > on (lab, rail, counter) group_left {TIMES_MEDIAN} * {usual})"
    )
    yield of_check("RocelabPauses", "pause-rate", often, place=COUNTER)


def gpu_alerts(lab: Lab) -> Iterator[Alert]:
    def gpu(metric: str, **labels: str) -> str:
        pairs = [f'{name}="{value}"' for name, value in {"lab": lab.name, **labels}.items()]
        return f"rocelab_gpu{metric}{{{','.join(pairs)}}}"

    lost = f"{gpu('_state', state='lost')} == 1"
    fewer = f"({gpu('s')} < on (lab, node) rocelab:expected_gpus unless on (lab, node) {lost})"
    errors = f"{gpu('_errors_total', counter='ecc_uncorrected')} > 0"
    damaged = f"({gpu('_state', state='damaged')} == 1 or {errors})"
    codes = "|".join(str(code) for code in BROKEN)
    xids = f'rocelab_gpu_xids_total{{lab="{lab.name}",xid=~"{codes}"}} > 0'
    throttled = f"{gpu('_state', state='throttled')} == 1"
    reset = f"{gpu('_state', state='reset')} == 1"
    gone = (("RocelabGpuMissing", "gpu-count", fewer), ("RocelabGpuLost", "gpu-lost", lost))
    for name, code, expr in (*gone, ("RocelabGpuMemory", "gpu-memory", damaged)):
        yield of_check(name, code, expr, place=GPU)
    yield of_check("RocelabGpuReset", "gpu-reset", reset, place=GPU)
    yield of_check("RocelabGpuXid", "gpu-xid", xids, place=f"{GPU} Xid {{{{ $labels.xid }}}}")
    yield of_check("RocelabGpuThrottled", "gpu-throttled", throttled, place=GPU, hold="5m")

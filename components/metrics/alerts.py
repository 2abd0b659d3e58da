"""The alerts of a lab: the audit's checks as rules over what the hosts' timer writes. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """One rule. Title, severity and remedy are those of the audit's check."""

    name: str
    code: str
    expr: str
    hold: str = ""
    what: str = ""
    """What the series names besides node and rail."""
    is_gpu: bool = False

    def document(self) -> dict[str, JsonValue]:
        check = checks()[self.code]
        place = "{{ $labels.gpu }}" if self.is_gpu else "{{ $labels.rail }}"
        value = f" ({{{{ $labels.{self.what} }}}})" if self.what else ""
        return {
            "alert": self.name,
            "code": self.code,
            "expr": f"{self.expr} and on (lab, node) rocelab:expected_node",
            "hold": self.hold,
            "severity": check.severity.word,
            "summary": f"{{{{ $labels.node }}}} {place}: {check.title}{value}",
            "remedy": check.remedy,
        }


def rules_of(lab: Lab) -> Manifest:
    """The rule file of a lab for Prometheus."""
    every_s = lab.system.watch.every_s if lab.system.watch else 0
    nodes: list[JsonValue] = []
    for node in lab.active_nodes:
        gpus = None
        if "gpus" in node.model_fields_set and not lab.simulated:
            gpus = node.gpus
        nodes.append({"name": node.name, "gpus": gpus})
    return render(
        "metrics/rules",
        lab=lab.name,
        nodes=nodes,
        stale_s=max(LEAST_STALE_S, 4 * every_s),
        rules=[alert.document() for alert in (*port_alerts(lab), *gpu_alerts(lab))],
        judged=lab.benchmarks is not None and lab.benchmarks.mode != "off",
    )


def port_alerts(lab: Lab) -> Iterator[Alert]:
    """One fault has one alert: what is gone is not also down, what is down has no RDMA to lose."""

    def port(metric: str) -> str:
        return f'rocelab_port_{metric}{{lab="{lab.name}"}}'

    def counter(name: str) -> str:
        return f'rocelab_port_events_total{{lab="{lab.name}",counter=~"{name}"}}'

    yield Alert(
        name="RocelabPortGone", code="pci-missing", expr=f"{port('present')} == 0", hold="30s"
    )
    yield Alert(name="RocelabLinkDown", code="link-down", expr=f"{port('up')} == 0", hold="15s")
    up = f"{port('up')} == 1"
    no_rdma = f"({port('rdma_active')} == 0 and on (lab, node, rail) {up})"
    yield Alert(name="RocelabRdmaGone", code="rdma-port", expr=no_rdma, hold="30s")
    # a counter that began again with the driver or the host is not a flap
    downs = port("carrier_down_total")
    settled = f"time() - rocelab_boot_time_seconds > {RESTARTED_S}"
    flaps = (
        f"(increase({downs}[5m]) > 0 unless resets({downs}[10m]) > 0)"
        f" and on (lab, node, rail) {up} and on (lab, node) {settled}"
    )
    yield Alert(name="RocelabLinkFlap", code="link-flaps", expr=flaps)
    limits: dict[str, int] = dict(LIMITS)
    if lab.simulated:
        limits |= SOFT_ROCE_LIMITS
    for name, limit in limits.items():
        window = "10m" if name.endswith("_phy") else "2m"
        lost = f"rate({counter(name)}[{window}]) > {limit}"
        yield Alert(name="RocelabPacketLoss", code="packet-loss", expr=lost, what="counter")
    errors = f"rate({counter('|'.join(BIT_ERRORS))}[30m]) * 3600 > {BIT_ERRORS_PER_HOUR}"
    yield Alert(name="RocelabLinkErrors", code="link-errors", expr=errors, what="counter")
    rising = (
        ("RocelabPauseStorm", "pause-storm", STORMS),
        ("RocelabModuleFault", "link-module", MODULE_FAULTS),
        ("RocelabPcieErrors", "pcie-errors", INTEGRITY),
    )
    for alert, code, names in rising:
        rise = f"increase({counter('|'.join(names))}[15m]) > 0"
        yield Alert(name=alert, code=code, expr=rise, what="counter")
    paused = f"rate({counter('rx_prio[0-7]_pause')}[10m])"
    usual = f"quantile by (lab, rail, counter) (0.5, {paused})"
    often = (
        f"({paused} > {FEW_PAUSES_PER_S}"
        f" and {paused} > on (lab, rail, counter) group_left {TIMES_MEDIAN} * {usual})"
    )
    yield Alert(name="RocelabPauses", code="pause-rate", expr=often, what="counter")


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
        yield Alert(name=name, code=code, expr=expr, is_gpu=True)
    yield Alert(name="RocelabGpuReset", code="gpu-reset", expr=reset, is_gpu=True)
    yield Alert(name="RocelabGpuXid", code="gpu-xid", expr=xids, what="xid", is_gpu=True)
    yield Alert(
        name="RocelabGpuThrottled", code="gpu-throttled", expr=throttled, hold="5m", is_gpu=True
    )

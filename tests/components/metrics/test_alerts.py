"""Each fault raises its own alert and no other, and known false alarms of other monitors raise none.

Prometheus' own promtool evaluates the rules: `promtool test rules` of Debian 12.
"""

import subprocess
from pathlib import Path

import pytest

from components.audit.checks.losses import LIMITS
from components.audit.registry import checks
from components.metrics.prometheus import board_of, rules_of
from stacks.lab import Lab
from stacks.safe_yaml import to_yaml
from tests.components.audit.spoilt import lab as hardware_lab
from tests.components.metrics.promtool import assert_alerts

STEPS, STEP_S = 160, 15
"""Forty minutes of scrapes."""
LAST_MINUTE = STEPS * STEP_S // 60
GPU = "0000:1a:00.0"
LAB = hardware_lab(hosts=2, rails=2)
NODES, RAILS = ("gpu01", "gpu02"), ("rail-1", "rail-2")


def constant(value: float) -> str:
    return f"{value}x{STEPS}"


def then(*parts: tuple[float, int]) -> str:
    """Values, each for some scrapes; the last one stays."""
    *before, (last, _) = parts
    texts = [f"{value}x{count - 1}" for value, count in before]
    used = sum(count for _, count in before)
    return " ".join([*texts, f"{last}x{STEPS - used}"])


def counts(start: float, per_scrape: float) -> str:
    return f"{start}+{per_scrape}x{STEPS}"


def healthy() -> dict[str, str]:
    """What the timer writes on sound nodes that have been up for a day."""
    series: dict[str, str] = {}
    for node in NODES:
        of_node = f'lab="pod1",node="{node}"'
        series[f"rocelab_watch_timestamp_seconds{{{of_node}}}"] = counts(0, STEP_S)
        series[f"rocelab_boot_time_seconds{{{of_node}}}"] = constant(-86400)
        series[f"rocelab_gpus{{{of_node}}}"] = constant(2)
        for state in ("lost", "throttled", "reset", "damaged"):
            series[f'rocelab_gpu_state{{{of_node},gpu="{GPU}",state="{state}"}}'] = constant(0)
        for rail in RAILS:
            port = f'{of_node},rail="{rail}"'
            for metric, value in {"unread": 0, "present": 1, "up": 1, "rdma_active": 1}.items():
                series[f"rocelab_port_{metric}{{{port}}}"] = constant(value)
            series[f"rocelab_port_carrier_down_total{{{port}}}"] = constant(3)
            for counter in (*LIMITS, "rx_prio3_pause", "rx_symbol_err_phy"):
                series[f'rocelab_port_events_total{{{port},counter="{counter}"}}'] = counts(5, 0.2)
    return series


def of(metric: str, node: str = "gpu02", rail: str = "rail-1", **labels: str) -> str:
    """A series of a port as `healthy` names it."""
    more = "".join(f',{name}="{value}"' for name, value in labels.items())
    return f'rocelab_port_{metric}{{lab="pod1",node="{node}",rail="{rail}"{more}}}'


def of_gpu(state: str) -> str:
    return f'rocelab_gpu_state{{lab="pod1",node="gpu02",gpu="{GPU}",state="{state}"}}'


def of_node(metric: str) -> str:
    return f'rocelab_{metric}{{lab="pod1",node="gpu02"}}'


def without(*names: str) -> dict[str, str]:
    """Series that stop; promtool writes a missing sample as `_`."""
    return dict.fromkeys(names, f"1x40 _x{STEPS - 41}")


def firing(promtool: Path, folder: Path, changed: dict[str, str], expected: set[str], *, lab: Lab = LAB) -> None:
    """Asserts which alerts fire, each as `alertname node place`."""
    series = {**healthy(), **changed}
    assert_alerts(promtool, folder, lab, series, {LAST_MINUTE * 60: expected}, step_s=STEP_S)


FAULTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "nothing": ({}, set()),
    "link down": (
        {of("up"): then((1, 100), (0, 0)), of("carrier_down_total"): then((3, 100), (4, 0))}
        | {of("rdma_active"): then((1, 100), (0, 0))},
        {"RocelabLinkDown gpu02 rail-1"},
    ),
    "link flapped a minute ago, and again after its repair": (
        {of("carrier_down_total"): then((3, 20), (4, 135), (5, 0))},
        {"RocelabLinkFlap gpu02 rail-1"},
    ),
    "NIC gone": (
        {of("present"): then((1, 100), (0, 0))} | without(of("up"), of("rdma_active"), of("carrier_down_total")),
        {"RocelabPortGone gpu02 rail-1"},
    ),
    "RDMA device removed": ({of("rdma_active"): then((1, 100), (0, 0))}, {"RocelabRdmaGone gpu02 rail-1"}),
    "lost packets": (
        {of("events_total", counter="packet_seq_err"): counts(0, 11 * STEP_S)},
        {"RocelabPacketLoss gpu02 rail-1"},
    ),
    "bit errors": (
        {of("events_total", counter="rx_symbol_err_phy"): counts(0, 100)},
        {"RocelabLinkErrors gpu02 rail-1"},
    ),
    "GPU lost": (
        {of_gpu("lost"): then((0, 100), (1, 0)), of_node("gpus"): then((2, 100), (1, 0))},
        {f"RocelabGpuLost gpu02 {GPU}"},
    ),
    "GPU not on PCI": ({of_node("gpus"): then((2, 100), (1, 0))}, {"RocelabGpuMissing gpu02"}),
    "GPU hot": ({of_gpu("throttled"): constant(1)}, {f"RocelabGpuThrottled gpu02 {GPU}"}),
    "timer stopped": ({of_node("watch_timestamp_seconds"): constant(60)}, {"RocelabWatchStale gpu02"}),
    "node silent": (without(*(name for name in healthy() if "gpu02" in name)), {"RocelabWatchSilent gpu02"}),
    "port cannot be read": (
        {of("unread"): then((0, 100), (1, 0))} | without(of("present"), of("up"), of("rdma_active")),
        {"RocelabPortUnread gpu02 rail-1"},
    ),
}
"""What is injected, and the alerts that fire at the end."""


@pytest.mark.sim
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_raises_its_own_alert_and_no_other(name: str, prometheus: Path, tmp_path: Path) -> None:
    changed, expected = FAULTS[name]

    firing(prometheus / "promtool", tmp_path, changed, expected)


QUIET: dict[str, dict[str, str]] = {
    # leptonai/gpud#989, #1011, #1055: whether an event sticks; here it shows for five minutes and then goes
    "a flap of half an hour ago": {of("carrier_down_total"): then((3, 30), (4, 0))},
    # NVIDIA/NVSentinel#1529, 3: what was open before a reboot under another name stays open for ever
    "a fault that a reboot has cured": {
        of_gpu("reset"): then((1, 60), (0, 0)),
        of_node("boot_time_seconds"): then((-86400, 60), (60 * STEP_S, 0)),
        of("carrier_down_total"): then((9, 60), (1, 0)),
    },
    "a driver that was loaded again three minutes ago": {of("carrier_down_total"): then((3, 148), (0, 3), (1, 0))},
    "links that come up after a boot three minutes ago": {
        of("carrier_down_total"): then((0, 148), (1, 0)),
        of_node("boot_time_seconds"): then((-86400, 146), (146 * STEP_S, 0)),
    },
    "a counter that began again": {of("events_total", counter="packet_seq_err"): then((90_000, 100), (0, 0))},
    # leptonai/gpud#371, #943: counters of InfiniBand saturate at 255 or 65535 and mean nothing as values
    "a saturated counter": {of("events_total", counter="link_downed"): constant(255)},
    "packets out of order by adaptive routing": {of("events_total", counter="out_of_sequence"): counts(0, 90_000)},
}


@pytest.mark.sim
@pytest.mark.parametrize("name", QUIET)
def test_what_alarms_other_monitors_for_nothing_is_quiet(name: str, prometheus: Path, tmp_path: Path) -> None:
    firing(prometheus / "promtool", tmp_path, QUIET[name], set())


@pytest.mark.sim
def test_a_fault_that_is_open_at_a_reboot_is_open_after_it(prometheus: Path, tmp_path: Path) -> None:
    rebooted = {of_node("boot_time_seconds"): then((-86400, 150), (150 * STEP_S, 0))}
    down = {of("up"): then((1, 100), (0, 0)), of("rdma_active"): then((1, 100), (0, 0))}

    firing(prometheus / "promtool", tmp_path, rebooted | down, {"RocelabLinkDown gpu02 rail-1"})


@pytest.mark.sim
def test_a_drained_node_raises_no_alert(prometheus: Path, tmp_path: Path) -> None:
    nodes = [*LAB.nodes]
    drained = LAB.model_copy(update={"nodes": (nodes[0], nodes[1].model_copy(update={"state": "drained"}))})

    firing(prometheus / "promtool", tmp_path, FAULTS["link down"][0], set(), lab=drained)


@pytest.mark.sim
def test_promtool_takes_the_rules_of_hardware_and_simulated_labs(prometheus: Path, tmp_path: Path, lab: Lab) -> None:
    for number, one in enumerate((LAB, lab)):
        file = tmp_path / f"{number}.yml"
        file.write_text(to_yaml(rules_of(one)))
        words = [prometheus / "promtool", "check", "rules", file]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_has_the_code_severity_and_remedy_of_the_audits_check(lab: Lab) -> None:
    alerts = {rule["labels"]["code"]: rule for rule in rules_of(lab)["groups"][1]["rules"]}

    of_checks = checks().keys() & alerts.keys()
    assert alerts.keys() - of_checks == {"watch-silent", "watch-stale", "port-unread"}
    for code in of_checks:
        check, alert = checks()[code], alerts[code]
        assert alert["labels"]["severity"] == check.severity.word
        assert alert["annotations"]["remedy"] == check.remedy
        assert check.title in alert["annotations"]["summary"]
        assert alert["expr"].endswith(" and on (lab, node) rocelab:expected_node")


def test_the_board_shows_every_metric_of_ports_and_gpus_of_this_lab_only() -> None:
    board = board_of(LAB)
    exprs = [target["expr"] for panel in board["panels"] for target in panel["targets"]]

    assert all('lab="pod1"' in str(expr) for expr in exprs)
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(set(places)) == len(places)

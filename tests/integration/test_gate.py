"""`rocelab gate` on a running lab that breaks in the ways that a scheduler must know about, one line each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import sim, unplugged
from tests.integration.stack import KEY, Done, Stack, environment, on_node, wait_for, wait_for_reboot
from tests.integration.watched import ALERTS_WITHIN_S, SCRAPE_S, SHOWN_WITHIN_S, Scrapes, make_textfile_folders

pytestmark = [pytest.mark.sim, pytest.mark.whole]

NODES = ("gpu01", "gpu02")
LOSS_S = 60


@pytest.fixture(scope="module")
def lab(simulator: Path) -> Iterator[Stack]:
    """The reference lab's hosts, measured by one test; nodes and switch are as new afterwards."""
    stack = Stack.make(simulator / "tests-gate")
    content = yaml.safe_load(stack.file.read_text())
    given = content["config"][KEY]
    given.pop("cluster")
    given["benchmarks"].pop("nccl", None)
    given["benchmarks"]["verbs"].update(tests=["ib_write_bw"], sizes=[])
    given["system"] = {"watch": {}}
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    make_textfile_folders(NODES)
    stack.up().succeeded()
    yield stack
    stack.pulumi("destroy").succeeded()
    assert sim(environment("lab"), "reset").returncode == 0


def gate(lab: Stack, *options: str, file: Path | None = None) -> Done:
    """The gate, when the look had time for all values: emulated nodes beside other work are slow at times."""
    named = ("--config-file", str(file or lab.file), "--stack", lab.name)
    for _ in range(5):
        done = lab.run("rocelab", "gate", *named, *options)
        if "not read within" not in done.text:
            return done
    pytest.fail(done.text)


def line(done: Done) -> str:
    return done.text.strip().splitlines()[-1]


def test_a_lab_that_was_measured_is_open(lab: Stack) -> None:
    done = gate(lab)

    assert line(done).startswith("open: gpu[01-02]: run 20")
    assert "(simulated), function pass" in line(done)
    assert done.status == 0


def test_a_pulled_cable_closes_its_node_and_no_other(lab: Stack) -> None:
    with unplugged("gpu01", "enp132s0"):
        broken, other = gate(lab), gate(lab, "--node", "gpu02")

    assert (broken.status, line(broken)) == (1, "closed: gpu01: link-down enp132s0: no carrier")
    assert other.status == 0, other.text


def test_a_port_without_rail_closes_nothing(lab: Stack) -> None:
    content: Any = yaml.safe_load(lab.file.read_text())
    given = content["config"][KEY]
    given["rails"].pop()
    for node in given["nodes"]:
        node["pfs"].pop()
    for ports in given["switches"][0]["ports"].values():
        ports.pop("enp132s0")
    given["switches"][0]["native_vlans"].pop("rail-b")
    one_rail = lab.folder / "one-rail.yaml"
    one_rail.write_text(yaml.safe_dump(content, sort_keys=False))

    with unplugged("gpu01", "enp132s0"):
        done = gate(lab, "--allow-stale", file=one_rail)

    assert done.status == 0, done.text


def test_an_rdma_device_that_is_gone_or_renamed_is_named(
    lab: Stack, scrapes: Scrapes, prometheus: Path, tmp_path: Path
) -> None:
    scrapes.until(set(), SHOWN_WITHIN_S)
    on_node("gpu02", "sudo rdma link delete rxe1")
    gone = gate(lab)
    scrapes.until({"rdma_active gpu02 rail-b"}, SHOWN_WITHIN_S)
    gone_s = scrapes.go_on(ALERTS_WITHIN_S)
    on_node("gpu02", "sudo rdma link add other type rxe netdev enp132s0")
    renamed = gate(lab)
    scrapes.until(set(), SHOWN_WITHIN_S)
    renamed_s = scrapes.go_on(ALERTS_WITHIN_S)
    on_node("gpu02", "sudo rdma dev set other name rxe1")

    # under its other name the device keeps the series of its port
    alerts = {gone_s: {"RocelabRdmaGone gpu02 rail-b"}, renamed_s: set()}
    scrapes.assert_alerts(lab.file, prometheus, tmp_path, alerts)

    assert line(gone) == "closed: gpu02: rdma-port enp132s0: no RDMA device"
    assert line(renamed) == "closed: gpu02: rdma-name enp132s0: other"


def test_a_loss_of_a_tenth_of_a_percent_closes_the_gate_and_raises_its_alert_after_traffic(
    lab: Stack, scrapes: Scrapes, prometheus: Path, tmp_path: Path
) -> None:
    scrapes.until(set(), SHOWN_WITHIN_S)
    assert sim(environment("lab"), "switch", "set", "gpu02", "enp5s0", "--loss", "0.1").returncode == 0
    assert gate(lab).status == 0
    sound_s = scrapes.go_on(SCRAPE_S)
    server = f"(timeout {LOSS_S} ib_write_bw -d rxe0 -x 1 -F -D {LOSS_S - 20} >/dev/null 2>&1 &)"
    on_node("gpu02", server)
    wait_for("gpu02", "ss -Hltn 'sport = :18515' | wc -l", "1")
    client = f"timeout {LOSS_S} ib_write_bw -d rxe0 -x 1 -F -D {LOSS_S - 20} 10.10.11.12"
    with scrapes.during():
        printed = on_node("gpu01", f"{client} 2>&1 || true", timeout_s=2 * LOSS_S)
    lossy_s = scrapes.go_on(SHOWN_WITHIN_S)
    counters = on_node("gpu01", "cd /sys/class/infiniband/rxe0/ports/1/hw_counters; grep . *")
    lossy = gate(lab)
    print(printed, counters, lossy.text)
    assert sim(environment("lab"), "switch", "set", "gpu02", "enp5s0", "--loss", "0").returncode == 0

    assert line(lossy).startswith("closed: gpu01: packet-loss enp5s0: 0."), lossy.text
    assert line(lossy).endswith("% of packets sent again")
    alerts = {sound_s: set(), lossy_s: {"RocelabPacketLoss gpu01 rail-a"}}
    scrapes.assert_alerts(lab.file, prometheus, tmp_path, alerts)


def test_a_fault_that_was_there_before_a_reboot_is_there_after_it(
    lab: Stack, scrapes: Scrapes, prometheus: Path, tmp_path: Path
) -> None:
    boot = on_node("gpu01", "cat /proc/sys/kernel/random/boot_id")
    with unplugged("gpu01", "enp132s0"):
        scrapes.until({"up gpu01 rail-b"}, SHOWN_WITHIN_S)
        before_s = scrapes.go_on(ALERTS_WITHIN_S)
        with scrapes.during():
            on_node("gpu01", "sudo systemd-run --on-active=1 systemctl reboot")
            wait_for_reboot("gpu01", boot)
            # our unit ends after sshd starts
            wait_for("gpu01", "systemctl list-jobs --no-legend | grep -c rocelab-rdma || true", "0", within_s=180)
        scrapes.until({"up gpu01 rail-b"}, SHOWN_WITHIN_S)
        after_s = scrapes.go_on(ALERTS_WITHIN_S)
        broken = gate(lab)
    scrapes.until(set(), SHOWN_WITHIN_S)
    repaired_s = scrapes.go_on(SCRAPE_S)
    repaired = gate(lab)

    assert line(broken) == "closed: gpu01: link-down enp132s0: no carrier; gpu01: stale boot changed"
    assert line(repaired) == "closed: gpu01: stale boot changed"
    down = {"RocelabLinkDown gpu01 rail-b"}
    alerts: dict[int, set[str]] = {before_s: down, after_s: down, repaired_s: set()}
    scrapes.assert_alerts(lab.file, prometheus, tmp_path, alerts)

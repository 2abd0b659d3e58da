"""Settings come back after a driver reload, by real udev and systemd: igb and soft-RoCE, unloaded and loaded."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.integration.stack import KEY, Stack, on_node

pytestmark = [pytest.mark.sim, pytest.mark.whole]

UNIT = "rocelab-rdma.service"
PF = "/sys/class/net/enp5s0"
SETTINGS = (
    f"cat {PF}/mtu {PF}/device/sriov_numvfs {PF}/device/virtfn3/net/*/mtu /proc/sys/net/ipv4/conf/enp5s0/arp_ignore; "
    "ip -4 -o address show dev enp5s0 | awk '{print $4}'; cat "
    f"{PF}/device/virtfn*/net/*/address; for device in /sys/class/infiniband/*; do "
    'echo "${device##*/} $(cat "$device/parent")"; done'
)
"""All that a reload of igb takes away."""
RUNS = f"sudo journalctl -b -u {UNIT} -o cat | grep -c '^Finished' || true"
AGAIN_S = 240
QUIET_S = 15


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The reference lab's hosts alone."""
    stack = Stack.make(simulator / "tests-reload")
    content = yaml.safe_load(stack.file.read_text())
    for section in ("cluster", "benchmarks", "switches", "qos"):
        content["config"][KEY].pop(section, None)
    stack.file.write_text(yaml.safe_dump(content, sort_keys=False))
    stack.up().succeeded()
    yield stack
    stack.pulumi("destroy").succeeded()


def comes_back(before: str) -> None:
    """Waits until a node is as it was, and then that its unit rests."""
    deadline = time.monotonic() + AGAIN_S
    while (found := on_node("gpu01", f"{SETTINGS} 2>/dev/null || true")) != before:
        assert time.monotonic() < deadline, f"still\n{found}\nand not\n{before}\n{on_node('gpu01', RUNS)} runs"
        time.sleep(1)
    runs = ""
    while (now := on_node("gpu01", RUNS)) != runs:
        assert time.monotonic() < deadline, f"after {now} runs: what the unit makes must not start it again"
        runs = now
        time.sleep(QUIET_S)
    assert on_node("gpu01", f"systemctl is-failed {UNIT} || true") == "inactive"
    assert on_node("gpu01", SETTINGS) == before


@pytest.mark.parametrize("module", ["rdma_rxe", "igb"])
def test_what_a_driver_reload_takes_away_comes_back_by_itself(stack: Stack, module: str) -> None:
    before = on_node("gpu01", SETTINGS)
    assert before.split()[:2] == ["9000", "4"]

    gone = on_node("gpu01", f"sudo modprobe -r {module} && ls /sys/class/infiniband")
    assert gone == "", "soft-RoCE goes with its module and with its netdev"
    on_node("gpu01", f"sudo modprobe {module}")

    comes_back(before)


def test_after_the_reloads_nothing_has_drifted(stack: Stack) -> None:
    assert "=>" not in stack.drift().text

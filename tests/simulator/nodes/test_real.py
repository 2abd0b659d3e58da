"""Two real nodes on the real switch, beside whatever simulator runs: own state, own addresses."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from components.validation.benchmarks.verbs.commands import PATIENT
from simulator.nodes.part import Nodes
from simulator.part import SimulatorError
from simulator.switch.part import Switch
from stacks.lab import Lab
from tests.messages import stating

pytestmark = [pytest.mark.sim, pytest.mark.whole]

FIRST, SECOND = 61, 62
RAILS = (("enp5s0", "10.10.11", "rxe0"), ("enp132s0", "10.10.12", "rxe1"))
VFS = 4
SET_UP_RAILS = "set -e\n" + "\n".join(
    f"""echo {VFS} | sudo tee /sys/class/net/{nic}/device/sriov_numvfs > /dev/null
    sudo ip link set {nic} mtu 9000 up; sudo ip addr add {net}.$1/24 dev {nic}
    sudo modprobe rdma_rxe; sudo rdma link add {device} type rxe netdev {nic}"""
    for nic, net, device in RAILS
)


class Bench:
    """The two nodes and their switch."""

    def __init__(self, lab: Lab, state: Path) -> None:
        nodes = tuple(
            node.model_copy(update={"name": f"gpu{number}", "address": IPv4Address(f"127.0.12.{number}")})
            for node, number in zip(lab.nodes, (FIRST, SECOND), strict=True)
        )
        self.nodes = Nodes(lab.model_copy(update={"nodes": nodes}), state)
        self.switch = Switch(lab, self.nodes.machines, state)
        self.said: list[str] = []

    def up(self) -> None:
        self.said.clear()
        self.switch.up(self.said.append)
        self.nodes.up(self.said.append)

    def reset(self) -> None:
        self.switch.reset(self.said.append)
        self.nodes.reset(self.said.append)

    def down(self) -> None:
        self.nodes.down(self.said.append)
        self.switch.down(self.said.append)

    def ssh(self, node: int, command: str, stdin: str = "", timeout_s: int = 120) -> subprocess.CompletedProcess[str]:
        login = ["ssh", "-F", str(self.nodes.folder / "ssh_config"), f"gpu{node}", command]
        return subprocess.run(login, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)

    def says(self, node: int, command: str, stdin: str = "") -> str:
        done = self.ssh(node, command, stdin)
        assert done.returncode == 0, f"gpu{node}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def set_up_rails(self) -> None:
        for node in (FIRST, SECOND):
            self.says(node, f"bash -s {node}", SET_UP_RAILS)

    def pings(self, net: str = "10.10.11", payload: int = 8972) -> bool:
        """Whether the peer answers; on a machine at work the first answer may take seconds."""
        ping = f"ping -c 1 -W 2 -M do -s {payload} {net}.{SECOND}"
        return self.ssh(FIRST, f"for i in 1 2 3 4 5 6; do {ping} && exit 0; done; exit 1").returncode == 0

    def is_silent(self, payload: int = 8972) -> bool:
        """Whether the peer does not answer on the first rail, asked twice."""
        return self.ssh(FIRST, f"ping -c 2 -W 2 -i 0.3 -M do -s {payload} 10.10.11.{SECOND}").returncode != 0

    def comes_to_say(self, node: int, word: str, command: str) -> None:
        """Waits until a command prints a word."""
        wait = f"for i in $(seq 300); do {command} | grep -q {word} && exit 0; sleep 0.2; done; {command}; exit 1"
        self.says(node, wait)

    def qemu(self, node: int) -> int:
        pid = self.nodes.node(f"gpu{node}").daemon.pid()
        assert pid is not None
        return pid


@pytest.fixture(scope="module")
def running(lab: Lab) -> Iterator[Bench]:
    state = Path(tempfile.mkdtemp(prefix="nodes"))
    bench = Bench(lab, state)
    try:
        bench.up()
        yield bench
    finally:
        bench.down()
        shutil.rmtree(state)


@pytest.fixture
def clean(running: Bench) -> Bench:
    """Both nodes as after their first boot."""
    running.up()
    running.reset()
    return running


@pytest.fixture
def rails(clean: Bench) -> Bench:
    """Both nodes with VFs, addresses, jumbo frames and soft-RoCE on both rails."""
    clean.set_up_rails()
    return clean


def test_rdma_writes_run_on_both_rails_over_the_switch(rails: Bench):
    for nic, net, device in RAILS:
        perftest = f"timeout 90 ib_write_bw -d {device} -s 65536 -n 200 -u {PATIENT} --report_gbits"
        login = ["ssh", "-F", str(rails.nodes.folder / "ssh_config"), f"gpu{SECOND}", perftest]
        with subprocess.Popen(login, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
            rails.comes_to_say(SECOND, ":18515", "ss -ltn")
            printed = rails.says(FIRST, f"{perftest} {net}.{SECOND}")
            server.communicate(timeout=90)

        line = re.search(r"^ 65536 +200 +\S+ +(\S+)", printed, re.MULTILINE)
        assert line is not None, printed
        assert float(line[1]) > 0
        moved = {(port.node, port.nic): port.counters["in_bytes"] for port in rails.switch.client.show()}
        assert moved[f"gpu{FIRST}", nic] > 200 * 65_536, "the data went over this rail's port"


def test_jumbo_frames_pass_unfragmented_on_both_rails(rails: Bench):
    assert all(rails.pings(net) for _, net, _ in RAILS)


def test_the_nics_make_seven_vfs_and_refuse_eight(clean: Bench):
    vfs = "/sys/class/net/enp5s0/device/sriov_numvfs"

    assert clean.ssh(FIRST, f"echo 8 | sudo tee {vfs}").returncode != 0
    clean.says(FIRST, f"echo 7 | sudo tee {vfs}")
    assert clean.says(FIRST, "ls -d /sys/class/net/enp5s0/device/virtfn* | wc -l").strip() == "7"


def test_a_vf_with_a_vlan_reaches_its_peer_tagged_and_another_vlan_does_not(rails: Bench):
    def give_vf(vlan: int) -> None:
        for node in (FIRST, SECOND):
            rails.says(
                node,
                f"sudo ip link set enp5s0 vf 0 mac 02:00:00:00:11:{node} vlan {vlan} && d=$(basename $(readlink "
                "/sys/class/net/enp5s0/device/virtfn0)) && echo $d | sudo tee /sys/bus/pci/drivers/igbvf/unbind && "
                "echo $d | sudo tee /sys/bus/pci/drivers/igbvf/bind && udevadm settle && "
                f"sudo ip link set enp5s0v0 up && sudo ip addr replace 10.20.111.{node}/24 dev enp5s0v0",
            )

    ping = f"for i in 1 2 3 4 5 6 7 8; do ping -c 1 -W 1 10.20.111.{SECOND} && exit 0; done; exit 1"
    give_vf(111)
    assert rails.ssh(FIRST, ping).returncode == 0
    give_vf(113)
    assert rails.ssh(FIRST, ping).returncode != 0, "VLAN 113 is allowed on no port"


def test_a_pulled_cable_is_no_carrier_in_the_guest_and_heals_when_put_in(rails: Bench):
    rails.nodes.plug(f"gpu{FIRST}", "enp5s0", plugged=False)
    rails.comes_to_say(FIRST, "NO-CARRIER", "ip link show enp5s0")
    rails.comes_to_say(FIRST, "PORT_DOWN", "ibv_devinfo -d rxe0")
    assert rails.is_silent()
    assert rails.pings("10.10.12"), "the other rail still works"

    rails.nodes.plug(f"gpu{FIRST}", "enp5s0", plugged=True)
    rails.comes_to_say(FIRST, "1", "cat /sys/class/net/enp5s0/carrier")
    assert rails.pings()


def test_a_cable_that_was_pulled_before_a_start_is_no_carrier_after_it(clean: Bench):
    clean.nodes.plug(f"gpu{SECOND}", "enp132s0", plugged=False)
    clean.nodes.down(clean.said.append)
    clean.up()

    clean.says(SECOND, "sudo ip link set enp132s0 up")
    clean.comes_to_say(SECOND, "NO-CARRIER", "ip link show enp132s0")


def test_a_small_mtu_on_the_switch_stops_large_frames_only(rails: Bench):
    rails.switch.client.set(f"gpu{SECOND}", "enp5s0", mtu_bytes=1500)

    assert rails.is_silent(payload=8972)
    assert rails.pings(payload=1472)


def test_a_wrong_native_vlan_on_the_switch_cuts_the_rail(rails: Bench):
    rails.switch.client.set(f"gpu{SECOND}", "enp5s0", native_vlan=7)

    assert rails.is_silent(payload=56)


def test_a_reboot_from_inside_comes_back_with_another_boot_id_and_without_vfs(rails: Bench):
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    before, pid = rails.says(FIRST, boot_id), rails.qemu(FIRST)
    rails.ssh(FIRST, "sudo systemctl reboot")

    deadline = time.monotonic() + 300
    while (now := rails.ssh(FIRST, boot_id)).returncode != 0 or now.stdout == before:
        assert time.monotonic() < deadline, "no login after the reboot"
        time.sleep(0.5)

    assert rails.qemu(FIRST) == pid
    assert rails.says(FIRST, "cat /sys/class/net/enp5s0/device/sriov_numvfs; rdma link").split() == ["0"]


def test_reset_brings_the_first_boot_back_with_the_right_time(rails: Bench):
    rails.says(FIRST, "sudo touch /etc/left-behind; hostname")
    rails.reset()

    assert rails.says(
        FIRST, "ls /etc/left-behind 2> /dev/null; cat /sys/class/net/enp5s0/device/sriov_numvfs"
    ).split() == ["0"]
    assert abs(float(rails.says(FIRST, "date +%s")) - time.time()) < 10
    rails.set_up_rails()
    assert rails.pings(), "VFs and soft-RoCE can be made again"


def test_a_second_up_keeps_the_nodes_as_they_are(rails: Bench):
    pids = [rails.qemu(FIRST), rails.qemu(SECOND)]

    rails.up()

    assert [rails.qemu(FIRST), rails.qemu(SECOND)] == pids
    assert rails.says(FIRST, "cat /sys/class/net/enp5s0/device/sriov_numvfs").strip() == str(VFS)


def test_a_killed_qemu_is_reported_with_its_last_lines_and_up_restarts_it(clean: Bench):
    other = clean.qemu(SECOND)
    pid = clean.qemu(FIRST)
    os.kill(pid, signal.SIGKILL)
    _wait_for_end(pid)

    states = {status.name: status for status in clean.nodes.status()}
    assert states[f"gpu{FIRST}"].state == "died"
    assert "qemu.log" in states[f"gpu{FIRST}"].detail
    with pytest.raises(SimulatorError, check=stating(f"gpu{FIRST}", "sim up")):
        clean.nodes.reset(clean.said.append)

    clean.up()
    assert clean.says(FIRST, "hostname").strip() == f"gpu{FIRST}"
    assert clean.qemu(SECOND) == other


def test_a_snapshot_that_cannot_be_read_is_booted_afresh(clean: Bench):
    clean.nodes.down(clean.said.append)
    (disk,) = (clean.nodes.folder / f"gpu{FIRST}").glob("disk-*.qcow2")
    with disk.open("r+b") as file:  # the memory in it, which lies in the file's second half
        size = disk.stat().st_size
        file.seek(size // 2)
        file.write(os.urandom(size // 2))

    clean.up()

    assert any("booting it again" in line for line in clean.said)
    assert clean.says(FIRST, "hostname").strip() == f"gpu{FIRST}"


def test_a_killed_switch_is_started_again_and_the_rails_work(rails: Bench):
    pid = rails.switch.status()[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    _wait_for_end(pid)
    assert rails.is_silent()

    rails.up()

    assert rails.pings()


def test_down_leaves_no_process_port_or_socket(clean: Bench):
    pids = [clean.qemu(FIRST), clean.qemu(SECOND)]

    clean.down()

    assert not [pid for pid in pids if Path(f"/proc/{pid}/exe").exists()]
    assert not list(clean.nodes.folder.glob("*/*.sock"))
    assert {status.state for status in clean.nodes.status()} == {"stopped"}


def _wait_for_end(pid: int) -> None:
    """Takes the exit status of a process that this one has started."""
    os.waitpid(pid, 0)

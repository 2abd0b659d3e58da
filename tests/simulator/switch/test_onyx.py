"""The simulated Onyx: its words, what they change, and what it refuses."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from simulator.nodes.machine import machines_of
from simulator.switch.lldp import Heard, heard_in
from simulator.switch.onyx import Console
from simulator.switch.panel import Panel
from simulator.switch.part import KNOWN_HOSTS, Switch
from simulator.switch.ports import PortConfig
from stacks.lab import Lab
from tests.components.switches.frame_switch import FrameSwitch
from tests.simulator.switch.frames import BROADCAST, GPU01, frame, lldp_frame

SEED_LINE = "traffic-class 3 congestion-control ecn minimum-absolute 150 maximum-absolute 1500"


@pytest.fixture
def frames() -> FrameSwitch:
    return FrameSwitch()


@pytest.fixture
def console(frames: FrameSwitch, tmp_path: Path) -> Console:
    made = Console(Panel(frames, tmp_path / "front.json"))
    for line in ("enable", "configure terminal"):
        assert made.answer(line) == ""
    return made


def shown(console: Console, what: str):
    return json.loads(console.answer(f"show {what} | json-print"))


def test_the_guides_own_line_is_taken_for_a_range_of_ports(console: Console) -> None:
    assert console.answer(f"interface ethernet 1/1-1/2 {SEED_LINE}") == ""

    for port in ("1/1", "1/2"):
        queue = shown(console, f"interfaces ethernet {port} congestion-control")[4]
        assert queue["header"] == "TC-3"
        assert (queue["Minimum threshold"], queue["Maximum threshold"]) == ("150 KB", "1500 KB")
    assert shown(console, "interfaces ethernet 1/5 congestion-control")[4] == {"header": "TC-3", "Mode": "none"}


def test_vlans_and_mtu_are_those_of_the_frames(console: Console, frames: FrameSwitch) -> None:
    for line in (
        "vlan 111",
        "exit",
        "vlan 4094",
        "exit",
        "interface ethernet 1/5",
        "switchport mode hybrid",
        "switchport access vlan 4094",
        "switchport hybrid allowed-vlan 111",
        "mtu 9216 force",
        "exit",
    ):
        assert console.answer(line) == "", line

    assert frames.configs["gpu02", "enp5s0"] == PortConfig(4094, frozenset({111}), 9216)
    assert frames.configs["gpu01", "enp5s0"] == PortConfig(1, frozenset(), 1500)
    assert shown(console, "interfaces switchport")["Eth1/5"] == [
        {"Mode": "hybrid", "Access vlan": "4094", "Allowed vlans": "111"}
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("interface ethernet 1/1 mtu 9216", "use force"),
        ("interface ethernet 1/1 mtu 9300 force", "not in the range 1500 to 9216"),
        ("interface ethernet 1/1 switchport access vlan 77", "VLAN 77 does not exist"),
        ("interface ethernet 1/9 mtu 9216 force", "Invalid interface ethernet 1/9"),
        ("interface ethernet 1/1 speed 100G", 'Unrecognized command "speed 100G"'),
        (
            "interface ethernet 1/1 traffic-class 3 congestion-control ecn minimum-absolute 9 maximum-absolute 3",
            "minimum threshold is larger",
        ),
        ("vlan 4095", "VLAN 4095 is not in the range"),
        ("reload", 'Unrecognized command "reload"'),
        ("show version", 'Unrecognized command "show version"'),
    ],
)
def test_what_it_does_not_take_is_refused_behind_a_percent_sign_and_changes_nothing(
    console: Console, frames: FrameSwitch, line: str, said: str
) -> None:
    before = dict(frames.configs)

    answer = console.answer(line)

    assert answer.startswith("% ")
    assert said in answer
    assert frames.configs == before


def test_nothing_can_be_configured_without_the_mode_for_it(frames: FrameSwitch, tmp_path: Path) -> None:
    console = Console(Panel(frames, tmp_path / "front.json"))

    assert console.answer("configure terminal").startswith("%")
    assert console.answer("enable") == ""
    assert console.answer("interface ethernet 1/1 mtu 9216 force").startswith("%")
    assert console.prompt.endswith("# ")


def test_priority_flow_control_works_only_when_the_switch_has_it(console: Console) -> None:
    console.answer("interface ethernet 1/1 dcb priority-flow-control mode on force")
    assert shown(console, "dcb priority-flow-control")["Eth1/1"] == [{"PFC admin": "on", "PFC oper": "Disabled"}]

    console.answer("dcb priority-flow-control enable force")
    console.answer("dcb priority-flow-control priority 3 enable")

    assert shown(console, "dcb priority-flow-control")["Eth1/1"] == [{"PFC admin": "on", "PFC oper": "Enabled"}]


def test_the_running_configuration_makes_the_same_switch_again(console: Console, tmp_path: Path) -> None:
    for line in ("vlan 111", "exit", "interface ethernet 1/1 switchport hybrid allowed-vlan 111"):
        console.answer(line)
    console.answer(f"interface ethernet 1/1 {SEED_LINE}")
    text = console.answer("show running-config")
    other = FrameSwitch()
    again = Console(Panel(other, tmp_path / "again.json"))
    for line in ("enable", "configure terminal", *text.splitlines()[1:]):
        assert again.answer(line) == "", line

    assert again.answer("show running-config").splitlines() == text.splitlines()


def test_an_announcement_is_read_from_the_frame() -> None:
    assert heard_in(lldp_frame("gpu01", "enp5s0")) == Heard("52:54:00:11:00:01", "enp5s0", "", "gpu01")


@pytest.mark.parametrize("cut", range(14, 30))
def test_a_broken_announcement_is_ignored(cut: int) -> None:
    assert heard_in(lldp_frame("gpu01", "enp5s0")[:cut]) is None
    assert heard_in(frame(BROADCAST, GPU01)) is None


class Rig:
    """The switch's real processes."""

    def __init__(self, lab: Lab, state: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.state = state
        (state / "nodes").mkdir()
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(state / "nodes" / "id_ed25519")], check=True
        )
        self.switch = Switch(lab, machines_of(lab), state, ("127.0.0.1", self.port))
        self.switch.up(lambda _: None)

    def ssh(self, lines: str, *command: str) -> str:
        """What plain OpenSSH gets."""
        done = subprocess.run(
            ["ssh", "-tt", "-F", "none", "-p", str(self.port), "-i", str(self.state / "nodes" / "id_ed25519"), "-o",
             f"UserKnownHostsFile={self.state / 'switch' / KNOWN_HOSTS}", "-o", "BatchMode=yes", "admin@127.0.0.1",
             *command],
            input=lines, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return done.stdout


@pytest.fixture(scope="module")
def rig(lab: Lab) -> Iterator[Rig]:
    # not tmp_path: a unix socket's path holds 107 bytes only
    state = Path(tempfile.mkdtemp(prefix="front"))
    made = Rig(lab, state)
    yield made
    made.switch.down(lambda _: None)
    shutil.rmtree(state)


@pytest.mark.sim
def test_openssh_talks_to_it_like_a_person(rig: Rig) -> None:
    said = rig.ssh("enable\nconfigure terminal\ninterface ethernet 1/1 mtu 1500 force\nexit\nexit\n")

    assert "simulated Onyx" in said
    assert "(config) # " in said
    ports = {(port.node, port.nic): port for port in rig.switch.client.show()}
    assert ports["gpu01", "enp5s0"].config.mtu_bytes == 1500
    assert ports["gpu02", "enp5s0"].config.mtu_bytes == 9216


@pytest.mark.sim
def test_its_account_has_no_shell(rig: Rig) -> None:
    assert "UNIX shell commands cannot be executed" in rig.ssh("", "show running-config")


@pytest.mark.sim
def test_reset_forgets_what_was_kept(rig: Rig) -> None:
    rig.ssh("enable\nconfigure terminal\ninterface ethernet 1/1 description somebody\nexit\nexit\n")
    assert "description somebody" in rig.ssh("enable\nshow running-config\nexit\n")

    rig.switch.reset(lambda _: None)

    assert "description somebody" not in rig.ssh("enable\nshow running-config\nexit\n")


@pytest.mark.sim
def test_both_processes_have_a_line_and_the_front_is_healed_alone(rig: Rig) -> None:
    frames, front = rig.switch.status()
    assert (frames.state, front.state) == ("running", "running")
    assert front.pid is not None
    os.kill(front.pid, signal.SIGKILL)
    os.waitpid(front.pid, 0)
    assert rig.switch.status()[1].state == "died"

    rig.switch.up(lambda _: None)

    assert rig.switch.status()[1].state == "running"
    assert rig.switch.status()[0].pid == frames.pid


@pytest.mark.sim
def test_the_host_key_stays_so_that_it_can_be_pinned(rig: Rig) -> None:
    before = (rig.state / "switch" / KNOWN_HOSTS).read_text()
    rig.switch.down(lambda _: None)

    rig.switch.up(lambda _: None)

    assert (rig.state / "switch" / KNOWN_HOSTS).read_text() == before
    assert asyncssh.import_known_hosts(before)

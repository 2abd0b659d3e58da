"""The switch's own process, with sockets in the place of QEMU's ends of the cables."""

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.nodes.machine import machines_of
from simulator.part import SimulatorError
from simulator.switch.part import Switch, ports_of
from stacks.lab import Lab
from stacks.simulator import Simulator
from tests.messages import lines_naming, stating
from tests.simulator.switch.frames import BROADCAST, GPU01, GPU02, frame, lldp_frame

pytestmark = pytest.mark.sim

PATIENCE_S = 30
"""For a frame that must arrive; a machine at work takes its time."""


class Rig:
    """A running switch, and a socket for each NIC as QEMU makes it."""

    def __init__(self, lab: Lab, state: Path) -> None:
        self.state = state
        self.machines = machines_of(lab)
        self.switch = Switch(lab, self.machines, state)
        self.said: list[str] = []
        self.switch.up(self.said.append)
        self.nics = {
            (machine.name, nic.interface): self.nic(machine.name, nic.interface) for machine, nic in self.all()
        }

    def all(self):
        return [(machine, nic) for machine in self.machines for nic in machine.nics]

    def nic(self, node: str, interface: str) -> socket.socket:
        end = self.state / "nodes" / node / f"{interface}.sock"
        end.parent.mkdir(parents=True, exist_ok=True)
        end.unlink(missing_ok=True)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        made.bind(str(end))
        made.settimeout(PATIENCE_S)
        return made

    def send(self, data: bytes, node: str = "gpu01", interface: str = "enp5s0") -> None:
        self.nics[node, interface].sendto(data, str(self.state / "switch" / f"{node}-{interface}.sock"))

    def receive(self, node: str = "gpu02", interface: str = "enp5s0") -> bytes:
        return self.nics[node, interface].recv(20_000)

    def silent(self, node: str = "gpu02", interface: str = "enp5s0") -> bool:
        self.nics[node, interface].settimeout(0.2)
        try:
            self.receive(node, interface)
        except TimeoutError:
            return True
        finally:
            self.nics[node, interface].settimeout(PATIENCE_S)
        return False


@pytest.fixture
def rig(lab: Lab) -> Iterator[Rig]:
    # not tmp_path: a unix socket's path holds 107 bytes only
    state = Path(tempfile.mkdtemp(prefix="switch"))
    made = Rig(lab, state)
    yield made
    made.switch.down(lambda _: None)
    for nic in made.nics.values():
        nic.close()
    shutil.rmtree(state)


def test_a_frame_reaches_the_other_node_on_its_rail_only(rig: Rig):
    sent = frame(BROADCAST, GPU01, payload=9000)

    rig.send(sent)

    assert rig.receive() == sent
    assert rig.silent("gpu02", "enp132s0"), "the other rail"
    assert rig.silent("gpu01"), "no reflection"


def test_a_pod_vlan_passes_on_its_own_rail_only(rig: Rig):
    sent = frame(BROADCAST, GPU01, vlan=112)

    rig.send(sent)
    assert rig.silent()
    rig.send(sent, "gpu01", "enp132s0")
    assert rig.receive("gpu02", "enp132s0") == sent


def test_a_pulled_cable_is_silent_until_it_is_put_in(rig: Rig):
    rig.switch.client.set("gpu02", "enp5s0", plugged=False)
    rig.send(frame(BROADCAST, GPU01))
    assert rig.silent()

    rig.switch.client.set("gpu02", "enp5s0", plugged=True)
    rig.send(frame(BROADCAST, GPU01))
    assert rig.receive()


def test_a_delayed_frame_arrives_late_and_in_order(rig: Rig):
    rig.switch.client.set("gpu02", "enp5s0", delay_ms=150)
    sent = [frame(BROADCAST, GPU01, payload) for payload in (100, 200, 300)]

    begin = time.monotonic()
    for each in sent:
        rig.send(each)

    assert [rig.receive() for _ in sent] == sent
    assert time.monotonic() - begin >= 0.15


def test_nothing_is_lost_while_a_node_takes_no_frames_for_a_moment(rig: Rig):
    # far more than the kernel holds for a socket (net.unix.max_dgram_qlen is 10), fewer than the switch's queue
    sent = [frame(BROADCAST, GPU01, payload=1000 + number) for number in range(500)]
    for each in sent:
        rig.send(each)

    assert [rig.receive() for _ in sent] == sent


def test_a_node_that_is_gone_does_not_hold_up_the_others_and_may_come_back(rig: Rig):
    rig.send(frame(BROADCAST, GPU01))
    assert rig.receive()
    rig.nics["gpu02", "enp5s0"].close()
    for _ in range(50):
        rig.send(frame(BROADCAST, GPU01))

    rig.nics["gpu02", "enp5s0"] = rig.nic("gpu02", "enp5s0")
    rig.send(frame(BROADCAST, GPU01, payload=77))

    arrived = rig.receive()
    while len(arrived) != 14 + 77:  # some of those sent before may arrive, now that somebody takes them
        arrived = rig.receive()


def test_the_switch_reports_what_passed_and_what_it_dropped(rig: Rig):
    rig.switch.client.set("gpu02", "enp5s0", mtu_bytes=1500)
    rig.send(frame(BROADCAST, GPU01, payload=1400))
    rig.send(frame(BROADCAST, GPU01, payload=9000))
    assert rig.receive()
    assert rig.silent()

    ports = {(port.node, port.nic): port for port in rig.switch.client.show()}
    assert ports["gpu02", "enp5s0"].counters == {"out_frames": 1, "out_bytes": 1414, "dropped_mtu": 1}
    assert ports["gpu02", "enp5s0"].changed
    assert ports["gpu01", "enp5s0"].stations == ("52:54:00:11:00:01 vlan 4094",)


def test_a_wrong_value_and_an_unknown_port_are_refused_and_change_nothing(rig: Rig):
    with pytest.raises(SimulatorError, check=stating("gpu01 enp5s0:", "mtu 9300", "68 to 9216")):
        rig.switch.client.set("gpu01", "enp5s0", mtu_bytes=9300)
    with pytest.raises(SimulatorError, check=stating("gpu01 enp6s0", "gpu01 enp5s0")):
        rig.switch.client.set("gpu01", "enp6s0", mtu_bytes=1500)
    with pytest.raises(SimulatorError, match="unknown: speed"):
        rig.switch.client.set("gpu01", "enp5s0", speed=100)
    with pytest.raises(SimulatorError, match="not a command"):
        rig.switch.client.set("gpu01", "enp5s0", mtu_bytes="large")

    assert not any(port.changed for port in rig.switch.client.show())


@pytest.mark.parametrize(
    "line", [b"nonsense", b"[]", b'{"verb": "fly"}', b'{"verb": "set"}', b"5", b'{"verb": ["set"]}']
)
def test_nonsense_on_the_control_socket_is_answered_and_survived(rig: Rig, line: bytes):
    with socket.socket(socket.AF_UNIX) as control:
        control.connect(str(rig.state / "switch" / "control.sock"))
        control.sendall(line + b"\n")
        assert b'"error": "not a command' in control.recv(1000)

    assert rig.switch.client.answers()


def test_reset_puts_every_port_back(rig: Rig):
    rig.switch.client.set("gpu01", "enp5s0", loss_percent=100, plugged=False, native_vlan=7)

    rig.switch.reset(lambda _: None)

    assert not any(port.changed for port in rig.switch.client.show())


def test_a_second_up_starts_nothing_and_keeps_what_was_set(rig: Rig):
    rig.switch.client.set("gpu01", "enp5s0", mtu_bytes=1500)
    pid = rig.switch.status()[0].pid

    rig.said.clear()
    rig.switch.up(rig.said.append)

    assert rig.switch.status()[0].pid == pid
    unchanged, ports = rig.said
    assert lines_naming(unchanged, "gpu01 enp5s0", "sim reset")
    assert ports == "4 ports"


def test_after_a_kill_status_says_so_and_up_heals(rig: Rig):
    pid = rig.switch.status()[0].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert rig.switch.status()[0].state == "died"

    rig.switch.up(rig.said.append)

    assert any(line.startswith("had died") for line in rig.said)
    rig.send(frame(GPU02, GPU01))
    assert rig.receive()


def test_a_changed_program_is_started_again(rig: Rig):
    pid = rig.switch.status()[0].pid
    (rig.state / "switch" / "code").write_text("an older one")

    rig.switch.up(rig.said.append)

    assert rig.switch.status()[0].pid != pid
    assert lines_naming("\n".join(rig.said), "program", "lab file")


def test_down_leaves_no_process_and_no_socket(rig: Rig):
    rig.switch.down(rig.said.append)

    assert rig.switch.status()[0].state == "stopped"
    assert list((rig.state / "switch").glob("*.sock")) == []


def test_the_switchs_own_vlans_never_meet_a_pods(lab: Lab):
    pod = lab.rails[0].pod.model_copy(update={"vlan_id": 4094})
    crowded = lab.model_copy(update={"rails": (lab.rails[0].model_copy(update={"pod": pod}), lab.rails[1])})

    homes = ports_of(crowded, machines_of(crowded))

    assert homes["gpu01", "enp5s0"].native_vlan == 4093
    assert homes["gpu01", "enp132s0"].native_vlan == 4092


def test_an_announcement_is_heard_and_goes_no_further(rig: Rig):
    rig.send(lldp_frame("gpu01", "enp5s0"))

    assert rig.silent(), "a bridge forwards none of them"
    ports = {(port.node, port.nic): port for port in rig.switch.client.show()}
    assert ports["gpu01", "enp5s0"].lldp is not None
    assert ports["gpu01", "enp5s0"].lldp["system"] == "gpu01"
    rig.switch.client.set("gpu01", "enp5s0", plugged=False)
    assert all(port.lldp is None for port in rig.switch.client.show())


def test_the_pods_first_interfaces_have_a_vlan_that_no_rail_carries(lab: Lab):
    pods = lab.model_copy(update={"simulator": Simulator(kubelets="real")})

    ports = ports_of(pods, machines_of(pods))

    [network] = {config for (_, nic), config in ports.items() if nic == "enp0s5"}
    rails = {config for (_, nic), config in ports.items() if nic != "enp0s5"}
    assert not network.tagged_vlans
    assert all(network.native_vlan not in {rail.native_vlan, *rail.tagged_vlans} for rail in rails)

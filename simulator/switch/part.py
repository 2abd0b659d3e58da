"""The frame switch as a part of the simulator, with a port per NIC of the lab."""

import socket
import sys
from pathlib import Path

from simulator.nodes.cache import digest, run
from simulator.nodes.machine import POD_NIC, Machine
from simulator.part import CHECKOUT, Report, SimulatorError, Status
from simulator.process import Daemon, refuse_a_taken_port
from simulator.switch.client import FRONT_KEPT, FRONT_KEY, SwitchClient
from simulator.switch.ports import PortConfig
from stacks.lab import Lab
from stacks.words import plural

FRONT = ("127.0.12.250", 2222)
"""Address and port of the switch's SSH server."""
KNOWN_HOSTS = "known_hosts"
_HIGHEST_VLAN = 4094


class Switch:
    """The switch that connects the rails."""

    name = "switch"

    def __init__(self, lab: Lab, machines: list[Machine], state: Path, place: tuple[str, int] | None = None) -> None:
        self.client = SwitchClient(state / "switch")
        self._place = place
        """Address and port of the SSH server; None: no SSH."""
        self._daemon = Daemon("switch", state / "switch")
        self._front = Daemon("front", state / "switch")
        self._code_file = state / "switch" / "code"
        self._ports = ports_of(lab, machines)

    def up(self, report: Report) -> None:
        """Starts the switch unless it runs, and makes a port per NIC."""
        for daemon in (self._daemon, self._front):
            if daemon.resume():
                report(f"a signal had suspended {daemon.name}; it continues")
        if self._front.has_died:
            report("its SSH server had died: starting it again")
        code = digest(*(path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))))
        if self._daemon.pid() is None:
            report("had died: starting it again" if self._daemon.pid_file.exists() else "starting")
            self._start(code, report)
        elif self._code_file.read_text() != code:
            report("its program has changed: restarting it, with all ports as in the lab file")
            self._start(code, report)
        added = self.client.ensure(self._ports)
        changed = [f"{port.node} {port.nic}" for port in self.client.show() if port.changed]
        if changed:
            report(f"ports set by hand stay unchanged: {', '.join(changed)} (sim reset resets them)")
        report(plural(len(self._ports), "port") + (f", {len(added)} new" if added else ""))
        self._up_front(report)

    def _up_front(self, report: Report) -> None:
        if self._place is None or self._front.pid() is not None:
            return
        address, port = self._place
        folder = self._front.folder
        refuse_a_taken_port("the switch's SSH", address, port)
        if not (folder / FRONT_KEY).exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "sw1", "-f", str(folder / FRONT_KEY))
        kind, key = (folder / f"{FRONT_KEY}.pub").read_text().split()[:2]
        (folder / KNOWN_HOSTS).write_text(f"[{address}]:{port} {kind} {key}\n")
        command = [sys.executable, "-m", "simulator.switch.front", str(folder), address, str(port)]
        self._front.start(command, cwd=CHECKOUT)
        self._front.wait_until(lambda: _greets(address, port), 30, "answer over SSH", report)

    def _start(self, code: str, report: Report) -> None:
        self._daemon.stop()
        self._front.stop()
        self._code_file.parent.mkdir(parents=True, exist_ok=True)
        self._code_file.write_text(code)
        for old in (*self._daemon.folder.glob("*.sock"), *self._daemon.folder.glob(FRONT_KEPT)):
            old.unlink()
        command = [sys.executable, "-m", "simulator.switch.daemon", str(self._daemon.folder)]
        self._daemon.start(command, cwd=CHECKOUT)
        self._daemon.wait_until(self.client.answers, 30, "answer", report)

    def status(self) -> list[Status]:
        """A line for the frame switch, with changed ports, and one for its SSH server."""
        if self._place is None:
            return [self._status()]
        where, pid = "{}:{}".format(*self._place), self._front.pid()
        trouble = self._front.trouble("switch ssh", where)
        return [self._status(), trouble or Status("switch ssh", where, "running", "Onyx, simulated", pid)]

    def _status(self) -> Status:
        pid = self._daemon.pid()
        address = "unix:.sim/switch/control.sock"
        if trouble := self._daemon.trouble(self.name, address):
            return trouble
        try:
            ports = self.client.show()
        except SimulatorError as error:
            return Status(self.name, address, "not answering", str(error), pid)
        pulled = [f"{port.node} {port.nic} is unplugged" for port in ports if not port.config.plugged]
        others = [f"{port.node} {port.nic} is changed" for port in ports if port.changed and port.config.plugged]
        return Status(self.name, address, "running", "; ".join([plural(len(ports), "port"), *pulled, *others]), pid)

    def reset(self, report: Report) -> None:
        """Resets every port to the lab file: cables plugged in, no loss, counters at zero."""
        self.client.reset()
        (self._front.folder / FRONT_KEPT).unlink(missing_ok=True)
        report("all ports reset to the lab file")

    def down(self, report: Report) -> None:
        """Stops the switch's processes."""
        was_there = self._daemon.pid() is not None
        self._front.stop()
        self._daemon.stop()
        for left in self._daemon.folder.glob("*.sock"):
            left.unlink()
        if was_there:
            report("stopped")


def _greets(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def ports_of(lab: Lab, machines: list[Machine]) -> dict[tuple[str, str], PortConfig]:
    """A port per NIC on a rail of the lab, by machine and NIC.

    Rails are separate: each has its own untagged VLAN inside the switch, from the top of the range and different from
    all pod VLANs, and carries its pods' VLAN tagged. On machines with real pods, the pod network has a VLAN too.
    """
    pods = {rail.name: frozenset({rail.pod.vlan_id} if rail.pod and rail.pod.vlan_id else ()) for rail in lab.rails}
    pod_vlans = frozenset[int]().union(*pods.values())
    free = (vlan for vlan in range(_HIGHEST_VLAN, 0, -1) if vlan not in pod_vlans)
    homes = {rail.name: PortConfig(next(free), pods[rail.name]) for rail in lab.rails}
    ports = {
        (machine.name, nic.interface): homes[nic.rail]
        for machine in machines
        for nic in machine.nics
        if nic.rail in homes
    }
    pod_network = PortConfig(next(free))
    return ports | {(machine.name, POD_NIC): pod_network for machine in machines if machine.real_pods}

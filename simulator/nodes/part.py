"""The nodes of a lab as a part of the simulator."""

import fcntl
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from simulator.nodes.accelerator import choose
from simulator.nodes.access import give_keys, write_ssh_files
from simulator.nodes.identity import give_key, given_key
from simulator.nodes.image import Image, build_image
from simulator.nodes.machine import KUBERNETES, MOST_MACHINES, SSH_PORT, Machine, machines_of
from simulator.nodes.node import Boot, Node, memory_available_mib, processors, recorded_machines
from simulator.nodes.pods_image import build_pods_image
from simulator.nodes.qemu import find_qemu
from simulator.part import SUSPENDED, Report, SimulatorError, Status, on_all
from simulator.switch.client import SwitchClient
from stacks.bill import Bill
from stacks.lab import Lab
from stacks.nodes import VsphereVm
from stacks.words import plural

Powered = Callable[[], Mapping[str, str | None]]
"""Addresses of the VMs that are on in the vCenter, with the private host key given to each, if any."""


@dataclass(frozen=True)
class RealPods:
    """What machines with real pods need from other parts."""

    binaries: Path
    """The engine's folder of programs."""
    bill: Bill
    """The names of the lab's container images."""
    kubernetes: Callable[[str], bytes]
    """Maps a node's address to an archive for its kubelet: settings, identity, pod network."""
    nodes_failed: threading.Event
    """Set when a node does not start, so that the control plane no longer waits for its kubelet."""


class Nodes:
    """The lab's machines. Machines of an earlier lab keep running until `down`, because its stack must undo them first.

    Nodes that are guests of VMs run while their VM is on; `up` only prepares them.
    """

    name = "nodes"

    def __init__(self, lab: Lab, state: Path, powered: Powered = dict, real_pods: RealPods | None = None) -> None:
        self.folder = state / "nodes"
        self._real_pods = real_pods
        self._powered = powered
        self._guests = {str(node.address) for node in lab.nodes if isinstance(node, VsphereVm)}
        self._switch = SwitchClient(state / "switch")
        self._lab_names = {str(node.address): node.name for node in lab.nodes}
        recorded = {machine.number: machine for machine in recorded_machines(self.folder)}
        # a machine keeps its hostname when the lab renames its node
        self.lab_machines = [
            replace(machine, hostname=recorded[machine.number].hostname) if machine.number in recorded else machine
            for machine in machines_of(lab)
        ]
        numbers = {machine.number for machine in self.lab_machines}
        self.others = [machine for number, machine in sorted(recorded.items()) if number not in numbers]

    @property
    def machines(self) -> list[Machine]:
        """Every machine that needs a port at the switch."""
        return [*self.lab_machines, *self.others]

    def build(self, report: Report) -> Boot:
        """Makes what the cache lacks, and finds out how guests run fastest here."""
        image = self._image(report)
        qemu = find_qemu(report)
        return Boot(qemu, image, choose(qemu, image, report))

    def _image(self, report: Report) -> Image:
        pods = self._real_pods
        return build_pods_image(pods.binaries, pods.bill, report) if pods else build_image(report)

    def up(self, report: Report) -> None:
        """Starts the nodes that do not run, and returns when all accept logins."""
        try:
            self._up(report)
        except (SimulatorError, OSError):
            if self._real_pods:
                self._real_pods.nodes_failed.set()
            raise

    def _up(self, report: Report) -> None:
        nodes = self._nodes(self.lab_machines)
        powered = self._powered() if self._guests else {}
        running = [node for node in nodes if node.machine.address not in self._guests - powered.keys()]
        give_keys(self.folder, self.lab_machines)
        for node in nodes:
            _give(node, powered.get(node.machine.address), report)
        self._write_ssh_files()
        if self._real_pods:
            for node in nodes:
                _write_secret(node.folder / KUBERNETES, self._real_pods.kubernetes(node.machine.address))
        boot = self.build(report)
        _refuse_too_little_memory([node for node in nodes if node.daemon.pid() is None])
        first_boots = threading.Semaphore(
            processors()
        )  # more would only slow each other down, because a boot is CPU-bound

        def start(node: Node, report_node: Report) -> None:
            (node.up if node in running else node.prepare)(boot, first_boots, report_node)

        on_all(nodes, start, _named(report))
        self._set_links(running)
        for node in self._nodes(self.others):
            if node.daemon.pid() is not None:
                report(f"{node.machine.name} at {node.machine.address} still runs, but is not in this lab")

    def start_guest(self, address: str, private_key: str | None, report: Report) -> bool:
        """Starts the node that is a VM's guest with the VM's host key; returns False if there is no such node."""
        machine = next((one for one in self.lab_machines if one.address == address and address in self._guests), None)
        if machine is None:
            return False
        node = Node(machine, self.folder)
        give_keys(self.folder, [machine])
        _give(node, private_key, report)
        self._write_ssh_files()
        boot = self.build(report)
        _refuse_too_little_memory([node] if node.daemon.pid() is None else [])
        node.up(boot, threading.Semaphore(), report)
        self._set_links([node])
        return True

    def end_guests(self, addresses: Iterable[str] | None = None) -> list[str]:
        """Stops the nodes at these addresses that are guests of VMs (default: all guests); returns their names."""
        bare = {machine.address for machine in self.lab_machines} - self._guests
        ended = []
        for node in self._started():
            is_guest = node.machine.address in (self._guests if addresses is None else set(addresses) - bare)
            if is_guest:
                node.stop()
                _give(node, None, lambda _: None)
                ended.append(node.machine.name)
        return ended

    def status(self) -> list[Status]:
        """A line per node of the lab, and per other node that was started."""
        nodes = [*self._nodes(self.lab_machines), *(node for node in self._nodes(self.others) if node.was_started)]
        with ThreadPoolExecutor(max_workers=MOST_MACHINES) as pool:
            return list(pool.map(self._status, nodes))

    def reset(self, report: Report) -> None:
        """Resets all started nodes to their snapshots."""
        nodes = self._started()
        if not nodes:
            if self._guests:
                return  # their VMs are off
            raise SimulatorError("no node runs: sim up")
        on_all(nodes, lambda node, report_node: node.reset(report_node), _named(report))
        self._set_links(nodes)

    def down(self, report: Report) -> None:
        """Stops all nodes; keys and disks stay."""
        nodes = self._started()
        on_all(nodes, lambda node, _: node.stop(), _named(report))
        if nodes:
            report(f"{', '.join(node.machine.name for node in nodes)} stopped")

    def node(self, name: str) -> Node:
        """The node with that name in the lab, or that machine name.

        Raises:
            SimulatorError: naming the existing nodes.
        """
        for machine in self.machines:
            if name in (machine.name, self._lab_names.get(machine.address)):
                return Node(machine, self.folder)
        known = ", ".join(self._lab_names.get(machine.address, machine.name) for machine in self.machines)
        raise SimulatorError(f"no node {name}; existing nodes: {known}")

    def plug(self, node_name: str, nic: str, plugged: bool) -> None:
        """Plugs or unplugs a cable: at the switch, and as carrier of a running guest."""
        node = self.node(node_name)
        self._switch.set(node.machine.name, nic, plugged=plugged)
        if node.daemon.pid() is not None:
            self._set_links([node])

    def _status(self, node: Node) -> Status:
        name = self._lab_names.get(node.machine.address, node.machine.name)
        address = f"{node.machine.address}:{SSH_PORT}"
        pid = node.daemon.pid()
        if pid is None:
            if node.was_started:
                return Status(name, address, "died", node.last_words())
            if node.machine.address in self._guests:
                return Status(name, address, "idle", "guest of a VM: runs while the VM is on")
            return Status(name, address, "stopped")
        if node.daemon.is_suspended:
            return Status(name, address, "not answering", SUSPENDED, pid)
        detail = "" if node.machine.address in self._lab_names else "not in this lab"
        if not node.answers():
            return Status(name, address, "not answering", "no ssh: still booting, or see sim logs", pid)
        return Status(name, address, "running", detail, pid)

    def _write_ssh_files(self) -> None:
        """Writes them under a lock, because two guests may start at once and the later writer must include both."""
        with (self.folder / "ssh_files.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_ssh_files(self.folder, self.machines, self._lab_names)

    def _set_links(self, nodes: Iterable[Node]) -> None:
        """Sets the carriers: a new QEMU and a restored snapshot assume that every cable is plugged in."""
        pulled = {(port.node, port.nic) for port in self._switch.show() if not port.config.plugged}
        for node in nodes:
            node.set_links(node.machine.nics, {nic for name, nic in pulled if name == node.machine.name})

    def _nodes(self, machines: list[Machine]) -> list[Node]:
        return [Node(machine, self.folder) for machine in machines]

    def _started(self) -> list[Node]:
        return [node for node in self._nodes(self.machines) if node.was_started]


def _named(report: Report) -> Callable[[Node], Report]:
    """Progress of a node, with its name."""
    return lambda node: lambda text: report(f"{node.machine.name}: {text}")


def _give(node: Node, private_key: str | None, report: Report) -> None:
    """Gives a node this host key, or its own; stops a node that runs with another key."""
    if given_key(node.folder) == private_key:
        return
    if node.daemon.pid() is not None:
        report(f"{node.machine.name}: stopping it, because its host key has changed")
        node.stop()
    give_key(node.folder, private_key)


def _write_secret(file: Path, content: bytes) -> None:
    """Replaces a file that only the owner can read in one step, because a starting QEMU may be reading it."""
    partial = file.with_name(f"{file.name}.partial")
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_bytes(content)
    partial.rename(file)


def _refuse_too_little_memory(new: list[Node]) -> None:
    needed_mib, available_mib = sum(node.machine.memory_mib for node in new), memory_available_mib()
    if needed_mib > available_mib:
        raise SimulatorError(
            f"{plural(len(new), 'node')} need {needed_mib} MiB of memory, but {available_mib} MiB are available; "
            "end other programs, or remove nodes from the lab"
        )

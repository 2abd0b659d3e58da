"""A node as hardware: number, NICs and their slots, and QEMU's command line that makes it so. Starts nothing."""

import re
import shlex
import sys
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from simulator.nodes.accelerator import Accelerator
from simulator.nodes.image import Image
from simulator.nodes.qemu import Qemu
from simulator.part import SimulatorError
from stacks.lab import Lab
from stacks.nodes import Node

MEMORY_MIB = 448
REAL_PODS_MEMORY_MIB = 2048
"""With a kubelet, containerd and room for what pods ask for."""
POD_NIC = "enp0s5"
"""The NIC of the pod network, on a machine with real pods."""
API_DOOR = "192.168.1.8"
"""The API server, seen from a machine with real pods: beside the repository's address."""
API_SERVER = ("127.0.12.200", 6443)
KUBELET_PORT = 10250
KUBERNETES = "kubernetes.tar"
"""File with what the kubelet of a machine with real pods starts with."""
MOST_MACHINES = 64
"""Guests' DHCP addresses and MACs are derived from the number; far more than two cores can run."""
NODE_NETWORK = "127.0.12."
SSH_PORT = 2222
HOST_KEY = "host_key"
"""File with the key that ssh of a machine presents, unless it was given another."""
REPOSITORY = ("127.0.12.202", 8080)
"""Where the package repository listens."""
MODELS = ("igb", "vmxnet3")
"""What a simulated NIC may be; over both of them soft-RoCE stands in for RDMA."""
_DOOR = Path(__file__).parents[1] / "packages" / "door.py"
_FIRST_NIC_SLOT = 8
"""Slots 2 to 5 of the root bus hold disk, management NIC, random numbers and the NIC of the pod network."""


@dataclass(frozen=True)
class Nic:
    """A NIC cabled to one port of the frame switch: an SR-IOV capable igb, or the vmxnet3 of a VM."""

    interface: str
    rail: str
    model: str = "igb"
    """QEMU's name of it, which is that of its driver as well."""

    @property
    def bus(self) -> int:
        """PCI bus of the NIC, from which the guest makes the interface's name."""
        return int(self.interface[len("enp") : -len("s0")])


@dataclass(frozen=True)
class Machine:
    """Machine `number`. The number is what it is, as a serial number; the lab may call it as it likes."""

    number: int
    hostname: str
    nics: tuple[Nic, ...]
    real_pods: bool = False
    """Whether it runs a kubelet and pods."""

    @property
    def memory_mib(self) -> int:
        """Memory of the guest."""
        return REAL_PODS_MEMORY_MIB if self.real_pods else MEMORY_MIB

    @property
    def name(self) -> str:
        """Its folder under `.sim/nodes`, and its name at the switch."""
        return f"gpu{self.number:02}"

    @property
    def address(self) -> str:
        """Where its ssh answers, at port 2222."""
        return f"{NODE_NETWORK}{self.number}"

    def mac(self, position: int) -> str:
        """Hardware address: 0 is the management NIC, others count the rails."""
        return f"52:54:00:{position * 0x11:02x}:00:{self.number:02x}"

    def command(self, qemu: Qemu, image: Image, accelerator: Accelerator, host_key: str = HOST_KEY) -> list[str]:
        """QEMU's command line, all but the disk's file; paths are relative to the machine's folder."""
        management = f"user,id=management,restrict=on,net=192.168.1.0/24,dhcpstart=192.168.1.{10 + self.number}"
        words = [qemu.system, *qemu.options, *accelerator.options, "-name", self.name]
        words += ["-M", "q35,usb=off,vmport=off", "-smp", "2" if self.real_pods else "1", "-m", str(self.memory_mib)]
        words += ["-nodefaults", "-no-user-config", "-display", "none"]
        words += ["-serial", "file:console.log", "-qmp", "unix:monitor.sock,server=on,wait=off"]
        words += ["-device", "virtio-blk-pci,drive=disk,bus=pcie.0,addr=2"]
        words += ["-device", "virtio-rng-pci,bus=pcie.0,addr=4"]
        # restrict=on: through its management NIC the guest reaches nobody but the repository; only ssh comes in
        doors = [f"hostfwd=tcp:{self.address}:{SSH_PORT}-:22", f"guestfwd={_door('192.168.1.9:80', REPOSITORY)}"]
        if self.real_pods:
            doors.append(f"hostfwd=tcp:{self.address}:{KUBELET_PORT}-:{KUBELET_PORT}")
            doors.append(f"guestfwd={_door(f'{API_DOOR}:6443', API_SERVER)}")
        words += ["-netdev", ",".join([management, *doors])]
        words += ["-device", f"virtio-net-pci,netdev=management,mac={self.mac(0)},romfile=,bus=pcie.0,addr=3"]
        words += ["-fw_cfg", f"name=opt/rocelab/host_key,file={host_key}"]
        words += ["-fw_cfg", "name=opt/rocelab/authorized_key,file=authorized_key"]
        if self.real_pods:
            words += ["-fw_cfg", f"name=opt/rocelab/kubernetes,file={KUBERNETES}"]
            words += ["-netdev", f"dgram,id={POD_NIC},{self._ends(POD_NIC)}"]
            card = f"virtio-net-pci,netdev={POD_NIC},mac={self.mac(5)},romfile=,bus=pcie.0,addr=5"
            words += ["-device", card]
        for position, nic in enumerate(self.nics, start=1):
            words += self._nic(position, nic)
        words += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", self._kernel_arguments()]
        return words

    def _nic(self, position: int, nic: Nic) -> list[str]:
        # a host bridge of its own, since only that lets us choose the bus number; the NIC's bus is the next one
        bridge = f"pxb-pcie,id=bridge{position},bus_nr={nic.bus - 1},bus=pcie.0,addr={_FIRST_NIC_SLOT - 1 + position}"
        port = f"pcie-root-port,id=port{position},bus=bridge{position},slot=0,chassis={9 + position}"
        card = f"{nic.model},netdev={nic.interface},bus=port{position},mac={self.mac(position)},romfile="
        return [
            "-device",
            bridge,
            "-device",
            port,
            "-netdev",
            f"dgram,id={nic.interface},{self._ends(nic.interface)}",
            "-device",
            card,
        ]

    def _ends(self, interface: str) -> str:
        return f"local.type=unix,local.path={interface}.sock,remote.type=unix,remote.path={self.cable(interface)}"

    def cable(self, interface: str) -> str:
        """The switch's end of a NIC's cable, seen from the machine's folder."""
        return f"../../switch/{self.name}-{interface}.sock"

    def _kernel_arguments(self) -> str:
        return (
            "root=/dev/vda rw console=ttyS0 quiet panic=5 mitigations=off tsc=reliable no_timer_check "
            f"systemd.hostname={self.hostname} systemd.machine_id={self.number:032x}"
            # it is of the lowest priority, and holds up all who wait for RCU, such as containers that start, when the
            # programs of a busy machine leave it no time
            f"{' transparent_hugepage=never' if self.real_pods else ''}"
        )


def _door(inside: str, server: tuple[str, int]) -> str:
    """A guest's way out: an address of its own network, each of whose connections QEMU gives to our program."""
    # QEMU's libraries, where it was unpacked, are not those of our Python
    words = ["env", "-u", "LD_LIBRARY_PATH", "-u", "QEMU_MODULE_DIR", sys.executable, "-I", "-S", str(_DOOR)]
    command = shlex.join([*words, server[0], str(server[1])])
    return f"tcp:{inside}-cmd:{command}".replace(",", ",,")


def machines_of(lab: Lab) -> list[Machine]:
    """The machines that a lab's nodes need, in the lab's order.

    Raises:
        SimulatorError: naming every node that the simulator cannot be.
    """
    faults = [fault for node in lab.nodes if (fault := _unfit(node))]
    if len(lab.nodes) > MOST_MACHINES:
        faults.append(f"nodes: {len(lab.nodes)} machines are asked for, the simulator runs {MOST_MACHINES} at most")
    if faults:
        raise SimulatorError("the simulator cannot be this lab:\n" + "\n".join(f"  {fault}" for fault in faults[:12]))
    return [
        Machine(
            _number(node.address),
            node.name,
            tuple(Nic(pf.interface, pf.rail, pf.driver) for pf in node.pfs),
            real_pods=lab.simulator is not None,
        )
        for node in lab.nodes
    ]


def _unfit(node: Node) -> str | None:
    if not 1 <= _number(node.address) <= MOST_MACHINES or node.ssh_port != SSH_PORT:
        return (
            f"nodes.{node.name}: {node.address}:{node.ssh_port} is not a simulated machine's: "
            f"use {NODE_NETWORK}1 to {NODE_NETWORK}{MOST_MACHINES}, port {SSH_PORT}"
        )
    for pf in node.pfs:
        bus = re.fullmatch(r"enp([0-9]+)s0", pf.interface)
        if bus is None or not 4 <= int(bus[1]) <= 248:
            return f"nodes.{node.name}.pfs: {pf.interface}: a simulated NIC is called enp<bus>s0, bus 4 to 248"
        if pf.driver not in MODELS:
            return f"nodes.{node.name}.pfs: {pf.interface} has driver {pf.driver}; a simulated NIC: {', '.join(MODELS)}"
    if len({pf.interface for pf in node.pfs}) > 4:
        return f"nodes.{node.name}.pfs: {len(node.pfs)} NICs; a simulated machine has 4 at most"
    return None


def _number(address: IPv4Address) -> int:
    """A machine's number by its address; 0 for an address of no machine."""
    text = str(address)
    return int(text.rpartition(".")[2]) if text.startswith(NODE_NETWORK) else 0

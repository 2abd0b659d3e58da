"""A node as hardware: number, NICs and slots, and QEMU's command line for it. Starts nothing."""

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
"""Enough for a kubelet, containerd and pods."""
POD_NIC = "enp0s5"
"""The NIC of the pod network, on a machine with real pods."""
API_DOOR = "192.168.1.8"
"""Address of the API server on a machine with real pods, next to the repository's address."""
API_SERVER = ("127.0.12.200", 6443)
KUBELET_PORT = 10250
KUBERNETES = "kubernetes.tar"
"""File with the settings and identity of the kubelet on a machine with real pods."""
MOST_MACHINES = 64
"""Limit of the guests' DHCP addresses and MACs, which contain the number."""
NODE_NETWORK = "127.0.12."
SSH_PORT = 2222
HOST_KEY = "host_key"
"""File with the machine's own SSH host key."""
REPOSITORY = ("127.0.12.202", 8080)
"""Address and port of the package repository."""
MODELS = ("igb", "vmxnet3")
"""Models of simulated NICs. On both, soft-RoCE replaces hardware RDMA."""
_DOOR = Path(__file__).parents[1] / "packages" / "door.py"
_FIRST_NIC_SLOT = 8
"""Slots 2 to 5 of the root bus have disk, management NIC, random numbers and the NIC of the pod network."""


@dataclass(frozen=True)
class Nic:
    """A NIC cabled to one port of the frame switch: an SR-IOV capable igb, or the vmxnet3 of a VM."""

    interface: str
    rail: str
    model: str = "igb"
    """QEMU's name for it, which is also its driver's name."""

    @property
    def bus(self) -> int:
        """PCI bus of the NIC, which determines the interface's name in the guest."""
        return int(self.interface[len("enp") : -len("s0")])


@dataclass(frozen=True)
class Machine:
    """Machine `number`. The number identifies it; its name in the lab may change."""

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
        """Its SSH address; the port is 2222."""
        return f"{NODE_NETWORK}{self.number}"

    def mac(self, position: int) -> str:
        """MAC address of a NIC; position 0 is the management NIC, then come the rails."""
        return f"52:54:00:{position * 0x11:02x}:00:{self.number:02x}"

    def command(self, qemu: Qemu, image: Image, accelerator: Accelerator, host_key: str = HOST_KEY) -> list[str]:
        """QEMU's command line without the disk's file; paths are relative to the machine's folder."""
        management = f"user,id=management,restrict=on,net=192.168.1.0/24,dhcpstart=192.168.1.{10 + self.number}"
        words = [qemu.system, *qemu.options, *accelerator.options(real_pods=self.real_pods), "-name", self.name]
        words += ["-M", "q35,usb=off,vmport=off", "-smp", "1", "-m", str(self.memory_mib)]
        words += ["-nodefaults", "-no-user-config", "-display", "none"]
        words += ["-serial", "file:console.log", "-qmp", "unix:monitor.sock,server=on,wait=off"]
        words += ["-device", "virtio-blk-pci,drive=disk,bus=pcie.0,addr=2"]
        words += ["-device", "virtio-rng-pci,bus=pcie.0,addr=4"]
        # restrict=on: over the management NIC, the guest reaches only the repository, and only ssh reaches the guest
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
        # only a host bridge lets us choose the bus number; the NIC's bus is the next one
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
        """The switch's end of a NIC's cable, relative to the machine's folder."""
        return f"../../switch/{self.name}-{interface}.sock"

    def _kernel_arguments(self) -> str:
        return (
            "root=/dev/vda rw console=ttyS0 quiet panic=5 mitigations=off tsc=reliable no_timer_check "
            f"systemd.hostname={self.hostname} systemd.machine_id={self.number:032x}"
            # Linux 7 counts memory accesses all the time, which takes a tenth of an emulated processor
            f"{' damon_stat.enabled=0' if self.real_pods else ''}"
        )


def _door(inside: str, server: tuple[str, int]) -> str:
    """A guest's way out: QEMU passes each connection to this address of its network to our program."""
    # the libraries of an unpacked QEMU do not fit our Python
    words = ["env", "-u", "LD_LIBRARY_PATH", "-u", "QEMU_MODULE_DIR", sys.executable, "-I", "-S", str(_DOOR)]
    command = shlex.join([*words, server[0], str(server[1])])
    return f"tcp:{inside}-cmd:{command}".replace(",", ",,")


def machines_of(lab: Lab) -> list[Machine]:
    """The machines for a lab's nodes, in the lab's order.

    Raises:
        SimulatorError: naming every node that the simulator cannot run.
    """
    faults = [fault for node in lab.nodes if (fault := _unfit(node))]
    if len(lab.nodes) > MOST_MACHINES:
        faults.append(f"nodes: the lab has {len(lab.nodes)}, the simulator runs at most {MOST_MACHINES}")
    if faults:
        raise SimulatorError("the simulator cannot run this lab:\n" + "\n".join(f"  {fault}" for fault in faults[:12]))
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
            f"nodes.{node.name}: {node.address}:{node.ssh_port} is not the address of a simulated machine; "
            f"use {NODE_NETWORK}1 to {NODE_NETWORK}{MOST_MACHINES}, port {SSH_PORT}"
        )
    for pf in node.pfs:
        bus = re.fullmatch(r"enp([0-9]+)s0", pf.interface)
        if bus is None or not 4 <= int(bus[1]) <= 248:
            return f"nodes.{node.name}.pfs: {pf.interface}: names of simulated NICs are enp4s0 to enp248s0"
        if pf.driver not in MODELS:
            return f"nodes.{node.name}.pfs: {pf.interface} has driver {pf.driver}, not {' or '.join(MODELS)}"
    if len({pf.interface for pf in node.pfs}) > 4:
        return f"nodes.{node.name}.pfs: {len(node.pfs)} NICs; a simulated machine has at most 4"
    return None


def _number(address: IPv4Address) -> int:
    """The number of the machine at an address; 0 if no machine has it."""
    text = str(address)
    return int(text.rpartition(".")[2]) if text.startswith(NODE_NETWORK) else 0

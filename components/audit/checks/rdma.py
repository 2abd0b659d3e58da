"""RDMA devices: whether they can carry RoCE, and how GPUs reach them."""

import re
from collections.abc import Iterator

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import MONITOR, PRACTICE, check
from components.audit.view import View, fault
from components.inventory.model import RdmaPort

GPUDIRECT = (
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html"
)
MEMLOCK = "https://github.com/NVIDIA/nvidia-container-toolkit/issues/2037"
NAMES = "https://github.com/open-mpi/ompi/issues/7378"

PEER_MEMORY = frozenset({"nvidia_peermem", "nv_peer_mem"})
FIRST_DMA_BUF = (5, 12)
"""Linux from which on RDMA devices take DMA-BUFs of GPUs."""


def rdma_ports(view: View) -> Iterator[tuple[Port, RdmaPort]]:
    """The RDMA devices of all ports."""
    for port, _, devices in view.each(view.ports, lambda port: port.pf.rdma):
        for device in devices:
            yield port, device


@check(
    "rdma-port",
    Severity.CRITICAL,
    title="RDMA port is not active",
    why="no queue pair can be connected through it",
    source=MONITOR,
    remedy="load mlx5_ib (or the RDMA driver of the NIC), set the interface up, then read the "
    "kernel's log",
)
def rdma_port(view: View) -> Faults:
    for port, reading, devices in view.each(view.ports, lambda port: port.pf.rdma):
        if not devices:
            yield fault(port, reading, "no RDMA device", "an ACTIVE RDMA device")
        for device in devices:
            state = view.read(port.node, device.state)
            if state not in {None, "ACTIVE"} and port.pf.carrier.or_else(other=True):
                yield fault(port, device.state, str(state), "ACTIVE")


@check(
    "rdma-link-layer",
    Severity.CRITICAL,
    title="Port is in InfiniBand mode",
    why="an InfiniBand port cannot run RoCE or join an Ethernet rail",
    source=PRACTICE,
    remedy="mstconfig -d PCI set LINK_TYPE_P1=2 and a cold reboot, or remove the NIC from the rail",
)
def rdma_link_layer(view: View) -> Faults:
    kinds: dict[object, list[str]] = {}
    actual = []
    for port, device in rdma_ports(view):
        layer = view.read(port.node, device.link_layer)
        if layer is not None:
            kinds.setdefault(port.peers, []).append(layer)
            actual.append((port, device.link_layer, layer))
    for port, reading, layer in actual:
        peers = kinds[port.peers]
        if layer == "InfiniBand" and (port.declared or peers.count("Ethernet") * 2 > len(peers)):
            yield fault(port, reading, layer, "Ethernet")


@check(
    "rocev2-gid",
    Severity.CRITICAL,
    title="No RoCE v2 GID for the IPv4 address",
    why="NCCL and rdma_cm find no path: they connect by this GID",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    remedy="set the interface down and up; check that the address is on the PF and not on a "
    "bridge or bond above it",
)
def rocev2_gid(view: View) -> Faults:
    for port, device in rdma_ports(view):
        addresses = {str(address.ip) for address in port.ipv4}
        gids = view.read(port.node, device.gids) if addresses else None
        if gids is not None and not addresses & {gid.ipv4 for gid in gids if gid.type == "RoCE v2"}:
            yield fault(port, device.gids, "none", "a RoCE v2 GID of its IPv4 address")


@check(
    "rdma-name",
    Severity.HIGH,
    title="NIC has the wrong name",
    why="device plugins, policies and NCCL_IB_HCA select by name, and miss this NIC",
    source=NAMES,
    remedy="pin the name to the PCI address or MAC with a systemd .link file or a udev rule",
)
def rdma_name(view: View) -> Faults:
    if view.lab is None:
        yield from view.unlike_peers(
            view.ports, lambda port: port.pf.interfaces, lambda names: ", ".join(names) or "none"
        )
        return
    for place in view.places:
        node = view.fleet.node(place.host)
        pfs = view.read(place.node, place.host.pfs) if node else None
        if node is None or pfs is None:
            continue
        ports = {port.rail: port for port in view.fleet.ports_of(place.host)}
        for declared in node.pfs:
            if (port := ports.get(declared.rail)) is None:
                yield fault(
                    place, place.host.pfs, "no such NIC", declared.interface, part=declared.rail
                )
                continue
            if (
                declared.interface != port.interface
                and view.read(port.node, port.pf.interfaces) is not None
            ):
                yield fault(port, port.pf.interfaces, port.interface or "none", declared.interface)
            devices = view.read(port.node, port.pf.rdma)
            if devices and declared.rdma_device not in {device.device for device in devices}:
                names = ", ".join(device.device for device in devices)
                yield fault(port, port.pf.rdma, names, declared.rdma_device)


@check(
    "gpudirect",
    Severity.HIGH,
    title="No way for GPUDirect RDMA",
    why="every byte is copied through host memory",
    source=GPUDIRECT,
    remedy="modprobe nvidia_peermem and load it at boot, or install the open kernel modules of "
    "the GPU driver",
)
def gpudirect(view: View) -> Faults:
    def way(modules: tuple[str, ...]) -> bool:
        return bool(PEER_MEMORY & {*modules})

    places = [place for place in view.places if view.fleet.gpus_of(place.host)]
    places = [place for place in places if place.host.system.gpu_driver.value]
    others = view.unlike_peers(places, lambda place: place.host.system.modules.map(way))
    unlike = {other.node for other in others}
    for place, reading, modules in view.each(places, lambda place: place.host.system.modules):
        if way(modules):
            continue
        kernel = view.read(place.node, place.host.system.kernel)
        if place.node in unlike or (kernel is not None and _release(kernel) < FIRST_DMA_BUF):
            yield fault(
                place, reading, "nvidia_peermem is not loaded", "nvidia_peermem, or DMA-BUF"
            )


def _release(kernel: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", kernel)[:2]))


@check(
    "memlock",
    Severity.HIGH,
    title="Containers may lock too little memory",
    why="registering memory fails, and NCCL falls back to TCP without an error",
    source=MEMLOCK,
    remedy="add a systemd drop-in for containerd with LimitMEMLOCK=infinity, then restart "
    "containerd and the pods",
)
def memlock(view: View) -> Faults:
    for place, reading, limit in view.each(
        view.places, lambda place: place.host.system.containerd_memlock
    ):
        if limit not in {"", "infinity"}:
            yield fault(place, reading, limit + " bytes" * limit.isdecimal(), "infinity")

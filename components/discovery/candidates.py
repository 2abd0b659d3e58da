"""Which ports of an inventory may be PFs of rails, with what is known of each; why not others."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface

from components.discovery.questions import Notice
from components.inventory.cables import Cables, LeafPort
from components.inventory.model import Host, Inventory, NearestGpus, Pf, RdmaPort
from stacks.frozen import frozen
from stacks.nodes import Driver

BLUEFIELD = frozenset({"a2d2", "a2d6", "a2dc", "a2df"})
"""NVIDIA's BlueField by PCI device (pci.ids): whether its Arm cores own the port cannot be seen
from the host."""
NVIDIA = "15b3"
VIRTUAL_DRIVER = "igb"
"""Of the NICs with soft-RoCE in virtual labs."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RailPort:
    """A port that supports RDMA over Ethernet and carries nothing that the host depends on."""

    node: str
    interface: str
    pci: str
    driver: Driver
    rdma_device: str
    server: str
    """Class of its node: nodes with the same NICs and GPUs in the same slots."""
    gpu: str | None = None
    """Places of the GPUs below the same bridge among those of the class, such as `3`; empty for
    none, None unknown."""
    leaf: LeafPort | None = None
    addresses: tuple[IPv4Interface, ...] = ()
    has_unknown_addresses: bool = False
    """Whether they could not be read, which is not the same as none."""
    gateway: str = ""
    mtu_bytes: int | None = None
    vfs: int | None = None
    up: bool | None = None
    carrier: bool | None = None

    @property
    def address(self) -> IPv4Interface | None:
        """Its one address; None when it has none or several."""
        if len(self.addresses) == 1:
            return self.addresses[0]
        return None

    @property
    def without_addresses(self) -> str:
        """The reason why there are none, as text."""
        if self.has_unknown_addresses:
            return "addresses unknown"
        return "no address"

    @property
    def is_unused(self) -> bool:
        """Whether nothing is plugged in and no address is set."""
        is_down = self.up is False or self.carrier is False
        return is_down and not self.addresses and not self.has_unknown_addresses


@frozen
class CandidatePorts:
    """The ports of all hosts that were read."""

    ports: tuple[RailPort, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A candidate before its class is known."""

    host: Host
    pf: Pf
    interface: str
    rdma: RdmaPort


def ports_of(inventory: Inventory, *, virtual: bool) -> CandidatePorts:
    """The candidates of an inventory.

    Args:
        inventory: what was read.
        virtual: whether soft-RoCE counts, as in the simulator.
    """
    candidates: list[_Candidate] = []
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in inventory.hosts:
        carriers = _carriers(host)
        soft_devices = 0
        for pf in host.pfs.or_else(()):
            interfaces = pf.interfaces.or_else(())
            soft_name = f"rxe{soft_devices}" if virtual else ""
            if pf.driver.value == VIRTUAL_DRIVER and not carriers.keys() & set(interfaces):
                soft_devices += 1
            for interface in interfaces or ("",):
                result = _rdma_port(pf, interface, carriers, soft_name)
                if isinstance(result, RdmaPort):
                    candidates.append(_Candidate(host, pf, interface, result))
                elif result is not None:
                    left_out[result].append(host.name)
    classes = _classes(inventory, candidates)
    cables = Cables(inventory)
    notices = []
    for (code, text), nodes in left_out.items():
        notices.append(Notice(code=code, nodes=tuple(nodes), text=text))
    ports = [_port(candidate, classes[candidate.host.name], cables) for candidate in candidates]
    return CandidatePorts(ports=tuple(ports), notices=(*notices, *_same_chassis_names(cables)))


def _rdma_port(
    pf: Pf, interface: str, carriers: Mapping[str, str], soft_name: str
) -> RdmaPort | tuple[str, str] | None:
    """The RDMA device of a candidate, why it is none, or None for a port that is clearly none.

    `soft_name` is of its soft-RoCE where that counts, else empty.
    """
    devices = []
    for rdma in pf.rdma.or_else(()):
        if soft_name or not rdma.soft:
            devices.append(rdma)
    if soft_name and not devices and pf.driver.value == VIRTUAL_DRIVER:
        devices = [RdmaPort(device=soft_name, soft=True)]  # as `up` makes it
    if devices:
        if soft_name:
            supported = {"mlx5_core", VIRTUAL_DRIVER}
        else:
            supported = {"mlx5_core"}
        refusal = _refusal(pf, interface, devices, carriers, supported)
        number = 0
        if interface:
            number = pf.interfaces.or_else(()).index(interface)
        return refusal or devices[min(number, len(devices) - 1)]
    if pf.vendor_id.or_else("") == NVIDIA:
        return "no-rdma", f"{interface or pf.pci} has no RDMA device"
    return None


def _refusal(
    pf: Pf,
    interface: str,
    devices: Iterable[RdmaPort],
    carriers: Mapping[str, str],
    supported: Container[str],
) -> tuple[str, str] | None:
    """Code and reason why a port with RDMA is not a candidate."""
    name, driver, master = interface or pf.pci, pf.driver.or_else(""), pf.master.or_else("")
    code, text = "", ""
    if not interface:
        code, text = "no-interface", "has no network interface: no driver, or a pod has it"
    elif interface in carriers:
        code, text = "carrier", f"is no rail: {carriers[interface]}"
    elif "InfiniBand" in {rdma.link_layer.or_else("") for rdma in devices}:
        code, text = "infiniband", "is an InfiniBand port, which rocelab does not configure"
    elif pf.device_id.or_else("") in BLUEFIELD:
        code, text = "bluefield", "is a BlueField, whose Arm cores may own the port"
    elif master:
        code, text = "bond", f"belongs to {master}; a rail is one NIC without bond"
    elif driver not in supported:
        text = f"runs on {driver or 'an unknown driver'}; rocelab supports mlx5_core"
        code = "driver"
    return (code, f"{name} {text}") if code else None


def _carriers(host: Host) -> dict[str, str]:
    """Interfaces that the host depends on with the reason, also what is under and above them."""
    carriers = dict.fromkeys(host.carriers.ssh.or_else(()), "SSH arrives on it")
    for name in host.carriers.default_route.or_else(()):
        carriers.setdefault(name, "the default route uses it")
    for name, what in host.carriers.storage.or_else({}).items():
        carriers.setdefault(name, f"{what} is reached over it")
    near = _neighbors(host)
    todo = list(carriers)
    while todo:
        name = todo.pop()
        for other in sorted(near[name] - carriers.keys()):
            carriers[other] = f"it belongs to {name}, and {carriers[name]}"
            todo.append(other)
    return carriers


def _neighbors(host: Host) -> dict[str, set[str]]:
    """Interfaces under, above and beside each interface."""
    pairs = set()
    for link in host.network.links.or_else(()):
        pairs |= {(link.name, link.lower), (link.name, link.master)}
    for pf in host.pfs.or_else(()):
        pairs |= {(name, pf.master.or_else("")) for name in pf.interfaces.or_else(())}
    near: dict[str, set[str]] = defaultdict(set)
    for name, other in pairs:
        if other:
            near[name].add(other)
            near[other].add(name)
    return near


@dataclass(slots=True)
class _Class:
    """A server model with its NICs and GPUs in their slots."""

    name: str
    product: str
    slots: tuple[str, ...]
    gpus: tuple[str, ...]
    nodes: list[str] = field(default_factory=list)

    def holds(self, other: "_Class") -> bool:
        """Whether the other is this model with something missing."""
        return (
            self.product == other.product
            and set(self.slots) >= set(other.slots)
            and set(self.gpus) >= set(other.gpus)
            and len(self.nodes) > len(other.nodes)
        )


def _classes(inventory: Inventory, candidates: Iterable[_Candidate]) -> dict[str, _Class]:
    """The class of each host with candidates; one without a NIC or GPU is of its peers' class."""
    slots: dict[str, set[str]] = defaultdict(set)
    for candidate in candidates:
        slots[candidate.host.name].add(candidate.pf.pci)
    classes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Class] = {}
    for host in inventory.hosts:
        if host.name in slots:
            gpus = tuple(sorted(gpu.pci for gpu in host.gpus.or_else(())))
            product = host.system.product.or_else("")
            key = (product, tuple(sorted(slots[host.name])), gpus)
            classes.setdefault(key, _Class("", *key)).nodes.append(host.name)
    whole: list[_Class] = []
    for server in sorted(classes.values(), key=lambda server: -len(server.nodes)):
        homes = [other for other in whole if other.holds(server)]
        if homes:
            homes[0].nodes += server.nodes
        else:
            whole.append(server)
    _name(whole)
    by_node: dict[str, _Class] = {}
    for server in whole:
        by_node |= dict.fromkeys(server.nodes, server)
    return by_node


def _name(classes: Iterable[_Class]) -> None:
    counts: Counter[str] = Counter()
    for server in classes:
        words = re.sub(r"[^a-z0-9]+", "-", server.product.lower()).strip("-")
        last = re.sub(r"^[^a-z]+", "", words)[-36:].strip("-")
        name = re.sub(r"^[^a-z]+", "", last) or "server"
        counts[name] += 1
        server.name = name if counts[name] == 1 else f"{name}-{counts[name]}"


def _port(candidate: _Candidate, server: _Class, cables: Cables) -> RailPort:
    host, pf, interface = candidate.host, candidate.pf, candidate.interface
    addresses = tuple(filter(None, map(_ipv4, pf.addresses.or_else(()))))
    driver: Driver = "mlx5_core"
    if pf.driver.value == VIRTUAL_DRIVER:
        driver = "igb"
    near = pf.nearest_gpus.value if server.gpus else None
    return RailPort(
        node=host.name,
        interface=interface,
        pci=pf.pci,
        driver=driver,
        rdma_device=candidate.rdma.device,
        server=server.name,
        gpu=_gpu_places(near, server.gpus),
        leaf=cables.leaf_of(host, pf, interface),
        addresses=addresses,
        has_unknown_addresses=not pf.addresses.is_known,
        gateway=_gateway(host, interface, addresses),
        mtu_bytes=pf.mtu_bytes.value,
        vfs=pf.vfs_num.value,
        up=pf.up.value,
        carrier=pf.carrier.value,
    )


def _gpu_places(near: NearestGpus | None, gpus: tuple[str, ...]) -> str | None:
    if near is None:
        return None
    return " ".join(str(gpus.index(pci)) for pci in near.gpus if pci in gpus)


def _gateway(host: Host, interface: str, addresses: tuple[IPv4Interface, ...]) -> str:
    """The router of a PF's subnet: the other end of a /31, or what the host's routes say."""
    if len(addresses) != 1:
        return ""
    own = addresses[0]
    if own.network.prefixlen == 31:
        return str(next(other for other in own.network if other != own.ip))
    routers = set()
    for route in host.network.routes.or_else(()):
        router = None
        if route.interface == interface:
            router = _ipv4(route.gateway)
        if route.family == 4 and router and router.ip in own.network:
            routers.add(route.gateway)
    return routers.pop() if len(routers) == 1 else ""


def _ipv4(text: str) -> IPv4Interface | None:
    """An address as a host prints it; None for IPv6, and for what is no address."""
    try:
        return IPv4Interface(text)
    except ValueError:
        return None


def _same_chassis_names(cables: Cables) -> Iterator[Notice]:
    for system, chassis in sorted(cables.chassis_by_name.items()):
        if len(chassis) > 1:
            ids = ", ".join(sorted(chassis))
            yield Notice(
                code="one-name",
                text=f"{len(chassis)} switches have the name {system} ({ids}), "
                "so names include their chassis",
            )


def link_labels(ports: Sequence[RailPort]) -> dict[RailPort, str]:
    """A name per range of /31 and /30 links that one rail has; nothing without a known order.

    NVIDIA cuts a range per rail, Juniper goes through a server's leaves.
    """
    by_node: dict[str, dict[int, RailPort]] = defaultdict(dict)
    for port in sorted(ports, key=lambda port: port.addresses):
        if port.address:
            network = port.address.network
            number = int(network.network_address) // network.num_addresses
            by_node[port.node][number] = port
    most = max(map(len, by_node.values()), default=0)
    whole = [list(links) for links in by_node.values() if len(links) == most]
    if len(whole) < 2:
        return {}
    ranges = [range(min(column), max(column) + 1) for column in zip(*whole, strict=True)]
    first = ranges[0].start
    in_ranges = all(low.stop <= high.start for low, high in itertools.pairwise(ranges))
    in_turns = all(_turns(numbers, first) == list(range(most)) for numbers in whole)
    labels: dict[RailPort, str] = {}
    for links in by_node.values():
        for number, port in links.items():
            places = [place for place, numbers in enumerate(ranges, 1) if number in numbers]
            if in_ranges and places:
                labels[port] = f"links of range {places[0]}"
            elif in_turns and not in_ranges:
                labels[port] = f"links of turn {(number - first) % most + 1}"
    return labels


def _turns(numbers: Sequence[int], first: int) -> list[int]:
    return [(number - first) % len(numbers) for number in numbers]

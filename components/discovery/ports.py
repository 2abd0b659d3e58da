"""Which ports of an inventory may be PFs of rails, and what is known of each; the others with the reason."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Interface

from components.discovery.questions import Notice
from components.inventory.cables import Cables, LeafPort
from components.inventory.model import Host, Inventory, NearestGpus, Pf, RdmaPort
from stacks.nodes import Driver

BLUEFIELD = frozenset({"a2d2", "a2d6", "a2dc", "a2df"})
"""NVIDIA's BlueField by PCI device (pci.ids): whether its Arm cores own the port cannot be seen from the host."""
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
    """Places of the GPUs below the same bridge among those of the class, such as `3`; empty for none, None unknown."""
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
        return self.addresses[0] if len(self.addresses) == 1 else None

    @property
    def without_addresses(self) -> str:
        """The reason why there are none, as text."""
        return "addresses unknown" if self.has_unknown_addresses else "no address"

    @property
    def is_unused(self) -> bool:
        """Whether nothing is plugged in and no address is set."""
        is_down = self.up is False or self.carrier is False
        return is_down and not self.addresses and not self.has_unknown_addresses


@dataclass(frozen=True, kw_only=True, slots=True)
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
    found: list[_Candidate] = []
    left_out: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in inventory.hosts:
        carriers = _carriers(host)
        soft_devices = 0
        for pf in host.pfs.or_else(()):
            soft_name = f"rxe{soft_devices}" if virtual else ""
            soft_devices += pf.driver.value == VIRTUAL_DRIVER and not carriers.keys() & {*pf.interfaces.or_else(())}
            for interface in pf.interfaces.or_else(()) or ("",):
                match _refusal(pf, interface, carriers, soft_name):
                    case RdmaPort() as rdma:
                        found.append(_Candidate(host, pf, interface, rdma))
                    case (str() as code, str() as text):
                        left_out[code, text].append(host.name)
                    case _:
                        pass
    classes = _classes(inventory, found)
    cables = Cables(inventory)
    notices = [Notice(code=code, nodes=tuple(nodes), text=text) for (code, text), nodes in left_out.items()]
    return CandidatePorts(
        ports=tuple(_port(one, classes[one.host.name], cables) for one in found),
        notices=(*notices, *_same_chassis_names(cables)),
    )


def _refusal(pf: Pf, interface: str, carriers: Mapping[str, str], soft_name: str) -> RdmaPort | tuple[str, str] | None:
    """The RDMA device of a candidate, why it is not one, or None for a port that is clearly not one.

    `soft_name` is of its soft-RoCE where that counts, else empty.
    """
    devices = [rdma for rdma in pf.rdma.or_else(()) if soft_name or not rdma.soft]
    if soft_name and not devices and pf.driver.value == VIRTUAL_DRIVER:
        devices = [RdmaPort(device=soft_name, soft=True)]  # as `up` makes it
    name, driver, master = interface or pf.pci, pf.driver.or_else(""), pf.master.or_else("")
    if not devices:
        return ("no-rdma", f"{name} has no RDMA device") if pf.vendor_id.or_else("") == NVIDIA else None
    known = driver == "mlx5_core" or (driver == VIRTUAL_DRIVER and bool(soft_name))
    refusals = {
        "no-interface": "" if interface else f"{name} has no network interface: no driver, or a pod has it",
        "carrier": f"{name} is no rail: {carriers[interface]}" if interface in carriers else "",
        "infiniband": f"{name} is an InfiniBand port, which rocelab does not configure"
        if _speaks_infiniband(devices)
        else "",
        "bluefield": f"{name} is a BlueField, whose Arm cores may own the port" if _is_bluefield(pf) else "",
        "bond": f"{name} belongs to {master}; a rail is one NIC without bond" if master else "",
        "driver": "" if known else f"{name} runs on {driver or 'an unknown driver'}; rocelab supports mlx5_core",
    }
    if found := next(((code, text) for code, text in refusals.items() if text), None):
        return found
    return devices[min(pf.interfaces.or_else(()).index(interface), len(devices) - 1)]


def _speaks_infiniband(devices: Iterable[RdmaPort]) -> bool:
    return "InfiniBand" in {rdma.link_layer.or_else("") for rdma in devices}


def _is_bluefield(pf: Pf) -> bool:
    return pf.device_id.or_else("") in BLUEFIELD


def _carriers(host: Host) -> dict[str, str]:
    """Interfaces that the host depends on, each with the reason; with what is under and above them."""
    found = dict.fromkeys(host.carriers.ssh.or_else(()), "SSH arrives on it")
    for name in host.carriers.default_route.or_else(()):
        found.setdefault(name, "the default route uses it")
    for name, what in host.carriers.storage.or_else({}).items():
        found.setdefault(name, f"{what} is reached over it")
    near: dict[str, set[str]] = defaultdict(set)
    for link in host.network.links.or_else(()):
        near[link.name] |= {link.lower, link.master} - {""}
        for other in {link.lower, link.master} - {""}:
            near[other].add(link.name)
    for pf in host.pfs.or_else(()):
        for interface in pf.interfaces.or_else(()):
            if master := pf.master.or_else(""):
                near[interface].add(master)
                near[master].add(interface)
    todo = list(found)
    while todo:
        name = todo.pop()
        for other in sorted(near[name] - found.keys()):
            found[other] = f"it belongs to {name}, and {found[name]}"
            todo.append(other)
    return found


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


def _classes(inventory: Inventory, found: Iterable[_Candidate]) -> dict[str, _Class]:
    """The class of each host that has candidates. A host that lacks a NIC or a GPU is of its peers' class."""
    slots: dict[str, set[str]] = defaultdict(set)
    for one in found:
        slots[one.host.name].add(one.pf.pci)
    classes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Class] = {}
    for host in inventory.hosts:
        if host.name in slots:
            gpus = tuple(sorted(gpu.pci for gpu in host.gpus.or_else(())))
            product = host.system.product.or_else("")
            key = (product, tuple(sorted(slots[host.name])), gpus)
            classes.setdefault(key, _Class("", *key)).nodes.append(host.name)
    ranked = sorted(classes.values(), key=lambda each: -len(each.nodes))
    whole: list[_Class] = []
    for each in ranked:
        if home := next((other for other in whole if other.holds(each)), None):
            home.nodes += each.nodes
        else:
            whole.append(each)
    _name(whole)
    return {node: each for each in whole for node in each.nodes}


def _name(classes: Iterable[_Class]) -> None:
    taken: Counter[str] = Counter()
    for each in classes:
        words = re.sub(r"[^a-z0-9]+", "-", each.product.lower()).strip("-")
        name = re.sub(r"^[^a-z]+", "", words)[-36:].strip("-") if re.search(r"[a-z]", words) else "server"
        name = re.sub(r"^[^a-z]+", "", name) or "server"
        taken[name] += 1
        each.name = name if taken[name] == 1 else f"{name}-{taken[name]}"


def _port(one: _Candidate, server: _Class, cables: Cables) -> RailPort:
    host, pf = one.host, one.pf
    addresses = tuple(address for text in pf.addresses.or_else(()) if (address := _ipv4(text)))
    driver: Driver = "igb" if pf.driver.value == VIRTUAL_DRIVER else "mlx5_core"
    return RailPort(
        node=host.name,
        interface=one.interface,
        pci=pf.pci,
        driver=driver,
        rdma_device=one.rdma.device,
        server=server.name,
        gpu=pf.nearest_gpus.fold(lambda near: _gpu_places(near, server.gpus), lambda _: None) if server.gpus else None,
        leaf=cables.leaf_of(host, pf, one.interface),
        addresses=addresses,
        has_unknown_addresses=not pf.addresses.is_known,
        gateway=_gateway(host, one.interface, addresses),
        mtu_bytes=pf.mtu_bytes.value,
        vfs=pf.vfs_num.value,
        up=pf.up.value,
        carrier=pf.carrier.value,
    )


def _gpu_places(near: NearestGpus, gpus: tuple[str, ...]) -> str:
    return " ".join(str(gpus.index(pci)) for pci in near.gpus if pci in gpus)


def _gateway(host: Host, interface: str, addresses: tuple[IPv4Interface, ...]) -> str:
    """The router of a PF's subnet: the other end of a link of two, or what the host's routes say."""
    if len(addresses) != 1:
        return ""
    own = addresses[0]
    if own.network.prefixlen == 31:
        return str(next(other for other in own.network if other != own.ip))
    routers = {
        route.gateway
        for route in host.network.routes.or_else(())
        if route.interface == interface
        and route.family == 4
        and route.gateway
        and (router := _ipv4(route.gateway))
        and router.ip in own.network
    }
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
                nodes=(),
                text=f"{len(chassis)} switches have the name {system} ({ids}), so names include their chassis",
            )

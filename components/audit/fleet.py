"""An inventory as checks see it: hosts, peers, ports of the rails, and the lab file's part."""

from collections.abc import Hashable, Iterator
from functools import cached_property, lru_cache
from ipaddress import IPv4Interface

from components.inventory.cables import Cables, LeafPort
from components.inventory.model import Gpu, Host, Inventory, Pf, Switch, SwitchPort
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.nodes import Pf as LabPf
from stacks.rails import Rail

Slot = tuple[Hashable, str]
"""Class of hosts, and PCI address."""


@frozen
class Place:
    """A host, or a part of it."""

    host: Host
    part: str = ""
    peers: Hashable = ""
    """Places with the same key should be alike."""

    @property
    def node(self) -> str:
        """Name of the host."""
        return self.host.name


@frozen
class Port(Place):
    """A PF on a rail."""

    pf: Pf
    rail: str
    """The rail's name in the lab file, else the PCI address that peers have too."""
    leaf: LeafPort | None = None
    """The other end of its cable; None where nothing says which one."""
    declared: LabPf | None = None
    lab_rail: Rail | None = None

    @property
    def interface(self) -> str:
        """Its netdev; empty where it has none, or it is unknown."""
        return self.pf.interface

    @property
    def ipv4(self) -> tuple[IPv4Interface, ...]:
        """Its IPv4 addresses; none where they are unknown."""
        return tuple(_ipv4(text) for text in self.pf.addresses.or_else(()) if ":" not in text)


@frozen
class AuditUplink:
    """The switch port at the other end of a port's cable."""

    switch: Switch
    port: SwitchPort


class AuditFleet:
    """Everything that was read, and how it belongs together."""

    def __init__(self, inventory: Inventory, lab: Lab | None, earlier: Inventory | None) -> None:
        self.inventory, self.lab, self.earlier = inventory, lab, earlier
        by_name = {node.name: node for node in lab.nodes} if lab else {}
        by_address = {}
        if lab:
            by_address = {(str(node.address), node.ssh_port): node for node in lab.nodes}
        self._nodes: dict[str, Node] = {}
        for host in inventory.hosts:
            if node := by_name.get(host.name) or by_address.get((host.address, host.ssh_port)):
                self._nodes[host.name] = node
        self.drained = tuple(name for name, node in self._nodes.items() if node.state != "active")
        """Hosts that are drained in the lab file."""
        read = [host for host in inventory.hosts if not host.unread]
        self.hosts = tuple(host for host in read if host.name not in self.drained)
        """Hosts that were read."""
        self._classes = {host.name: _class_of(host) for host in self.hosts}
        self._cables = Cables(inventory)

    @property
    def unread(self) -> Iterator[tuple[str, str]]:
        """What could not be read, and why."""
        for host in self.inventory.hosts:
            if host.unread and host.name not in self.drained:
                yield host.name, host.unread
        if self.lab:
            known = {node.name for node in self._nodes.values()}
            for node in self.lab.active_nodes:
                if node.name not in known:
                    yield node.name, "it is in the lab file, but not in the inventory"
        for switch in self.inventory.switches:
            if switch.unread:
                yield switch.name, switch.unread
        if self.inventory.cluster and self.inventory.cluster.unread:
            yield "Kubernetes", self.inventory.cluster.unread

    def node(self, host: Host) -> Node | None:
        """The lab file's node of a host."""
        return self._nodes.get(host.name)

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The hosts; those of one class are peers."""
        return tuple(Place(host=host, peers=self._classes[host.name]) for host in self.hosts)

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """The PFs on rails: those of the lab file, else those in slots with RDMA on most peers."""
        return tuple(port for host in self.hosts for port in self._ports_of(host))

    def ports_of(self, host: Host) -> tuple[Port, ...]:
        """The ports of one host."""
        return self._by_host.get(host.name, ())

    @cached_property
    def _by_host(self) -> dict[str, tuple[Port, ...]]:
        actual: dict[str, tuple[Port, ...]] = {}
        for port in self.ports:
            actual[port.node] = (*actual.get(port.node, ()), port)
        return actual

    def _ports_of(self, host: Host) -> Iterator[Port]:
        node = self.node(host)
        for pf in host.pfs.or_else(()):
            names = pf.interfaces.or_else(())
            if node is None or self.lab is None:
                if self.lab is None and (self._classes[host.name], pf.pci) in self._rail_slots:
                    yield self._port(host, pf, pf.pci)
                continue
            for declared in node.pfs:
                if declared.pci == pf.pci if declared.pci else declared.interface in names:
                    yield self._port(
                        host, pf, declared.rail, declared, self.lab.rail(declared.rail)
                    )

    def _port(
        self,
        host: Host,
        pf: Pf,
        rail: str,
        declared: LabPf | None = None,
        lab_rail: Rail | None = None,
    ) -> Port:
        return Port(
            host=host,
            part=pf.name,
            peers=(self._classes[host.name], rail),
            pf=pf,
            rail=rail,
            leaf=self._cables.leaf_of(host, pf, pf.interface),
            declared=declared,
            lab_rail=lab_rail,
        )

    @cached_property
    def _rail_slots(self) -> frozenset[Slot]:
        slots: dict[Slot, list[bool]] = {}
        for host in self.hosts:
            carriers = {*host.carriers.ssh.or_else(()), *host.carriers.default_route.or_else(())}
            for pf in host.pfs.or_else(()):
                if pf.rdma.value is None:
                    continue
                free = not pf.master.or_else("") and not carriers & {*pf.interfaces.or_else(())}
                slots.setdefault((self._classes[host.name], pf.pci), []).append(
                    bool(pf.rdma.value) and free
                )
        return frozenset(slot for slot, votes in slots.items() if sum(votes) * 2 > len(votes))

    def gpus_of(self, host: Host) -> tuple[Gpu, ...]:
        """NVIDIA's GPUs of a host."""
        return tuple(gpu for gpu in host.gpus.or_else(()) if gpu.vendor_id == "10de")

    def uplink(self, port: Port) -> AuditUplink | None:
        """The port of a switch in the inventory that a port is plugged into."""
        if port.leaf:
            return self._switch_ports.get((port.leaf.name, port.leaf.port))
        return None

    @cached_property
    def _switch_ports(self) -> dict[tuple[str, str], AuditUplink]:
        uplinks = {}
        for switch in self.inventory.switches:
            for port in switch.ports.or_else(()):
                uplinks[switch.name, port.name] = AuditUplink(switch=switch, port=port)
        return uplinks

    @cached_property
    def earlier_hosts(self) -> dict[str, Host]:
        """Hosts of the earlier look by name."""
        if self.earlier:
            return {host.name: host for host in self.earlier.hosts if not host.unread}
        return {}


@lru_cache(maxsize=65_536)
def _ipv4(text: str) -> IPv4Interface:
    return IPv4Interface(text)


def _class_of(host: Host) -> Hashable:
    """What equal machines share: the product; where that is unknown, the slots of GPUs and NICs."""
    if product := host.system.product.or_else(""):
        return product
    devices = tuple((gpu.pci, gpu.device_id) for gpu in host.gpus.or_else(()))
    return devices, tuple((pf.pci, pf.device_id.or_else("")) for pf in host.pfs.or_else(()))

"""Addresses and routes of the rails: packets must leave by the NIC that they belong to."""

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network

from components.audit.findings import Faults, Severity
from components.audit.fleet import Place, Port
from components.audit.registry import PRACTICE, check
from components.audit.routes import interface_to
from components.audit.view import View, fault
from components.inventory.model import Host, Pf, Route
from components.inventory.reading import Reading
from components.inventory.redact import IPV4

SYSCTLS = "https://docs.kernel.org/networking/ip-sysctl.html"
RDMACM = "https://github.com/linux-rdma/rdma-core/blob/master/Documentation/librdmacm.md"
NCCL = "https://github.com/NVIDIA/nccl/issues/1664"

LOST = frozenset({"FAILED", "INCOMPLETE"})


@check(
    "rail-address",
    Severity.CRITICAL,
    title="PF has no address on its rail",
    why="without an IPv4 address the PF has no RoCE v2 GID, so peers cannot connect",
    source=PRACTICE,
    remedy="add the address now and in the file that sets it at boot",
)
def rail_address(view: View) -> Faults:
    for port, reading, _ in view.each(
        (port for port in view.ports if port.declared), lambda port: port.pf.addresses
    ):
        if port.declared and port.declared.address not in port.ipv4:
            own = ", ".join(map(str, port.ipv4))
            yield fault(port, reading, own or "no IPv4 address", str(port.declared.address))
    yield from view.lacking(
        (port for port in view.ports if not port.declared),
        lambda port: port.pf.addresses.map(lambda texts: any(":" not in text for text in texts)),
        "an IPv4 address",
        "no IPv4 address",
    )


@check(
    "rail-subnet",
    Severity.CRITICAL,
    title="PF is in another subnet than its rail",
    why="its peers are no longer neighbors: packets go to a router or nowhere",
    source=PRACTICE,
    remedy="correct the address or its prefix length, also in the file that sets it at boot",
)
def rail_subnet(view: View) -> Faults:
    def subnets(port: Port) -> Reading[str]:
        networks = sorted({str(address.network) for address in port.ipv4})
        return port.pf.addresses.map(lambda _: ", ".join(networks))

    ports = [port for port in view.ports if not port.declared]
    ports = [port for port in ports if port.ipv4 or not port.pf.addresses.is_known]
    # a subnet for each leaf or cable has no majority
    return view.unlike_peers(ports, subnets, undecided=False)


@check(
    "address-twice",
    Severity.CRITICAL,
    title="An address is used twice",
    why="packets for one host reach the other, and connections break at random",
    source=PRACTICE,
    remedy="renumber one of them",
)
def address_twice(view: View) -> Faults:
    def addresses(pf: Pf) -> Reading[list[str]]:
        return pf.addresses.map(lambda texts: [text.partition("/")[0] for text in texts])

    return _used_twice(view, addresses, lambda pf: pf.pci)


def _used_twice(
    view: View, values_of: Callable[[Pf], Reading[list[str]]], owner_of: Callable[[Pf], str]
) -> Faults:
    """Values of several owners, also of PFs that are on no rail."""
    users: dict[str, list[tuple[Place, Pf]]] = {}
    for host in view.fleet.hosts:
        for pf in view.read(host.name, host.pfs) or ():
            for value in view.read(host.name, values_of(pf)) or ():
                users.setdefault(value, []).append((Place(host=host, part=pf.name), pf))
    for value, places in users.items():
        owners = {(place.node, owner_of(pf)) for place, pf in places}
        for place, pf in places if len(owners) > 1 else ():
            yield fault(place, values_of(pf), f"{value} on each", "one owner")


@check(
    "mac-twice",
    Severity.CRITICAL,
    title="A MAC is used twice",
    why="the switch keeps moving the MAC between two ports and loses packets of both",
    source=PRACTICE,
    remedy="give each cloned machine its own MAC; if the burned-in MAC is wrong, contact the "
    "NIC's vendor",
)
def mac_twice(view: View) -> Faults:
    def macs(pf: Pf) -> Reading[list[str]]:
        return pf.mac.map(lambda mac: [mac] if mac.strip("0:") else [])

    # the ports of one NIC may share theirs
    return _used_twice(view, macs, lambda pf: pf.pci.rpartition(".")[0])


def _shared(view: View) -> Iterator[tuple[Host, list[Port]]]:
    """Hosts with several rail ports in one subnet, with these ports."""
    for host in view.fleet.hosts:
        by_subnet: dict[IPv4Network, list[Port]] = {}
        for port in view.fleet.ports_of(host):
            for network in {address.network for address in port.ipv4}:
                by_subnet.setdefault(network, []).append(port)
        for ports in by_subnet.values():
            if len(ports) > 1:
                yield host, ports


@check(
    "arp-flux",
    Severity.HIGH,
    title="Several NICs in one subnet answer for each other",
    why="Linux answers ARP for any of its addresses on any NIC, and RDMA connects to the wrong "
    "device",
    source=RDMACM,
    remedy="set net.ipv4.conf.all.arp_ignore=2 and arp_announce=2 in /etc/sysctl.d, or use one "
    "subnet per rail",
)
def arp_flux(view: View) -> Faults:
    for host, ports in _shared(view):
        sysctls = view.read(host.name, host.network.sysctls)
        for port in ports if sysctls is not None else ():
            ignore, announce = (
                _larger(sysctls or {}, port, name) for name in ("arp_ignore", "arp_announce")
            )
            if ignore is None or announce is None:
                view.skip(host.name, "arp_ignore or arp_announce was not read")
            elif ignore not in {1, 2} or announce != 2:
                actual = f"arp_ignore {ignore}, arp_announce {announce}"
                yield fault(port, host.network.sysctls, actual, "arp_ignore 1 or 2, arp_announce 2")


@check(
    "rp-filter",
    Severity.HIGH,
    title="Reverse path filter drops packets",
    why="packets that arrive on a different NIC than the return route uses are dropped silently",
    source=SYSCTLS,
    remedy="set net.ipv4.conf.INTERFACE.rp_filter=2 in /etc/sysctl.d; the larger of `all` and "
    "the interface wins",
)
def rp_filter(view: View) -> Faults:
    shared = {(port.node, port.pf.pci) for _, ports in _shared(view) for port in ports}
    for port in view.ports:
        routes = view.read(port.node, port.host.network.routes)
        routed = _gateways(routes or (), port)
        if not routed and (port.node, port.pf.pci) not in shared:
            continue
        sysctls = view.read(port.node, port.host.network.sysctls)
        if sysctls is not None and _larger(sysctls, port, "rp_filter") == 1:
            yield fault(port, port.host.network.sysctls, "1 (strict)", "2 (loose) or 0")


def _larger(sysctls: dict[str, int], port: Port, name: str) -> int | None:
    """The value that counts: the larger of the interface's and that of `all`."""
    actual = []
    for where in ("all", port.interface):
        actual.append(sysctls.get(f"net.ipv4.conf.{where}.{name}"))
    given = [value for value in actual if value is not None]
    return max(given) if len(given) == len(actual) else None


@check(
    "rail-route",
    Severity.CRITICAL,
    title="Packets of a rail leave by the wrong NIC",
    why="the rail's traffic takes another rail or the management network, or is lost",
    source=NCCL,
    remedy="add a rule `from ADDRESS` with its own table per port, and use one subnet per rail",
)
def rail_route(view: View) -> Faults:
    near: dict[tuple[str, IPv4Network], list[IPv4Address]] = {}
    far: dict[str, dict[IPv4Network, IPv4Address]] = {}
    for port in view.ports:
        for address in port.ipv4:
            near.setdefault((port.rail, address.network), []).append(address.ip)
            far.setdefault(port.rail, {}).setdefault(address.network, address.ip)
    for port in view.ports:
        if not port.ipv4:
            continue
        network, own = port.host.network, port.ipv4[0]
        routes, rules = view.read(port.node, network.routes), view.read(port.node, network.rules)
        if routes is None or rules is None:
            continue
        neighbors = [address for address in near[port.rail, own.network][:2] if address != own.ip]
        peers = [("in its subnet", address) for address in neighbors[:1]]
        if _gateways(routes, port):
            others = []
            for subnet, ip in far[port.rail].items():
                if subnet != own.network:
                    others.append(ip)
            peers += [("in other subnets", address) for address in others[:1]]
        for where, peer in peers:
            way = interface_to(routes, rules, own.ip, peer)
            if way != port.interface:
                actual = f"through {way}" if way else "no route"
                yield fault(
                    port, network.routes, f"{actual} to peers {where}", f"through {port.interface}"
                )


@check(
    "default-route",
    Severity.HIGH,
    title="The default route uses a rail",
    why="management, storage and the internet share the rail with RDMA, and a link flap cuts the "
    "host off",
    source=PRACTICE,
    remedy="move the default route to the management interface",
)
def default_route(view: View) -> Faults:
    for port in view.ports:
        carriers = view.read(port.node, port.host.carriers.default_route)
        if carriers is not None and port.interface in carriers:
            yield fault(port, port.host.carriers.default_route, "default route", "no default route")


@check(
    "gateway-swapped",
    Severity.HIGH,
    title="The gateway of a point-to-point link is not its other end",
    why="host and switch use each other's address, and nothing leaves the link",
    source="https://github.com/Mellanox/network-operator-docs",
    remedy="swap the two addresses on one of the ends, then correct the route",
)
def gateway_swapped(view: View) -> Faults:
    for port in view.ports:
        for own in port.ipv4:
            if own.network.prefixlen != 31:
                continue
            other = next(address for address in own.network if address != own.ip)
            routes = view.read(port.node, port.host.network.routes) or ()
            through = _gateways(routes, port)
            states = set()
            for peer in view.read(port.node, port.host.network.peers) or ():
                if peer.interface == port.interface and peer.address == str(other):
                    states.add(peer.state)
            if through and str(other) not in through:
                gateways = ", ".join(sorted(through))
                yield fault(
                    port, port.host.network.routes, f"gateway {gateways}", f"gateway {other}"
                )
            elif states and states <= LOST:
                yield fault(
                    port, port.host.network.peers, f"{other} does not answer ARP", "an answer"
                )


@check(
    "subnets-overlap",
    Severity.CRITICAL,
    title="Subnets overlap",
    why="packets for one network are sent to the other",
    source=PRACTICE,
    remedy="renumber the rail, since a running cluster rarely lets you change its pod and "
    "service networks",
)
def subnets_overlap(view: View) -> Faults:
    rails: dict[IPv4Network, Port] = {}
    for port in view.ports:
        for address in port.ipv4:
            rails.setdefault(address.network, port)
    networks = [(network, "another rail") for network in rails]
    networks += [(IPv4Network(text, strict=False), what) for text, what in _others(view)]
    networks.sort(key=lambda row: (int(row[0].network_address), row[0].prefixlen))
    large: tuple[IPv4Network, str] | None = None
    for network, what in networks:  # of two that overlap, one holds the other and comes first
        if large is None or not network.subnet_of(large[0]):
            large = network, what
        elif port_of_rail := rails.get(network) or rails.get(large[0]):
            actual = f"{network} ({what}) lies in {large[0]} ({large[1]})"
            yield fault(port_of_rail, port_of_rail.pf.addresses, actual, "no overlap")


def _others(view: View) -> Iterator[tuple[str, str]]:
    """Networks of IPv4 that are no rails, each with what it is."""
    texts = []
    for host in view.fleet.hosts:
        if IPV4.fullmatch(host.address):  # it may be a name
            texts.append((f"{host.address}/32", "management"))
    if cluster := view.fleet.inventory.cluster:
        texts += [(text, "services") for text in view.read("", cluster.service_cidrs) or ()]
        for node in view.read("", cluster.nodes) or ():
            texts += [(text, "pods") for text in node.pod_cidrs]
    if view.lab and view.lab.cluster:
        texts.append((str(view.lab.cluster.pod_subnet), "pods"))
        texts.append((str(view.lab.cluster.service_subnet), "services"))
    return (row for row in texts if ":" not in row[0])


def _gateways(routes: Iterable[Route], port: Port) -> set[str]:
    """The gateways of a port's routes."""
    own = [route for route in routes if route.interface == port.interface]
    return {route.gateway for route in own if route.gateway}

"""Addresses and routes of the rails: packets must leave by the NIC that they belong to."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, ip_network

from components.audit.findings import AuditFault, Severity
from components.audit.fleet import Place, Port
from components.audit.registry import PRACTICE, check
from components.audit.routing import interface_to
from components.audit.view import View, fault
from components.inventory.model import Host, Pf, Route
from components.inventory.reading import Reading

SYSCTLS = "https://docs.kernel.org/networking/ip-sysctl.html"
RDMACM = "https://github.com/linux-rdma/rdma-core/blob/master/Documentation/librdmacm.md"
NCCL = "https://github.com/NVIDIA/nccl/issues/1664"

LOST = frozenset({"FAILED", "INCOMPLETE"})


@check(
    "rail-address",
    Severity.CRITICAL,
    title="PF has no address on its rail",
    good="the address of the lab file; without one, an address where most peers have one",
    why="without an IPv4 address there is no RoCE v2 GID that others connect to",
    source=PRACTICE,
    remedy="add the address, also to the file that sets it at boot",
)
def rail_address(view: View) -> Iterator[AuditFault]:
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
    good="the subnet that most peers have on this rail",
    why="its peers are not neighbors any more: packets go to a router or nowhere",
    source=PRACTICE,
    remedy="correct the address or its prefix length, also in the file that sets it at boot",
)
def rail_subnet(view: View) -> Iterator[AuditFault]:
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
    good="each address on one PF",
    why="packets for one host reach the other, and connections break now and then",
    source=PRACTICE,
    remedy="renumber one of them",
)
def address_twice(view: View) -> Iterator[AuditFault]:
    owners: dict[str, list[tuple[Place, Pf]]] = {}
    for place, pf in _every_pf(view):
        for text in view.read(place.node, pf.addresses) or ():
            owners.setdefault(text.partition("/")[0], []).append((place, pf))
    for address, own in owners.items():
        for place, pf in own if len(own) > 1 else ():
            yield fault(place, pf.addresses, f"{address} on each", "one owner")


def _every_pf(view: View) -> Iterator[tuple[Place, Pf]]:
    """PFs of all hosts, also those on no rail."""
    for host in view.fleet.hosts:
        for pf in view.read(host.name, host.pfs) or ():
            yield Place(host=host, part=pf.name), pf


@check(
    "mac-twice",
    Severity.CRITICAL,
    title="A MAC is used twice",
    good="each MAC on one NIC",
    why="the switch learns it now here, now there, and loses packets of both",
    source=PRACTICE,
    remedy="give cloned machines MACs of their own; a NIC with a wrong burnt-in MAC needs its "
    "vendor",
)
def mac_twice(view: View) -> Iterator[AuditFault]:
    owners: dict[str, list[tuple[Place, Pf]]] = {}
    for place, pf in _every_pf(view):
        mac = view.read(place.node, pf.mac)
        if mac and mac != "00:00:00:00:00:00":
            owners.setdefault(mac, []).append((place, pf))
    for mac, own in owners.items():
        # the ports of one NIC may share theirs
        cards = {(place.node, pf.pci.rpartition(".")[0]) for place, pf in own}
        for place, pf in own if len(cards) > 1 else ():
            yield fault(place, pf.mac, f"{mac} on each", "one owner")


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
    good="arp_ignore 1 or 2, and arp_announce 2, where NICs of one host share a subnet",
    why="Linux answers ARP for any of its addresses on any NIC, and RDMA connects to the wrong "
    "device",
    source=RDMACM,
    remedy="net.ipv4.conf.all.arp_ignore=2 and arp_announce=2 in /etc/sysctl.d, or a subnet for "
    "each rail",
)
def arp_flux(view: View) -> Iterator[AuditFault]:
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
    good="not 1 (strict), where NICs share a subnet or a rail is routed",
    why="packets that come in by another NIC than the route back are dropped without a message",
    source=SYSCTLS,
    remedy="net.ipv4.conf.INTERFACE.rp_filter=2 in /etc/sysctl.d; the larger of `all` and the "
    "interface counts",
)
def rp_filter(view: View) -> Iterator[AuditFault]:
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
    actual = [sysctls.get(f"net.ipv4.conf.{where}.{name}") for where in ("all", port.interface)]
    given = [value for value in actual if value is not None]
    return max(given) if len(given) == len(actual) else None


@check(
    "rail-route",
    Severity.CRITICAL,
    title="Packets of a rail leave by another NIC",
    good="the route from the port's address to peers of its rail leads through the port",
    why="what should run on its own rail takes another one or the management network, or is lost",
    source=NCCL,
    remedy="a rule `from ADDRESS` with a separate table for each port; a separate subnet for "
    "each rail",
)
def rail_route(view: View) -> Iterator[AuditFault]:
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
            others = [ip for subnet, ip in far[port.rail].items() if subnet != own.network]
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
    title="The default route leads over a rail",
    good="the default route on the management network",
    why="management, storage and the internet share the rail with RDMA, and a link flap cuts the "
    "host off",
    source=PRACTICE,
    remedy="move the default route to the management interface",
)
def default_route(view: View) -> Iterator[AuditFault]:
    for port in view.ports:
        carriers = view.read(port.node, port.host.carriers.default_route)
        if carriers is not None and port.interface in carriers:
            yield fault(port, port.host.carriers.default_route, "default route", "no default route")


@check(
    "gateway-swapped",
    Severity.HIGH,
    title="The gateway of a point-to-point link is not its other end",
    good="the other address of the /31 is the gateway, and answers",
    why="host and switch have swapped their ends, and nothing leaves the link",
    source="https://github.com/Mellanox/network-operator-docs",
    remedy="swap the two addresses on one of the ends, then correct the route",
)
def gateway_swapped(view: View) -> Iterator[AuditFault]:
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
    good="rails, management, pods and services in subnets of their own",
    why="addresses of one network are looked for in the other",
    source=PRACTICE,
    remedy="renumber the rail; the pod and service networks of a running cluster can hardly be "
    "changed",
)
def subnets_overlap(view: View) -> Iterator[AuditFault]:
    rails: dict[IPv4Network, Port] = {}
    for port in view.ports:
        for address in port.ipv4:
            rails.setdefault(address.network, port)
    spans = sorted(rails, key=lambda network: (int(network.network_address), network.prefixlen))
    large: IPv4Network | None = None
    for span in spans:  # of two networks one holds the other, and comes first here
        if large is not None and span.subnet_of(large):
            port = rails[span]
            yield fault(
                port, port.pf.addresses, f"{span} lies in {large} of another rail", "no overlap"
            )
        else:
            large = span
    starts = [int(span.network_address) for span in spans]
    for network, what in _others(view):
        begin, end = int(network.network_address), int(network.broadcast_address)
        near = spans[max(bisect_left(starts, begin) - 1, 0) : bisect_right(starts, end)]
        for span in near:
            if span.overlaps(network):
                port = rails[span]
                yield fault(
                    port, port.pf.addresses, f"{span} overlaps {what} {network}", "no overlap"
                )


def _others(view: View) -> Iterator[tuple[IPv4Network, str]]:
    """Networks that are no rails, each with what it is."""
    cluster = view.fleet.inventory.cluster
    texts: list[tuple[str, str]] = []
    if cluster is not None:
        texts += [(text, "services") for text in view.read("", cluster.service_cidrs) or ()]
        texts += [
            (text, "pods") for node in view.read("", cluster.nodes) or () for text in node.pod_cidrs
        ]
    if view.lab and view.lab.cluster:
        texts.append((str(view.lab.cluster.pod_subnet), "pods"))
        texts.append((str(view.lab.cluster.service_subnet), "services"))
    texts += [
        (f"{host.address}/32", "management") for host in view.fleet.hosts if _is_ipv4(host.address)
    ]
    for text, what in texts:
        network = ip_network(text, strict=False)
        if isinstance(network, IPv4Network):
            yield network, what


def _gateways(routes: Iterable[Route], port: Port) -> set[str]:
    """The gateways of a port's routes."""
    own = [route for route in routes if route.interface == port.interface]
    return {route.gateway for route in own if route.gateway}


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True

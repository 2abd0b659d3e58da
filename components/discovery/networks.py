"""The host side of each rail of a draft: subnet, MTU, routers, and the ports that do not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Network

from components.discovery.plan import Plan
from components.discovery.ports import RailPort
from components.discovery.questions import Evidence, Notice, Question
from components.discovery.rails import RailOfPorts

LINK_PREFIX = 30
"""From this prefix length on, a subnet is one cable's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RailNetwork:
    """The host side of a rail."""

    range: IPv4Network
    mtu_bytes: int
    routed: bool
    """Whether each PF has a gateway of its own."""
    ports: Mapping[str, RailPort]
    """Those whose address fits, by host."""
    odd: Mapping[str, str]
    """Why a port has no place in it, by host."""


def networks_of(rails: Sequence[RailOfPorts], plan: Plan) -> dict[str, RailNetwork]:
    """The rails that a lab file can describe; a question about each other one."""
    found = {rail.name: network for rail in rails if (network := _network_of(rail, plan)) is not None}
    return _refuse_shared_subnets(_with_common_ranges(found), plan)


def _network_of(rail: RailOfPorts, plan: Plan) -> RailNetwork | None:
    """Subnet and MTU of a rail; None with a question when they cannot be told."""
    addressed = {node: port for node, port in rail.ports.items() if port.address}
    mtus = Counter(port.mtu_bytes for port in rail.ports.values() if port.mtu_bytes and 1500 <= port.mtu_bytes <= 9216)
    if not addressed or not mtus:
        lacking = "address" if not addressed else "MTU between 1500 and 9216"
        plan.questions.append(
            _question("no-address", rail, f"{rail.name}: no port has one {lacking}: give the PFs theirs")
        )
        return None
    subnets = Counter(port.address.network for port in addressed.values() if port.address)
    odd = {node: "it has no address" for node, port in rail.ports.items() if not port.addresses}
    odd |= {node: "it has several addresses" for node, port in rail.ports.items() if len(port.addresses) > 1}
    routed = len(subnets) > 1
    if routed and all(subnet.prefixlen < LINK_PREFIX for subnet in subnets):
        # one node alone in a subnet has a stray address; several are the nodes of a leaf
        common = {subnet for subnet, count in subnets.items() if count > 1}
        strays = {node: port for node, port in addressed.items() if port.address and port.address.network not in common}
        if common:
            addressed = {node: port for node, port in addressed.items() if node not in strays}
            odd |= {node: f"{port.address} is in no subnet of another node" for node, port in strays.items()}
            routed = len(common) > 1
            subnets = Counter({subnet: subnets[subnet] for subnet in common})
    if routed and (lost := {node: port for node, port in addressed.items() if not port.gateway}):
        if len(lost) * 2 >= len(addressed):
            text = f"{rail.name} has {len(subnets)} subnets: which router leads from one to another?"
            plan.questions.append(_question("no-gateway", rail, text))
            return None
        addressed = {node: port for node, port in addressed.items() if node not in lost}
        odd |= dict.fromkeys(lost, "no route names its router")
    if not routed and (routers := {port.gateway for port in addressed.values()} - {""}):
        text = f"{rail.name} has a router ({', '.join(sorted(routers))}); the draft leaves routes alone: host_gateway"
        plan.notices.append(Notice(code="router", nodes=(), text=text))
    return RailNetwork(
        range=smallest_range(subnets),
        mtu_bytes=mtus.most_common(1)[0][0] or 0,
        routed=routed,
        ports=addressed,
        odd=odd,
    )


def _question(code: str, rail: RailOfPorts, text: str) -> Question:
    evidence = Evidence()
    for node, port in rail.ports.items():
        addresses = ", ".join(map(str, port.addresses)) or "no address"
        evidence.add(node, f"{port.interface}: {addresses}, MTU {port.mtu_bytes or 'unknown'}")
    return Question(code=code, nodes=tuple(rail.ports), text=text, evidence=evidence.lines())


def smallest_range(subnets: Iterable[IPv4Network]) -> IPv4Network:
    """The smallest subnet that holds all of these."""
    found = sorted(subnets)
    whole = found[0]
    while not all(subnet.subnet_of(whole) for subnet in found):
        whole = whole.supernet()
    return whole


def _with_common_ranges(networks: dict[str, RailNetwork]) -> dict[str, RailNetwork]:
    """The same, where the ranges of routed rails that overlap are one range for all of these."""
    found = dict(networks)
    routed = [name for name, network in found.items() if network.routed]
    changed = True
    while changed:
        changed = False
        for one in routed:
            for other in routed:
                first, second = found[one].range, found[other].range
                if first != second and first.overlaps(second):
                    whole = smallest_range([first, second])
                    found |= {
                        name: replace(network, range=whole)
                        for name, network in found.items()
                        if name in routed and network.range.overlaps(whole)
                    }
                    changed = True
    return found


def _refuse_shared_subnets(networks: dict[str, RailNetwork], plan: Plan) -> dict[str, RailNetwork]:
    """Several NICs of a host in one subnet answer for each other, so that a lab file cannot describe them."""
    by_range: dict[IPv4Network, list[str]] = defaultdict(list)
    for name, network in networks.items():
        if not network.routed:
            by_range[network.range].append(name)
    found = dict(networks)
    for subnet, rails in by_range.items():
        if len(rails) > 1:
            text = (
                f"{', '.join(rails)} are one subnet, {subnet}: a lab file has one per rail, since NICs of one subnet "
                "answer for each other. Renumber the rails"
            )
            nodes = dict.fromkeys(node for name in rails for node in networks[name].ports)
            plan.questions.append(Question(code="one-subnet", nodes=tuple(nodes), text=text))
            for name in rails:
                del found[name]
    return found

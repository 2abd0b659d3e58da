"""The host side of each rail of a draft: subnet, MTU, routers, and the ports that do not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Interface, IPv4Network

from components.discovery.plan import DraftPlan
from components.discovery.ports import RailPort
from components.discovery.questions import Evidence, Notice, Question
from components.discovery.rails import RailOfPorts
from stacks.base import LabError
from stacks.words import some

FIRST_HOST = 11
"""Host number of the first node where addresses are given: routers are below it."""
FEW = 4
"""Nodes whose addresses a question shows."""
LINK_PREFIX = 30
"""From this prefix length on, a subnet is one cable's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RailNetwork:
    """The host side of a rail."""

    range: IPv4Network
    mtu_bytes: int
    routed: bool
    """Whether each PF has a gateway of its own."""
    is_given: bool
    """Whether an answer gives the ports their addresses."""
    ports: Mapping[str, RailPort]
    """Those whose address fits, by host."""
    odd: Mapping[str, str]
    """Why a port has no place in it, by host."""


def networks_of(
    rails: Sequence[RailOfPorts], host_subnets: Mapping[str, IPv4Network], plan: DraftPlan
) -> dict[str, RailNetwork]:
    """The rails that a lab file can describe; a question about each other one.

    Args:
        rails: those that are decided.
        host_subnets: where rails without any address get theirs from, as answered.
        plan: gets the questions.
    """
    found = {}
    for rail in rails:
        is_given = rail.name in host_subnets
        addressed = _with_addresses(rail, host_subnets[rail.name]) if is_given else rail
        if (network := _network_of(addressed, plan, is_given=is_given)) is not None:
            found[rail.name] = network
    return _refuse_shared_subnets(_with_common_ranges(found), plan)


def _with_addresses(rail: RailOfPorts, subnet: IPv4Network) -> RailOfPorts:
    """A rail whose ports have addresses of a subnet, where none had one.

    Raises:
        LabError: when some have one, or the subnet is too small.
    """
    if unread := [port.node for port in rail.ports.values() if port.has_unknown_addresses]:
        raise LabError(
            f"answers: host_subnets.{rail.name}: the addresses of {some(unread, 5)} are unknown; run rocelab look again"
        )
    if any(port.addresses for port in rail.ports.values()):
        raise LabError(f"answers: host_subnets.{rail.name}: its ports have addresses; remove the line")
    first = FIRST_HOST if subnet.num_addresses > FIRST_HOST + len(rail.ports) else 1
    if subnet.num_addresses < first + len(rail.ports) + 1:
        raise LabError(f"answers: host_subnets.{rail.name}: {subnet} is too small for {len(rail.ports)} nodes")
    ports = {
        node: replace(port, addresses=(IPv4Interface((subnet.network_address + number, subnet.prefixlen)),))
        for number, (node, port) in enumerate(rail.ports.items(), first)
    }
    return replace(rail, ports=ports)


def _network_of(rail: RailOfPorts, plan: DraftPlan, *, is_given: bool) -> RailNetwork | None:
    """Subnet and MTU of a rail; None with a question when they cannot be decided."""
    addressed = {node: port for node, port in rail.ports.items() if port.address}
    mtus = Counter(port.mtu_bytes for port in rail.ports.values() if port.mtu_bytes and 1500 <= port.mtu_bytes <= 9216)
    if not addressed or not mtus:
        lacking = "one address" if not addressed else "an MTU between 1500 and 9216"
        is_read = not any(port.has_unknown_addresses for port in rail.ports.values())
        answer = "" if addressed or not is_read else f"host_subnets:\n  {rail.name}: SUBNET"
        text = f"{rail.name} is left out: none of its ports has {lacking}."
        plan.questions.append(replace(_question("no-address", rail, text), answer=answer))
        return None
    subnets = Counter(port.address.network for port in addressed.values() if port.address)
    odd = {
        node: "its addresses are unknown" if port.has_unknown_addresses else "it has no address"
        for node, port in rail.ports.items()
        if not port.addresses
    }
    odd |= {node: "it has several addresses" for node, port in rail.ports.items() if len(port.addresses) > 1}
    routed = len(subnets) > 1 or any(subnet.prefixlen >= LINK_PREFIX for subnet in subnets)
    if routed and all(subnet.prefixlen < LINK_PREFIX for subnet in subnets):
        # one node alone in a subnet has a stray address; several are the nodes of a leaf
        common = {subnet for subnet, count in subnets.items() if count > 1}
        strays = {node: port for node, port in addressed.items() if port.address and port.address.network not in common}
        if common:
            addressed = {node: port for node, port in addressed.items() if node not in strays}
            odd |= {node: f"{port.address} is in no subnet of another node" for node, port in strays.items()}
            routed = len(common) > 1
            subnets = Counter({subnet: subnets[subnet] for subnet in common})
    lost = {node: port for node, port in addressed.items() if routed and not port.gateway}
    if lost:
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
        is_given=is_given,
        ports=addressed,
        odd=odd,
    )


def _question(code: str, rail: RailOfPorts, text: str) -> Question:
    evidence = Evidence()
    for node, port in rail.ports.items():
        addresses = ", ".join(map(str, port.addresses)) or port.without_addresses
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


def _refuse_shared_subnets(networks: dict[str, RailNetwork], plan: DraftPlan) -> dict[str, RailNetwork]:
    """Several NICs of a host in one subnet answer for each other, so that a lab file cannot describe them."""
    by_range: dict[IPv4Network, list[str]] = defaultdict(list)
    for name, network in networks.items():
        if not network.routed:
            by_range[network.range].append(name)
    found = dict(networks)
    for subnet, rails in by_range.items():
        if len(rails) > 1:
            plan.questions.append(_one_subnet(subnet, [port for name in rails for port in found[name].ports.values()]))
            for name in rails:
                del found[name]
    return found


def ask_about_shared_subnets(ports: Iterable[RailPort], plan: DraftPlan) -> None:
    """Asks about ports on no rail that share a subnet, which may be why they lack evidence."""
    by_subnet: dict[IPv4Network, list[RailPort]] = defaultdict(list)
    for port in sorted(ports, key=lambda each: (each.node, each.pci)):
        if port.address:
            by_subnet[port.address.network].append(port)
    for subnet, same in by_subnet.items():
        counts = Counter(port.node for port in same)
        if sum(count > 1 for count in counts.values()) * 2 > len(counts):
            plan.questions.append(_one_subnet(subnet, same))


def _one_subnet(subnet: IPv4Network, ports: Sequence[RailPort]) -> Question:
    by_node: dict[str, list[str]] = defaultdict(list)
    for port in ports:
        by_node[port.node].append(f"{port.interface} {port.address}")
    addresses = [f"{node}: {', '.join(own)}" for node, own in by_node.items()]
    interfaces = some(sorted({port.interface for port in ports}), 8)
    why = "NICs of one subnet answer for each other's addresses, so that RDMA connects to the wrong one"
    how = (
        "give the first NIC of each node an address in 10.10.1.0/24, the second one in 10.10.2.0/24, and so on, in the "
        "files that set them at boot; then run `rocelab discover` again"
    )
    return Question(
        code="one-subnet",
        nodes=tuple(by_node),
        text=f"{interfaces} are all in {subnet}, and a lab file has one subnet per rail. Which gets which new one?",
        evidence=(
            *addresses[:FEW],
            *([f"and {len(addresses) - FEW} more nodes"] if len(addresses) > FEW else []),
            why,
            how,
        ),
    )

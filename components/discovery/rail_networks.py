"""The host side of each rail of a draft: subnet, MTU, routers, and the ports that do not fit."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network

from components.discovery.candidates import RailPort
from components.discovery.infer_rails import RailOfPorts
from components.discovery.questions import DraftPlan, Evidence, Question
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.words import some

FIRST_HOST = 11
"""Host number of the first node where addresses are given: routers are below it."""
FEW = 4
"""Nodes whose addresses a question shows."""
WHY_AND_HOW = (
    "NICs of one subnet answer for each other's addresses, so that RDMA connects to the wrong one",
    (
        "give the first NIC of each node an address in 10.10.1.0/24, the second one in "
        "10.10.2.0/24, and so on, in the files that set them at boot; then run `rocelab discover` "
        "again"
    ),
)
LINK_PREFIX = 30
"""From this prefix length on, a subnet is one cable's."""


@frozen
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
    networks = {}
    for rail in rails:
        is_given = rail.name in host_subnets
        if is_given:
            network = _network_of(_with_addresses(rail, host_subnets[rail.name]), plan)
        else:
            network = _network_of(rail, plan)
        if network is not None:
            networks[rail.name] = replace(network, is_given=is_given)
    return _refuse_shared_subnets(_with_common_ranges(networks), plan)


def _with_addresses(rail: RailOfPorts, subnet: IPv4Network) -> RailOfPorts:
    """A rail whose ports have addresses of a subnet, where none had one.

    Raises:
        LabError: when some have one, or the subnet is too small.
    """
    where = f"answers: host_subnets.{rail.name}"
    unread = [port.node for port in rail.ports.values() if port.has_unknown_addresses]
    if unread:
        nodes = some(unread, 5)
        raise LabError(f"{where}: the addresses of {nodes} are unknown; run rocelab look again")
    if any(port.addresses for port in rail.ports.values()):
        raise LabError(f"{where}: its ports have addresses; remove the line")
    first = 1
    if subnet.num_addresses > FIRST_HOST + len(rail.ports):
        first = FIRST_HOST
    if subnet.num_addresses < first + len(rail.ports) + 1:
        raise LabError(f"{where}: {subnet} is too small for {len(rail.ports)} nodes")
    ports = {}
    for number, (node, port) in enumerate(rail.ports.items(), first):
        address = IPv4Interface((subnet.network_address + number, subnet.prefixlen))
        ports[node] = replace(port, addresses=(address,))
    return replace(rail, ports=ports)


def _network_of(rail: RailOfPorts, plan: DraftPlan) -> RailNetwork | None:
    """Subnet and MTU of a rail; None with a question when they cannot be decided."""
    mtus = Counter(port.mtu_bytes or 0 for port in rail.ports.values())
    mtu_bytes = [mtu for mtu, _ in mtus.most_common() if 1500 <= mtu <= 9216]
    addresses = {node: port.address for node, port in rail.ports.items() if port.address}
    if not addresses or not mtu_bytes:
        lacking = "an MTU between 1500 and 9216" if addresses else "one address"
        question = _question(
            "no-address", rail, f"{rail.name} is left out: none of its ports has {lacking}."
        )
        is_read = not any(port.has_unknown_addresses for port in rail.ports.values())
        if is_read and not addresses:
            question = replace(question, answer=f"host_subnets:\n  {rail.name}: SUBNET")
        plan.questions.append(question)
        return None
    odd = _without_one_address(rail)
    for node in _strays(addresses):
        odd[node] = f"{addresses.pop(node)} is in no subnet of another node"
    subnets = {address.network for address in addresses.values()}
    routers = {rail.ports[node].gateway for node in addresses} - {""}
    routed = len(subnets) > 1 or any(subnet.prefixlen >= LINK_PREFIX for subnet in subnets)
    lost = [node for node in addresses if routed and not rail.ports[node].gateway]
    if lost and len(lost) * 2 >= len(addresses):
        text = f"{rail.name} has {len(subnets)} subnets: which router connects them?"
        plan.questions.append(_question("no-gateway", rail, text))
        return None
    odd |= dict.fromkeys(lost, "no route names its router")
    if routers and not routed:
        names = ", ".join(sorted(routers))
        text = f"{rail.name} has a router ({names}); the draft leaves routes alone: host_gateway"
        plan.notice("router", text)
    return RailNetwork(
        range=smallest_range(subnets),
        mtu_bytes=mtu_bytes[0],
        routed=routed,
        is_given=False,
        ports={node: rail.ports[node] for node in addresses if node not in lost},
        odd=odd,
    )


def _without_one_address(rail: RailOfPorts) -> dict[str, str]:
    """Why a port has not exactly one address, by node."""
    odd = {}
    for node, port in rail.ports.items():
        if len(port.addresses) > 1:
            odd[node] = "it has several addresses"
        elif not port.addresses:
            odd[node] = "it has no address"
            if port.has_unknown_addresses:
                odd[node] = "its addresses are unknown"
    return odd


def _strays(addresses: Mapping[str, IPv4Interface]) -> list[str]:
    """Nodes alone in a subnet, where others share theirs: several are the nodes of a leaf."""
    counts = Counter(address.network for address in addresses.values())
    if max(counts.values()) == 1 or any(subnet.prefixlen >= LINK_PREFIX for subnet in counts):
        return []
    return [node for node, address in addresses.items() if counts[address.network] == 1]


def _question(code: str, rail: RailOfPorts, text: str) -> Question:
    evidence = Evidence()
    for node, port in rail.ports.items():
        addresses = ", ".join(map(str, port.addresses)) or port.without_addresses
        evidence.add(node, f"{port.interface}: {addresses}, MTU {port.mtu_bytes or 'unknown'}")
    return Question(code=code, nodes=tuple(rail.ports), text=text, evidence=evidence.lines())


def smallest_range(subnets: Iterable[IPv4Network]) -> IPv4Network:
    """The smallest subnet that holds all of these."""
    first, *others = sorted(subnets)
    whole = first
    while not all(subnet.subnet_of(whole) for subnet in others):
        whole = whole.supernet()
    return whole


def _with_common_ranges(networks: Mapping[str, RailNetwork]) -> dict[str, RailNetwork]:
    """The same, where the ranges of routed rails that overlap are one range for all of these."""
    ranges: list[IPv4Network] = []
    for network in networks.values():
        if network.routed:
            ranges.append(network.range)
    whole: list[IPv4Network] = []
    for subnet in sorted(ranges):  # two subnets overlap only when one holds the other
        if not any(subnet.subnet_of(other) for other in whole):
            whole.append(subnet)
    common = {}
    for name, network in networks.items():
        holders = [subnet for subnet in whole if network.routed and network.range.subnet_of(subnet)]
        common[name] = replace(network, range=holders[0]) if holders else network
    return common


def _refuse_shared_subnets(
    networks: Mapping[str, RailNetwork], plan: DraftPlan
) -> dict[str, RailNetwork]:
    """A lab file cannot describe NICs of a host in one subnet: they answer for each other."""
    by_range: dict[IPv4Network, list[str]] = defaultdict(list)
    for name, network in networks.items():
        if not network.routed:
            by_range[network.range].append(name)
    refused: list[str] = []
    for subnet, rails in by_range.items():
        if len(rails) > 1:
            ports: list[RailPort] = []
            for name in rails:
                ports += networks[name].ports.values()
            plan.questions.append(_one_subnet(subnet, ports))
            refused += rails
    return {name: network for name, network in networks.items() if name not in refused}


def ask_about_shared_subnets(ports: Iterable[RailPort], plan: DraftPlan) -> None:
    """Asks about ports on no rail that share a subnet, which may be why they lack evidence."""
    by_subnet: dict[IPv4Network, list[RailPort]] = defaultdict(list)
    for port in sorted(ports, key=lambda port: (port.node, port.pci)):
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
    rows = []
    for node, own in by_node.items():
        rows.append(f"{node}: {', '.join(own)}")
    if len(rows) > FEW:
        rows[FEW:] = [f"and {len(rows) - FEW} more nodes"]
    interfaces = some(sorted({port.interface for port in ports}), 8)
    return Question(
        code="one-subnet",
        nodes=tuple(by_node),
        text=f"{interfaces} are all in {subnet}, and a lab file has one subnet per rail. Which "
        "interface gets which new subnet?",
        evidence=(*rows, *WHY_AND_HOW),
    )

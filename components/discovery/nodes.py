"""Rails and nodes of a draft, spelled out: what the inventory says of them, and why a node is left alone.

A node is active only where the draft says what the node already is. Anything else would be a change that nobody has
asked for, so such a node is `drained`: known, and left alone.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, ip_address
from typing import Any

from pydantic import ValidationError

from components.discovery.ports import RailPort
from components.discovery.questions import Evidence, Notice, Question
from components.discovery.rails import RailOfPorts
from components.inventory.model import Host, Inventory
from components.inventory.reading import majority
from stacks.nodes import MOST_VFS, BareMetal

Entry = dict[str, Any]
LINK_PREFIX = 30
"""From this prefix length on, a subnet is one cable's."""
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(slots=True)
class Plan:
    """The flat draft as it grows."""

    rails: list[Entry] = field(default_factory=list)
    nodes: list[Entry] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Name of the node by that of the host in the inventory."""
    servers: dict[str, str] = field(default_factory=dict)
    """Server class by name of the node."""
    rdma_namespaces: str | None = None
    """What most hosts have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Network:
    """The host side of a rail."""

    range: IPv4Network
    mtu_bytes: int
    routed: bool
    """Whether each PF has a gateway of its own."""
    ports: Mapping[str, RailPort]
    """Those whose address fits, by host."""
    odd: Mapping[str, str]
    """Why a port has no place in it, by host."""


def plan_of(inventory: Inventory, rails: Sequence[RailOfPorts], asked: Iterable[RailPort]) -> Plan:
    """Rails and nodes of the hosts that were read.

    Args:
        inventory: what was read.
        rails: those that are decided.
        asked: ports that a question is open about.
    """
    plan = Plan(rdma_namespaces=majority(host.system.rdma_namespaces for host in inventory.hosts))
    networks = {}
    for rail in rails:
        if (network := _network_of(rail, plan)) is not None:
            networks[rail.name] = network
    networks = _refuse_shared_subnets(_with_common_ranges(networks), plan)
    for name, network in networks.items():
        plan.rails.append({"name": name, "mtu_bytes": network.mtu_bytes, "host_subnet": str(network.range)})
    _add_nodes(inventory, networks, list(asked), plan)
    used = {pf["rail"] for node in plan.nodes for pf in node["pfs"]}
    plan.rails = [rail for rail in plan.rails if rail["name"] in used]
    return plan


# rails


def _network_of(rail: RailOfPorts, plan: Plan) -> _Network | None:
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
    return _Network(
        range=_smallest_range(subnets),
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


def _smallest_range(subnets: Iterable[IPv4Network]) -> IPv4Network:
    found = sorted(subnets)
    whole = found[0]
    while not all(subnet.subnet_of(whole) for subnet in found):
        whole = whole.supernet()
    return whole


def _with_common_ranges(networks: dict[str, _Network]) -> dict[str, _Network]:
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
                    whole = _smallest_range([first, second])
                    found |= {
                        name: _with_range(network, whole)
                        for name, network in found.items()
                        if name in routed and network.range.overlaps(whole)
                    }
                    changed = True
    return found


def _with_range(network: _Network, whole: IPv4Network) -> _Network:
    return _Network(
        range=whole, mtu_bytes=network.mtu_bytes, routed=network.routed, ports=network.ports, odd=network.odd
    )


def _refuse_shared_subnets(networks: dict[str, _Network], plan: Plan) -> dict[str, _Network]:
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


# nodes


def _add_nodes(
    inventory: Inventory,
    networks: Mapping[str, _Network],
    asked: Sequence[RailPort],
    plan: Plan,
) -> None:
    node_names = _names_of(inventory)
    gpus = _gpus_of(inventory)
    columns = Counter((port.server, port.pci) for port in asked)
    sizes: Counter[str] = Counter()
    server_of: dict[str, str] = {}
    for network in networks.values():
        server_of |= {host: port.server for host, port in network.ports.items()}
    sizes.update(server_of.values())
    slots = {host: {n.ports[host].pci for n in networks.values() if host in n.ports} for host in server_of}
    usual = _usual_slots(slots, server_of)
    alone: dict[str, list[str]] = defaultdict(list)
    for port in asked:
        # a question about a whole slot is one about all nodes; one about a few nodes leaves these alone
        if columns[port.server, port.pci] * 2 < sizes[port.server]:
            alone[port.node].append(f"{port.interface} is in question")
    drained: dict[str, list[str]] = defaultdict(list)
    for host in inventory.hosts:
        if host.unread:
            continue
        name, carrier = node_names.get(host.name, ""), _management_interface(host)
        if lacking := _lack(host, name, carrier):
            plan.questions.append(
                Question(code="no-node", nodes=(host.name,), text=f"{host.name} is left out: {lacking}")
            )
            continue
        pfs = [
            _pf(rail, network, network.ports[host.name])
            for rail, network in networks.items()
            if host.name in network.ports
        ]
        if not pfs:
            text = "it has no port on a rail that is decided"
            plan.notices.append(Notice(code="no-rail", nodes=(host.name,), text=text))
            continue
        why = [*alone[host.name], *_deviations(host, networks, plan.rdma_namespaces)]
        missing = (
            usual[server_of[host.name]] - slots[host.name] - {port.pci for port in asked if port.node == host.name}
        )
        why += [f"nothing usable at {pci}, where its peers have a rail" for pci in sorted(missing) if not why]
        node: Entry = {
            "name": name,
            **({"state": "drained"} if why else {}),
            "address": host.address,
            **({"ssh_port": host.ssh_port} if host.ssh_port != 22 else {}),
            "management_interface": carrier,
            "gpus": gpus(host),
            "pfs": pfs,
        }
        if refusal := _refusal(node):
            plan.questions.append(
                Question(code="no-node", nodes=(host.name,), text=f"{host.name} is left out: {refusal}")
            )
            continue
        for reason in why:
            drained[reason].append(host.name)
        plan.names[host.name] = name
        plan.servers[name] = server_of[host.name]
        plan.nodes.append(node)
    for reason, hosts in drained.items():
        plan.notices.append(
            Notice(code="drained", nodes=tuple(hosts), text=f"{reason}; the draft leaves it alone (drained)")
        )


def _refusal(node: Entry) -> str:
    """What a lab file does not take of a node, such as a name that is too long; empty where it takes all."""
    try:
        BareMetal.model_validate_json(json.dumps(node), strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _lack(host: Host, name: str, carrier: str) -> str:
    """Why a host cannot be a node; empty where it can."""
    if not name:
        return "it has no name of its own that is a DNS label"
    if not carrier:
        return "the interface that SSH arrives on is unknown"
    return ""


def _usual_slots(slots: Mapping[str, set[str]], server_of: Mapping[str, str]) -> dict[str, set[str]]:
    """The slots with a rail that most nodes of each server class have."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    sizes = Counter(server_of.values())
    for host, found in slots.items():
        counts[server_of[host]].update(found)
    return {
        server: {pci for pci, count in counts[server].items() if count * 2 > size} for server, size in sizes.items()
    }


def _pf(rail: str, network: _Network, port: RailPort) -> Entry:
    return {
        "rail": rail,
        "pci": port.pci,
        "interface": port.interface,
        **({"driver": port.driver} if port.driver != "mlx5_core" else {}),
        "address": str(port.address),
        **({"gateway": port.gateway} if network.routed else {}),
        "vfs": min(port.vfs or 0, MOST_VFS[port.driver]),
        "rdma_device": port.rdma_device,
    }


def _deviations(host: Host, networks: Mapping[str, _Network], namespaces: str | None) -> Iterator[str]:
    """What an `up` would change on a node, so that it is left alone."""
    for rail, network in networks.items():
        if reason := network.odd.get(host.name):
            yield f"{rail}: {reason}"
        port = network.ports.get(host.name)
        if port is None:
            continue
        if port.mtu_bytes != network.mtu_bytes:
            yield f"{rail}: MTU {port.mtu_bytes or 'unknown'}, and {network.mtu_bytes} at its peers"
        if port.carrier is False:
            yield f"{rail}: {port.interface} has no link"
        if port.vfs is None:
            yield f"{rail}: how many VFs {port.interface} has is unknown"
    own = host.system.rdma_namespaces.value
    if own is not None and own != namespaces:
        yield f"RDMA namespaces are {own}, and {namespaces or 'mixed'} at its peers"


def _management_interface(host: Host) -> str:
    for found in (host.carriers.ssh, host.carriers.default_route):
        if len(names := found.or_else(())) == 1:
            return names[0]
    return ""


def _names_of(inventory: Inventory) -> dict[str, str]:
    """The node of each host: as the cluster calls it, else as it was given, else as it calls itself."""
    in_cluster: dict[str, str] = {}
    for node in inventory.cluster.nodes.or_else(()) if inventory.cluster else ():
        in_cluster |= dict.fromkeys((node.name, *node.internal_ips), node.name)
    found: dict[str, str] = {}
    taken: set[str] = set()
    for host in inventory.hosts:
        own = host.system.hostname.or_else("")
        given = [in_cluster.get(host.name, ""), in_cluster.get(host.address, ""), in_cluster.get(own, "")]
        if not _is_address(host.name):
            given.append(host.name.partition(".")[0].lower())
        given.append(own.partition(".")[0].lower())
        name = next((each for each in given if NAME.fullmatch(each)), "")
        if name and name not in taken:
            found[host.name] = name
            taken.add(name)
    return found


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _gpus_of(inventory: Inventory) -> Any:
    """How many GPUs a worker may take on a host: what the cluster offers, else what is plugged in."""
    offered: dict[str, int] = {}
    for node in inventory.cluster.nodes.or_else(()) if inventory.cluster else ():
        if (count := node.capacity.get(GPU_RESOURCE, "")).isdecimal():
            offered |= dict.fromkeys((node.name, *node.internal_ips), int(count))

    def gpus(host: Host) -> int:
        found = offered.get(host.name, offered.get(host.address, len(host.gpus.or_else(()))))
        return min(found, 16)

    return gpus

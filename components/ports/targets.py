"""The connections that prove a row: from each machine of a role to those of another. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address
from itertools import product
from typing import TypeVar
from urllib.parse import urlsplit

from components.kubernetes.client import KubernetesApi
from components.ports.matrix import PortRow, Role, port_matrix
from stacks.base import LabError
from stacks.bitfusion import way_to
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.nodes import Node

Machine = TypeVar("Machine")

ALL_PAIRS = 16
"""Up to so many machines of one role all try each other; of more, each tries a few: pairs grow
quadratically."""


def pairs(machines: Sequence[Machine]) -> Iterator[tuple[Machine, Machine]]:
    """The pairs to try: all, or of many machines those 1, 2, 4, ... places apart in a circle.

    Each machine is both source and target. The distances cover neighbors in a rack and machines far
    apart.
    """
    many = len(machines)
    further = steps(many) if many > ALL_PAIRS else range(1, many)
    for place, machine in enumerate(machines):
        for step in further:
            yield machine, machines[(place + step) % many]


def steps(many: int) -> list[int]:
    """Distances in the list at which each machine picks its peers: 1, 2, 4, ..."""
    return [1 << power for power in range((many - 1).bit_length())]


Place = tuple[str, int]
"""Name or address, and port."""


def server_of(kubeconfig: str) -> Place:
    """The server of the current context.

    Raises:
        LabError: when there is none, or a proxy is in between, so that a connection would prove
            nothing.
    """
    with KubernetesApi(kubeconfig) as api:
        if api.proxied:
            raise LabError(
                "the kubeconfig or the environment sets a proxy to the server; check with kubectl "
                "get nodes"
            )
        server = urlsplit(api.server)
    try:
        port = server.port or (80 if server.scheme == "http" else 443)
    except ValueError:
        raise LabError("the kubeconfig's server has no valid port") from None
    if not server.hostname:
        raise LabError("the kubeconfig's current context has no server")
    return server.hostname, port


def only_here(place: Place) -> bool:
    """Whether the address is local to this machine, such as the end of a tunnel."""
    try:
        return place[0] == "localhost" or ip_address(place[0]).is_loopback
    except ValueError:
        return False


HERE = ""
"""This machine, instead of a node's name."""
UNASKED_API = "the kubeconfig has its address; check with kubectl get nodes"
ELSEWHERE: dict[Role, str] = {
    "esxi": "an ESXi host; check with nc -z there, and PVRDMA's path with vmkping -d -s SIZE",
    "vcenter": "the vCenter; check with nc -z there",
    "api": "the control planes; check with kubectl logs and kubectl exec",
}
OF_NODES: frozenset[Role] = frozenset({"node", "control_plane", "worker", "client"})


@frozen
class Probe:
    row: PortRow
    source: str
    """Node, other machine, or `HERE`."""
    target: str
    """Name of the target, for messages."""
    address: str
    port: int


@frozen
class Unproven:
    """A row that no connection can prove, with the reason."""

    row: PortRow
    why: str


def probes(lab: Lab, api: Place | str = UNASKED_API) -> tuple[list[Probe], list[Unproven]]:
    """Connections to try, and rows that need another check.

    Args:
        lab: the lab.
        api: the API server's address, or why it is unknown.
    """
    tried: list[Probe] = []
    left: list[Unproven] = []
    for row in port_matrix(lab):
        if why := _unprovable(lab, row, api):
            left.append(Unproven(row=row, why=why))
            continue
        count = len(tried)
        for source, target, address in _ways(lab, row, api):
            for port in _ports(lab, row, target, api):
                probe = Probe(row=row, source=source, target=target, address=address, port=port)
                tried.append(probe)
        if len(tried) == count:
            left.append(Unproven(row=row, why=f"there is no second {row.target} to connect to"))
    return tried, left


def thinned(lab: Lab) -> list[str]:
    """A line per row of which only some pairs of machines are tried."""
    lines = []
    for row in port_matrix(lab):
        many = len(members(lab, row.source))
        if row.source == row.target and many > ALL_PAIRS and not _unprovable(lab, row, UNASKED_API):
            lines.append(
                f"{row}: each of {many} tries {len(steps(many))} others (1, 2, 4, ... places "
                "further in the lab file), "
                f"not all {many - 1}"
            )
    return lines


def members(lab: Lab, role: Role) -> list[Node]:
    """The nodes of a role; empty for other machines."""
    match role:
        case "node":
            return list(lab.active_nodes)
        case "control_plane" | "worker":
            return [node for node in lab.active_nodes if node.role == role]
        case "client":
            names = lab.bitfusion_client.nodes if lab.bitfusion_client else ()
            return [node for node in lab.active_nodes if node.name in names]
    return []


def _ways(lab: Lab, row: PortRow, api: Place | str) -> Iterator[tuple[str, str, str]]:
    """Source, and name and address of the target, for every machine of the row's role."""
    if row.target not in OF_NODES:
        yield from _ways_to_servers(lab, row, api)
    elif row.source == "admin":
        yield from ((HERE, node.name, str(node.address)) for node in members(lab, row.target))
    elif row.network == "rail":
        for rail in lab.rails:
            for node, peer in _pairs(lab, row, rail.name):
                if pf := peer.pf_on(rail.name):
                    yield node.name, f"{peer.name} {pf.interface}", str(pf.address.ip)
    else:
        for node, peer in _pairs(lab, row):
            yield node.name, peer.name, str(peer.address)


def _ways_to_servers(lab: Lab, row: PortRow, api: Place | str) -> Iterator[tuple[str, str, str]]:
    if row.source == "admin":
        for name, address in _servers(lab, row, None, api):
            yield HERE, name, address
        return
    for source in members(lab, row.source):
        for name, address in _servers(lab, row, source, api):
            yield source.name, name, address


def _pairs(lab: Lab, row: PortRow, rail: str | None = None) -> Iterable[tuple[Node, Node]]:
    """The pairs that connect, on one rail if one is named."""
    sources, targets = members(lab, row.source), members(lab, row.target)
    if rail is not None:
        sources = [node for node in sources if node.pf_on(rail)]
        targets = [node for node in targets if node.pf_on(rail)]
    if row.source == row.target:
        return pairs(sources)
    return (pair for pair in product(sources, targets) if pair[0].name != pair[1].name)


def _unprovable(lab: Lab, row: PortRow, api: Place | str) -> str:
    if row.protocol != "tcp":
        return "an unanswered datagram proves nothing; check the firewall, or run the benchmarks"
    if row.source in ELSEWHERE:
        return f"it must come from {ELSEWHERE[row.source]}"
    if row.source != "admin" and not members(lab, row.source):
        return f"no node of the lab is a {row.source}"
    if lab.simulated and row.source != "admin" and row.network == "management":
        return "the simulator's nodes have no management network between them"
    if lab.simulated and row.target == "esxi":
        return "the simulator's ESXi hosts have no address: disks of OVAs go to its vCenter"
    return _unknown(row, api) if row.target == "api" else ""


def _unknown(row: PortRow, api: Place | str) -> str:
    """Why the API server's address is unknown; empty when it is known."""
    if isinstance(api, str):
        return api
    if row.source != "admin" and only_here(api):
        return (
            f"the kubeconfig names {api[0]}, which is local to each node; check with "
            "kubectl get nodes"
        )
    return ""


def _servers(
    lab: Lab, row: PortRow, source: Node | None, api: Place | str
) -> Iterator[tuple[str, str]]:
    """Name and address of the row's targets that are no nodes, seen from a node or from here."""
    if row.target == "api" and not isinstance(api, str):
        yield f"API server {api[0]}", api[0]
    if row.target == "vcenter" and lab.fabric:
        yield "the vCenter", lab.fabric.vcenter
    if row.target == "esxi" and lab.bitfusion:
        hosts = dict.fromkeys(server.host for server in lab.bitfusion.servers)
        yield from ((f"ESXi host {host}", host) for host in hosts)
    if row.target == "licence" and lab.licence:
        yield "the license service", str(lab.licence.server)
    if row.target == "bitfusion" and source is not None:
        ways = (way_to(server, source) for server in lab.bitfusion_addresses)
        yield from ((f"Bitfusion server {way[1]}", str(way[1])) for way in ways if way)
    if row.target == "switch":
        yield from ((switch.name, str(switch.address)) for switch in lab.switches if switch.apply)
    if row.target == "server":
        listed = (server.rpartition(":") for server in lab.ports.extra_servers)
        yield from ((name, name) for name, _, port in listed if int(port) == row.first)


def _ports(lab: Lab, row: PortRow, name: str, api: Place | str) -> list[int]:
    """First and last port of the row; SSH ports differ per node, and the kubeconfig has its own."""
    if row.target == "api" and not isinstance(api, str):
        return [api[1]]
    ports = list(dict.fromkeys((row.first, row.last)))
    if row.source == "admin" and row.target == "node":
        of_node = set()
        for node in lab.nodes:
            if node.name == name:
                of_node.add(node.ssh_port)
        return [port for port in ports if port in of_node]
    return ports

"""Which connections prove a row: from one machine of a role to the machines of another. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from components.ports.matrix import PortRow, Role, port_matrix
from stacks.base import LabError
from stacks.bitfusion import way_to
from stacks.lab import Lab
from stacks.nodes import Node

HERE = ""
"""The machine on which this runs, in the place of a node's name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probe:
    """One connection to try."""

    row: PortRow
    source: str
    """Node that connects, or `HERE`."""
    target: str
    """For people."""
    address: str
    port: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Unproven:
    """A row that no connection of ours can prove, and why."""

    row: PortRow
    why: str


def probes(lab: Lab) -> tuple[list[Probe], list[Unproven]]:
    """Connections to try, and rows that have to be checked otherwise."""
    tried: list[Probe] = []
    left: list[Unproven] = []
    for row in port_matrix(lab):
        if why := _unprovable(lab, row):
            left.append(Unproven(row=row, why=why))
            continue
        found = [
            Probe(row=row, source=source, target=name, address=address, port=port)
            for source, others in _ways(lab, row)
            for name, address in _addresses(lab, row, source)
            if others is None or name.split()[0] == others
            for port in dict.fromkeys((row.first, row.last))
            if _is_its_port(lab, row, name, port)
        ]
        tried += found
        if not found:
            left.append(Unproven(row=row, why=f"there is no second {row.target} to connect to"))
    return tried, left


def members(lab: Lab, role: Role) -> list[Node]:
    """The nodes of a role; empty for what is no node."""
    match role:
        case "node":
            return list(lab.active_nodes)
        case "control_plane" | "worker":
            return [node for node in lab.active_nodes if node.role == role]
        case "client":
            names = lab.bitfusion_client.nodes if lab.bitfusion_client else ()
            return [node for node in lab.active_nodes if node.name in names]
    return []


def _ways(lab: Lab, row: PortRow) -> Iterator[tuple[str, str | None]]:
    """From one machine of the role to all others; and from a second to the first alone, which has firewalls too."""
    if row.source == "admin":
        yield HERE, None
        return
    first, *others = [node.name for node in members(lab, row.source)]
    yield first, None
    if others and first in {node.name for node in members(lab, row.target)}:
        yield others[0], first


def _unprovable(lab: Lab, row: PortRow) -> str:
    if row.protocol != "tcp":
        return "a datagram that nobody answers proves nothing: look at the firewall, or run the benchmarks"
    if "api" in (row.source, row.target):
        return "the kubeconfig says where it answers: kubectl get nodes proves it"
    if row.source in ("esxi", "vcenter"):
        return f"it would have to come from {'an ESXi host' if row.source == 'esxi' else 'the vCenter'}: nc -z there"
    if row.source != "admin" and not members(lab, row.source):
        return f"no node of the lab is a {row.source}"
    if lab.simulated and row.source != "admin" and row.network == "management":
        return "the simulator's nodes have no management network among themselves"
    return ""


def _addresses(lab: Lab, row: PortRow, source: str) -> Iterator[tuple[str, str]]:
    """Name and address of each machine of the target's role, the source left out."""
    for node in members(lab, row.target):
        if node.name == source:
            continue
        if row.network == "rail":
            peer = next(other for other in lab.nodes if other.name == source)
            shared = [pf for pf in node.pfs if peer.pf_on(pf.rail)]
            yield from ((f"{node.name} {pf.interface}", str(pf.address.ip)) for pf in shared)
        else:
            yield node.name, str(node.address)
    if row.target == "vcenter" and lab.fabric:
        yield "the vCenter", lab.fabric.vcenter
    if row.target == "licence" and lab.licence:
        yield "the licence service", str(lab.licence.server)
    if row.target == "bitfusion" and lab.bitfusion_client:
        client = next(node for node in lab.nodes if node.name == source)
        ways = (way_to(server, client) for server in lab.bitfusion_addresses)
        yield from ((f"Bitfusion server {way[1]}", str(way[1])) for way in ways if way)
    if row.target == "switch":
        yield from ((switch.name, str(switch.address)) for switch in lab.switches if switch.apply)
    if row.target == "server":
        pairs = (server.rpartition(":") for server in lab.ports.extra_servers)
        yield from ((name, name) for name, _, port in pairs if int(port) == row.first)


def _is_its_port(lab: Lab, row: PortRow, name: str, port: int) -> bool:
    """Whether a machine has this very port: nodes may have their SSH on different ones."""
    if row.source != "admin" or row.target != "node":
        return True
    found = next((node for node in lab.nodes if node.name == name), None)
    if found is None:
        raise LabError(f"{name} is no node")
    return found.ssh_port == port

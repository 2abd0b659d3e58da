"""The port matrix of a lab: a row per kind of connection, derived from the lab file.

Rows name roles instead of machines, so the matrix of 256 nodes is as long as that of two.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from components.finding import table
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.licence import NLS_PORT, LegacyLicence

Role = Literal[
    "admin", "node", "control_plane", "api", "worker", "client", "esxi", "vcenter", "licence",
    "bitfusion", "switch", "time", "server",
]  # fmt: skip
Protocol = Literal["tcp", "udp", "ip"]
Listens = Literal["always", "on demand"]

ROLES: dict[Role, str] = {
    "admin": "where pulumi runs",
    "node": "every node of the lab",
    "control_plane": "nodes of role control_plane",
    "api": "control planes outside the lab; the kubeconfig has their address",
    "worker": "nodes of role worker",
    "client": "nodes that are Bitfusion clients",
    "esxi": "ESXi hosts of the fabric",
    "vcenter": "the vCenter",
    "licence": "the license service of vGPU drivers",
    "bitfusion": "Bitfusion servers",
    "switch": "switches that the lab configures",
    "time": "time servers of the lab",
    "server": "further servers of the lab (ports.extra_servers)",
}

API_PORT = 6443
PVRDMA_PORTS = (28250, 28761)
"""ESXi's ruleset `pvrdma`. The vSphere RDG and the Bitfusion article name only the first of the
512."""
BITFUSION_PORT = 56001
ROCE_PORT = 4791
EPHEMERAL = (32768, 60999)
"""Linux' default `ip_local_port_range`: MPI's and NCCL's own connections listen there."""


@dataclass(frozen=True, slots=True)
class PortRow:
    """A range of ports between two roles, with the reason."""

    source: Role
    target: Role
    protocol: Protocol
    first: int
    last: int
    why: str
    network: Literal["management", "rail"] = "management"
    listens: Listens = "always"
    """on demand: nothing listens most of the time, so a refused connection passes the check."""

    @property
    def ports(self) -> str:
        if self.first == self.last:
            return str(self.first)
        return f"{self.first}-{self.last}"

    def __str__(self) -> str:
        return f"{self.source} -> {self.target} {self.protocol} {self.ports}"


def port_matrix(lab: Lab) -> tuple[PortRow, ...]:
    """Every row, in the order of the layers; the same lab gives the same rows."""
    rows = (
        *_fabric(lab),
        *_servers(lab),
        *_hosts(lab),
        *_cluster(lab),
        *_rails(lab),
        *_guests(lab),
    )
    return tuple(dict.fromkeys(rows))


def _row(  # noqa: PLR0913, PLR0917  # a line of a table
    source: Role,
    target: Role,
    protocol: Protocol,
    ports: int | tuple[int, int],
    why: str,
    network: Literal["management", "rail"] = "management",
    listens: Listens = "always",
) -> PortRow:
    first, last = (ports, ports) if isinstance(ports, int) else ports
    return PortRow(source, target, protocol, first, last, why, network, listens)


def _fabric(lab: Lab) -> Iterator[PortRow]:
    fabric = lab.fabric
    if not isinstance(fabric, Fabric):
        return
    yield _row("admin", "vcenter", "tcp", fabric.port, "vSphere API")
    yield _row("vcenter", "esxi", "tcp", 443, "host management, and disks of templates")
    yield _row("vcenter", "esxi", "tcp", 902, "host agent")
    yield _row("esxi", "vcenter", "udp", 902, "heartbeats of hosts")
    yield _row(
        "esxi",
        "esxi",
        "tcp",
        PVRDMA_PORTS,
        "PVRDMA's control traffic, between vmkernel adapters",
        "rail",
    )


def _servers(lab: Lab) -> Iterator[PortRow]:
    if lab.bitfusion is not None and lab.fabric is not None:
        # the lease's URLs name the host itself (HttpNfcLeaseDeviceUrl)
        yield _row(
            "admin",
            "esxi",
            "tcp",
            443,
            "disks of OVAs: they go to the host itself, and not through the vCenter",
        )
        yield _row(
            "bitfusion", "vcenter", "tcp", lab.fabric.port, "Bitfusion: a server registers itself"
        )
        yield _row(
            "vcenter",
            "bitfusion",
            "tcp",
            BITFUSION_PORT,
            "Bitfusion: the vCenter's plug-in asks the servers",
        )


def _hosts(lab: Lab) -> Iterator[PortRow]:
    for port in dict.fromkeys(node.ssh_port for node in lab.active_nodes):
        yield _row("admin", "node", "tcp", port, "SSH: all work on nodes")
    for port in dict.fromkeys(switch.ssh_port for switch in lab.switches if switch.apply):
        yield _row("admin", "switch", "tcp", port, "SSH: the switch's configuration")
    if lab.system.clock and lab.system.clock.servers:
        yield _row("node", "time", "udp", 123, "NTP")
    for port in dict.fromkeys(int(server.rpartition(":")[2]) for server in lab.ports.extra_servers):
        yield _row("node", "server", "tcp", port, "ports.extra_servers")


def _cluster(lab: Lab) -> Iterator[PortRow]:
    cluster = lab.cluster
    if cluster is None:
        return
    planes = [node for node in lab.active_nodes if node.role == "control_plane"]
    plane: Role = "control_plane" if planes else "api"
    yield _row("admin", plane, "tcp", API_PORT, "Kubernetes API")
    yield _row("node", plane, "tcp", API_PORT, "Kubernetes API, for kubelets and agents")
    if len(planes) > 1:
        yield _row("control_plane", "control_plane", "tcp", (2379, 2380), "etcd, clients and peers")
    yield _row(plane, "node", "tcp", 10250, "kubelet: logs, exec, metrics")
    network = _pod_network(lab, cluster)
    match network:
        case "flannel":
            yield _row("node", "node", "udp", 8472, "pod network: flannel's VXLAN")
        case "calico_bgp":
            yield _row("node", "node", "tcp", 179, "pod network: Calico's BGP")
        case "calico_ipip":
            yield _row("node", "node", "tcp", 179, "pod network: Calico's BGP")
            yield _row(
                "node", "node", "ip", 4, "pod network: Calico's IP-in-IP (a protocol, not a port)"
            )
        case "calico_vxlan":
            yield _row("node", "node", "udp", 4789, "pod network: Calico's VXLAN")
    if lab.ports.typha and network.startswith("calico"):
        yield _row("node", "node", "tcp", 5473, "Calico's Typha")


def _pod_network(lab: Lab, cluster: Cluster) -> str:
    if cluster.bootstrap is not None and cluster.bootstrap.cni == "flannel":
        return "flannel"
    return lab.ports.pod_network


def _rails(lab: Lab) -> Iterator[PortRow]:
    if not any(node.pfs for node in lab.active_nodes):
        return
    yield _row("worker", "worker", "udp", ROCE_PORT, "RoCE v2", "rail", "on demand")
    benchmarks = lab.benchmarks
    if benchmarks is None:
        return
    first = benchmarks.verbs.first_port
    ports = (first, first + len(lab.rails) - 1)
    yield _row(
        "worker", "worker", "tcp", ports, "perftest connects to its peer", "rail", "on demand"
    )
    if (
        lab.cluster
        and isinstance(lab.cluster.delivery, Pvrdma)
        and (benchmarks.nccl or benchmarks.application)
    ):
        why = "MPI starts its ranks over sshd, in the host's network"
        yield _row(
            "worker", "worker", "tcp", lab.cluster.delivery.ssh_port, why, listens="on demand"
        )
        yield _row(
            "worker", "worker", "tcp", EPHEMERAL, "MPI and NCCL between ranks", listens="on demand"
        )


def _guests(lab: Lab) -> Iterator[PortRow]:
    if lab.licence is not None:
        port = NLS_PORT
        if isinstance(lab.licence, LegacyLicence):
            port = lab.licence.port
        yield _row("worker", "licence", "tcp", port, "licenses of vGPU drivers")
    if lab.bitfusion_client is not None:
        yield _row(
            "client", "bitfusion", "tcp", BITFUSION_PORT, "Bitfusion: GPUs on request", "rail"
        )
        yield _row("client", "bitfusion", "udp", ROCE_PORT, "RoCE v2", "rail", "on demand")


def as_markdown(lab: Lab) -> str:
    """A document for the administrator of the firewalls."""
    rows = port_matrix(lab)
    used = {row.source for row in rows} | {row.target for row in rows}
    head = ("from", "to", "protocol", "port", "network", "why")
    cells = []
    for row in rows:
        why = f"{row.why}; open on demand" if row.listens == "on demand" else row.why
        cells.append((row.source, row.target, row.protocol, row.ports, row.network, why))
    lines = [f"# Ports of lab {lab.name}", "", *table(head, cells)]
    lines += (f"- **{role}**: {ROLES[role]}" for role in ROLES if role in used)
    return "\n".join(lines) + "\n"


def as_json(lab: Lab) -> str:
    rows: list[JsonValue] = []
    for row in port_matrix(lab):
        rows.append(
            {
                "from": row.source,
                "to": row.target,
                "protocol": row.protocol,
                "first": row.first,
                "last": row.last,
                "network": row.network,
                "listens": row.listens,
                "why": row.why,
            }
        )
    return json.dumps({"lab": lab.name, "rows": rows}, indent=2) + "\n"


def output_lines(lab: Lab) -> list[str]:
    """One line per row, however many nodes there are."""
    return [f"{row}: {row.why}" for row in port_matrix(lab)]

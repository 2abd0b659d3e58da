"""Rails and nodes of a draft, spelled out, and why a node is left alone.

A node is active only where the draft says what the node already is. Anything else would be a change
that you have not asked for, so such a node is `drained`: known, and left alone.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, ip_address

from pydantic import ValidationError

from components.discovery.candidates import RailPort
from components.discovery.infer_rails import RailOfPorts
from components.discovery.questions import DraftPlan, Entry, Question
from components.discovery.rail_networks import RailNetwork, ask_about_shared_subnets, networks_of
from components.inventory.kube import KubeNodes
from components.inventory.model import Host, Inventory
from components.inventory.reading import majority
from stacks.nodes import MOST_VFS, BareMetal

NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
GPU_RESOURCE = "nvidia.com/gpu"


def plan_of(
    inventory: Inventory,
    rails: Sequence[RailOfPorts],
    in_question: Iterable[RailPort],
    host_subnets: Mapping[str, IPv4Network],
) -> DraftPlan:
    """Rails and nodes of the hosts that were read.

    Args:
        inventory: what was read.
        rails: those that are decided.
        in_question: ports that a question is open about.
        host_subnets: where rails without any address get theirs from, as answered.
    """
    plan = DraftPlan(
        rdma_namespaces=majority(host.system.rdma_namespaces for host in inventory.hosts)
    )
    networks = networks_of(rails, host_subnets, plan)
    open_ports = list(in_question)
    ask_about_shared_subnets(open_ports, plan)
    _Nodes(inventory, networks, open_ports, plan).add()
    used = {pf["rail"] for node in plan.nodes for pf in node["pfs"]}
    for name, network in networks.items():
        if name in used:
            subnet = str(network.range)
            rail = {"name": name, "mtu_bytes": network.mtu_bytes, "host_subnet": subnet}
            plan.rails.append(rail)
    return plan


class _Nodes:
    """The nodes of all hosts that were read."""

    def __init__(
        self,
        inventory: Inventory,
        networks: Mapping[str, RailNetwork],
        in_question: Sequence[RailPort],
        plan: DraftPlan,
    ) -> None:
        self._hosts = [host for host in inventory.hosts if not host.unread]
        self._networks = networks
        self._in_question = in_question
        self._plan = plan
        self._in_cluster = KubeNodes(inventory.cluster)
        self._names = _names_of(inventory, self._in_cluster)
        self._servers: dict[str, str] = {}
        self._slots: dict[str, set[str]] = defaultdict(set)
        for network in networks.values():
            for host, port in network.ports.items():
                self._servers[host] = port.server
                self._slots[host].add(port.pci)

    def add(self) -> None:
        """Adds each node to the plan, and what was noticed of several of them once."""
        drained: dict[str, list[str]] = defaultdict(list)
        owned: dict[str, list[str]] = defaultdict(list)
        in_question, usual = self._reasons_by_host(), self._usual_slots()
        for host in self._hosts:
            namespaces = self._plan.rdma_namespaces
            reasons = in_question[host.name] + list(_deviations(host, self._networks, namespaces))
            reasons = reasons or self._missing(host, usual)
            if not self._is_added(host, drained=bool(reasons)):
                continue
            for reason in reasons:
                drained[reason].append(host.name)
            owned[host.system.rocelab_owner.or_else("")].append(host.name)
        owned.pop("", None)
        for owner, hosts in owned.items():
            text = f"configured by {owner} already, and its hosts refuse all other stacks"
            self._plan.notice("owned", text, hosts)
        for reason, hosts in drained.items():
            text = f"{reason}; the draft leaves it alone (drained)"
            self._plan.notice("drained", text, hosts)

    def _reasons_by_host(self) -> dict[str, list[str]]:
        """Ports in question, unless the question is about a whole slot, so about all nodes."""
        columns = Counter((port.server, port.pci) for port in self._in_question)
        sizes = Counter(self._servers.values())
        reasons: dict[str, list[str]] = defaultdict(list)
        for port in self._in_question:
            if columns[port.server, port.pci] * 2 < sizes[port.server]:
                reasons[port.node].append(f"{port.interface} is in question")
        return reasons

    def _usual_slots(self) -> dict[str, set[str]]:
        """The slots with a rail that most nodes of each server class have."""
        sizes = Counter(self._servers.values())
        counts: Counter[tuple[str, str]] = Counter()
        for host, slots in self._slots.items():
            counts.update((self._servers[host], pci) for pci in slots)
        usual: dict[str, set[str]] = defaultdict(set)
        for (server, pci), count in counts.items():
            if count * 2 > sizes[server]:
                usual[server].add(pci)
        return usual

    def _missing(self, host: Host, usual: Mapping[str, set[str]]) -> list[str]:
        """Slots with a rail that a host's peers have and it has not."""
        if host.name not in self._servers:
            return []
        slots = usual.get(self._servers[host.name], set()) - self._slots[host.name]
        slots -= {port.pci for port in self._in_question if port.node == host.name}
        return [f"nothing usable at {pci}, where its peers have a rail" for pci in sorted(slots)]

    def _is_added(self, host: Host, *, drained: bool) -> bool:
        """Whether a host becomes a node; if not, a question or notice says why."""
        name, carrier = self._names.get(host.name, ""), _management_interface(host)
        node: Entry = {"name": name}
        if drained:
            node["state"] = "drained"
        node["address"] = host.address
        if host.ssh_port != 22:
            node["ssh_port"] = host.ssh_port
        node |= {"management_interface": carrier, "gpus": self._gpus(host), "pfs": []}
        for rail, network in self._networks.items():
            if host.name in network.ports:
                node["pfs"].append(_pf(rail, network, network.ports[host.name]))
        refusal = _refusal(node)
        if not node["pfs"]:
            text = "it has no port on a decided rail"
            if not host.pfs.is_known:
                text = f"its NICs: {host.pfs.unknown}"
            self._plan.notice("no-rail", text, [host.name])
        elif refusal:
            text = f"{host.name} is left out: {refusal}"
            self._plan.questions.append(Question(code="no-node", nodes=(host.name,), text=text))
        else:
            self._plan.names[host.name] = name
            self._plan.servers[name] = self._servers[host.name]
            self._plan.nodes.append(node)
            return True
        return False

    def _gpus(self, host: Host) -> int:
        """How many GPUs a worker may take: what the cluster offers, else what is plugged in."""
        node = self._in_cluster.of(host)
        offered = node.capacity.get(GPU_RESOURCE, "") if node else ""
        if offered.isdecimal():
            count = int(offered)
        else:
            count = len(host.gpus.or_else(()))
        return min(count, 16)


def _refusal(node: Entry) -> str:
    """Why a host cannot be a node, such as a name that is too long; empty where it can."""
    if not node["name"]:
        return "it has no unique name that is a DNS label"
    if not node["management_interface"]:
        return "the interface that SSH arrives on is unknown"
    try:
        BareMetal.model_validate_json(json.dumps(node), strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _pf(rail: str, network: RailNetwork, port: RailPort) -> Entry:
    pf = {
        "rail": rail,
        "pci": port.pci,
        "interface": port.interface,
        "driver": port.driver,
        "address": str(port.address),
        "gateway": port.gateway,
        "vfs": min(port.vfs or 0, MOST_VFS[port.driver]),
        "rdma_device": port.rdma_device,
    }
    if port.driver == "mlx5_core":
        del pf["driver"]
    if not network.routed:
        del pf["gateway"]
    return pf


def _deviations(
    host: Host, networks: Mapping[str, RailNetwork], namespaces: str | None
) -> Iterator[str]:
    """What an `up` would change on a node, so that it is left alone."""
    for rail, network in networks.items():
        if reason := network.odd.get(host.name):
            yield f"{rail}: {reason}"
        port = network.ports.get(host.name)
        if port is None:
            continue
        if port.mtu_bytes != network.mtu_bytes:
            yield (
                f"{rail}: MTU {port.mtu_bytes or 'unknown'}, but {network.mtu_bytes} on its peers"
            )
        if port.carrier is False or (port.up is False and not network.is_given):
            yield f"{rail}: {port.interface} has no link"
        if port.vfs is None:
            yield f"{rail}: {port.interface}'s number of VFs is unknown"
    own = host.system.rdma_namespaces.value
    if own is not None and own != namespaces:
        yield f"RDMA namespaces are {own}, but {namespaces or 'mixed'} on its peers"


def _management_interface(host: Host) -> str:
    for carriers in (host.carriers.ssh, host.carriers.default_route):
        names = carriers.or_else(())
        if len(names) == 1:
            return names[0]
    return ""


def _names_of(inventory: Inventory, in_cluster: KubeNodes) -> dict[str, str]:
    """The node of each host: as the cluster calls it, else as it was given, else its host name."""
    by_host: dict[str, str] = {}
    for host in inventory.hosts:
        node = in_cluster.of(host)
        names = [node.name] if node else []
        if not _is_address(host.name):
            names.append(host.name.partition(".")[0].lower())
        names.append(host.system.hostname.or_else("").partition(".")[0].lower())
        valid = [name for name in names if NAME.fullmatch(name)]
        if valid and valid[0] not in by_host.values():
            by_host[host.name] = valid[0]
    return by_host


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True

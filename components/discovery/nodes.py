"""Rails and nodes of a draft, spelled out: what the inventory says of them, and why a node is left alone.

A node is active only where the draft says what the node already is. Anything else would be a change that you have
not asked for, so such a node is `drained`: known, and left alone.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, ip_address

from pydantic import ValidationError

from components.discovery.networks import RailNetwork, ask_about_shared_subnets, networks_of
from components.discovery.plan import DraftPlan, Entry
from components.discovery.ports import RailPort
from components.discovery.questions import Notice, Question
from components.discovery.rails import RailOfPorts
from components.inventory.kube import KubeNodes
from components.inventory.model import Host, Inventory
from components.inventory.reading import majority
from stacks.nodes import MOST_VFS, BareMetal

NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
GPU_RESOURCE = "nvidia.com/gpu"


def plan_of(
    inventory: Inventory,
    rails: Sequence[RailOfPorts],
    asked: Iterable[RailPort],
    host_subnets: Mapping[str, IPv4Network],
) -> DraftPlan:
    """Rails and nodes of the hosts that were read.

    Args:
        inventory: what was read.
        rails: those that are decided.
        asked: ports that a question is open about.
        host_subnets: where rails without any address get theirs from, as answered.
    """
    plan = DraftPlan(rdma_namespaces=majority(host.system.rdma_namespaces for host in inventory.hosts))
    networks = networks_of(rails, host_subnets, plan)
    in_question = list(asked)
    ask_about_shared_subnets(in_question, plan)
    _Nodes(inventory, networks, in_question, plan).add()
    used = {pf["rail"] for node in plan.nodes for pf in node["pfs"]}
    plan.rails = [
        {"name": name, "mtu_bytes": network.mtu_bytes, "host_subnet": str(network.range)}
        for name, network in networks.items()
        if name in used
    ]
    return plan


class _Nodes:
    """The nodes of all hosts that were read."""

    def __init__(
        self, inventory: Inventory, networks: Mapping[str, RailNetwork], asked: Sequence[RailPort], plan: DraftPlan
    ) -> None:
        self._hosts = [host for host in inventory.hosts if not host.unread]
        self._networks = networks
        self._asked = asked
        self._plan = plan
        self._in_cluster = KubeNodes(inventory.cluster)
        self._names = _names_of(inventory, self._in_cluster)
        self._servers = {host: port.server for network in networks.values() for host, port in network.ports.items()}
        self._slots = {
            host: {network.ports[host].pci for network in networks.values() if host in network.ports}
            for host in self._servers
        }
        self._usual = _usual_slots(self._slots, self._servers)
        self._alone = self._asked_alone()

    def add(self) -> None:
        """Adds each node to the plan, and what was noticed of several of them once."""
        drained: dict[str, list[str]] = defaultdict(list)
        owned: dict[str, list[str]] = defaultdict(list)
        for host in self._hosts:
            why = [*self._alone[host.name], *_deviations(host, self._networks, self._plan.rdma_namespaces)]
            why = why or list(self._missing(host))
            if not self._is_added(host, drained=bool(why)):
                continue
            for reason in why:
                drained[reason].append(host.name)
            if owner := host.system.rocelab_owner.or_else(""):
                owned[owner].append(host.name)
        for owner, hosts in owned.items():
            text = f"configured by {owner} already, and its hosts refuse all other stacks"
            self._plan.notices.append(Notice(code="owned", nodes=tuple(hosts), text=text))
        for reason, hosts in drained.items():
            text = f"{reason}; the draft leaves it alone (drained)"
            self._plan.notices.append(Notice(code="drained", nodes=tuple(hosts), text=text))

    def _asked_alone(self) -> dict[str, list[str]]:
        """Ports in question by host, unless the question is about a whole slot, so about all nodes."""
        columns, sizes = Counter((port.server, port.pci) for port in self._asked), Counter(self._servers.values())
        found: dict[str, list[str]] = defaultdict(list)
        for port in self._asked:
            if columns[port.server, port.pci] * 2 < sizes[port.server]:
                found[port.node].append(f"{port.interface} is in question")
        return found

    def _missing(self, host: Host) -> Iterator[str]:
        """Slots with a rail that a host's peers have and it has not."""
        if host.name in self._servers:
            asked = {port.pci for port in self._asked if port.node == host.name}
            for pci in sorted(self._usual[self._servers[host.name]] - self._slots[host.name] - asked):
                yield f"nothing usable at {pci}, where its peers have a rail"

    def _is_added(self, host: Host, *, drained: bool) -> bool:
        """Whether a host becomes a node; if not, a question or notice says why."""
        name, carrier = self._names.get(host.name, ""), _management_interface(host)
        node: Entry = {
            "name": name,
            **({"state": "drained"} if drained else {}),
            "address": host.address,
            **({"ssh_port": host.ssh_port} if host.ssh_port != 22 else {}),
            "management_interface": carrier,
            "gpus": self._gpus(host),
            "pfs": [
                _pf(rail, network, network.ports[host.name])
                for rail, network in self._networks.items()
                if host.name in network.ports
            ],
        }
        if not node["pfs"]:
            text = host.pfs.fold(lambda _: "it has no port on a rail that is decided", lambda why: f"its NICs: {why}")
            self._plan.notices.append(Notice(code="no-rail", nodes=(host.name,), text=text))
        elif refusal := _lack(name, carrier) or _refusal(node):
            text = f"{host.name} is left out: {refusal}"
            self._plan.questions.append(Question(code="no-node", nodes=(host.name,), text=text))
        else:
            self._plan.names[host.name] = name
            self._plan.servers[name] = self._servers[host.name]
            self._plan.nodes.append(node)
            return True
        return False

    def _gpus(self, host: Host) -> int:
        """How many GPUs a worker may take on a host: what the cluster offers, else what is plugged in."""
        node = self._in_cluster.of(host)
        offered = node.capacity.get(GPU_RESOURCE, "") if node else ""
        return min(int(offered) if offered.isdecimal() else len(host.gpus.or_else(())), 16)


def _refusal(node: Entry) -> str:
    """What a lab file does not take of a node, such as a name that is too long; empty where it takes all."""
    try:
        BareMetal.model_validate_json(json.dumps(node), strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""


def _lack(name: str, carrier: str) -> str:
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


def _pf(rail: str, network: RailNetwork, port: RailPort) -> Entry:
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


def _deviations(host: Host, networks: Mapping[str, RailNetwork], namespaces: str | None) -> Iterator[str]:
    """What an `up` would change on a node, so that it is left alone."""
    for rail, network in networks.items():
        if reason := network.odd.get(host.name):
            yield f"{rail}: {reason}"
        port = network.ports.get(host.name)
        if port is None:
            continue
        if port.mtu_bytes != network.mtu_bytes:
            yield f"{rail}: MTU {port.mtu_bytes or 'unknown'}, and {network.mtu_bytes} at its peers"
        if port.carrier is False or (port.up is False and not network.is_given):
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


def _names_of(inventory: Inventory, in_cluster: KubeNodes) -> dict[str, str]:
    """The node of each host: as the cluster calls it, else as it was given, else as it calls itself."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for host in inventory.hosts:
        own = host.system.hostname.or_else("")
        node = in_cluster.of(host)
        given = [node.name if node else ""]
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

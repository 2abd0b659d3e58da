"""The cluster of a draft: what carries the rails into pods. It is drafted only when you answer `cluster: adopt`."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Any

from pydantic import JsonValue

from components.discovery.networks import smallest_range
from components.discovery.plan import DraftPlan, Entry
from components.discovery.ports import RailPort
from components.discovery.questions import Answers, Notice, Question
from components.discovery.rails import RailOfPorts
from components.inventory.model import Attachment, Cluster, CustomObject, Inventory
from components.inventory.reading import majority
from stacks.base import LabError
from stacks.words import plural, some

NVIDIA = "15b3"


@dataclass(frozen=True, slots=True)
class _PodNetwork:
    """A NetworkAttachmentDefinition with the parts of its configuration that a lab file knows."""

    attachment: Attachment
    kind: str
    vlan_id: int | None
    ipam: Mapping[str, Any]

    @property
    def place(self) -> str:
        return f"{self.attachment.namespace}/{self.attachment.name}"


def cluster_of(inventory: Inventory, rails: Sequence[RailOfPorts], answers: Answers, plan: DraftPlan) -> Entry | None:
    """The section `cluster`, with the pod side in the plan's rails; None while the cluster is left alone.

    Raises:
        LabError: when an answer names a rail or network that is not there.
    """
    cluster = inventory.cluster
    if cluster is None or cluster.unread or answers.cluster == "leave":
        return None
    networks = _networks(cluster)
    if answers.cluster is None:
        plan.questions.append(_whether_to_adopt(cluster, networks))
        return None
    try:
        by_name = {rail.name: rail for rail in rails}
        return _adopted(
            _Adoption(
                inventory=inventory, cluster=cluster, networks=networks, rails=by_name, answers=answers, plan=plan
            )
        )
    except _LeftOutError as error:
        text = f"The cluster is left out: {error}"
        plan.questions.append(Question(code="cluster", nodes=(), text=text, answer=error.answer))
        return None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Adoption:
    """What is known of the cluster and its rails."""

    inventory: Inventory
    cluster: Cluster
    networks: Sequence[_PodNetwork]
    rails: Mapping[str, RailOfPorts]
    answers: Answers
    plan: DraftPlan


class _LeftOutError(Exception):
    """Why a cluster has no place in the draft, and the answer that helps."""

    def __init__(self, why: str, answer: str = "") -> None:
        super().__init__(why)
        self.answer = answer


def _whether_to_adopt(cluster: Cluster, networks: Sequence[_PodNetwork]) -> Question:
    agents = [
        f"{each.namespace}/{each.name}"
        for each in cluster.daemon_sets.or_else(())
        if "sriov" in each.name or "multus" in each.name
    ]
    states = len(cluster.sriov_node_states.or_else(()))
    evidence = [
        f"networks: {some([network.place for network in networks], 8) or 'none'}",
        f"agents: {some(agents, 8) or 'none'}",
        f"SR-IOV operator: {plural(states, 'node state')}",
    ]
    return Question(
        code="cluster",
        nodes=(),
        text="Should rocelab manage what carries the rails into the cluster's pods? `up` then installs its own agents.",
        evidence=tuple(evidence),
        answer="cluster: leave  # or adopt",
    )


def _networks(cluster: Cluster) -> list[_PodNetwork]:
    found = []
    for attachment in cluster.attachments.or_else(()):
        plugins = attachment.config.get("plugins")
        first = plugins[0] if isinstance(plugins, list) and plugins else attachment.config
        if not isinstance(first, dict):
            continue
        vlan, ipam = first.get("vlan"), first.get("ipam")
        found.append(
            _PodNetwork(
                attachment,
                str(first.get("type", "")),
                vlan if isinstance(vlan, int) and vlan > 0 else None,
                ipam if isinstance(ipam, dict) else {},
            )
        )
    return found


def _adopted(adoption: _Adoption) -> Entry:
    cluster, plan = adoption.cluster, adoption.plan
    chosen = _chosen(adoption)
    if not chosen:
        raise _LeftOutError("no rail has a network of its own in it")
    kinds = {network.kind for network in chosen.values()}
    if len(kinds) > 1 or not kinds <= {"sriov", "macvlan"}:
        raise _LeftOutError(f"its networks are {', '.join(sorted(kinds))}; a lab has one of sriov and macvlan")
    section: Entry = {
        **_subnets(cluster, adoption.answers),
        "namespaces": sorted({n.attachment.namespace for n in chosen.values()}),
    }
    section |= _delivery(cluster, kinds.pop(), chosen, plan)
    sources = {str(network.ipam.get("type", "none")) for network in chosen.values()}
    if len(sources) > 1 or not sources <= {"nv-ipam", "whereabouts"}:
        raise _LeftOutError(
            f"its pods get addresses by {', '.join(sorted(sources))}, which names no range: add `pod` by hand"
        )
    if sources == {"whereabouts"}:
        section["ipam"] = {"kind": "whereabouts"}
    vendor = majority(
        pf.vendor_id for host in adoption.inventory.hosts for pf in host.pfs.or_else(()) if pf.rdma.or_else(())
    )
    section |= {"rdma_vendor_ids": [vendor]} if vendor and vendor != NVIDIA else {}
    for rail in plan.rails:
        if network := chosen.get(rail["name"]):
            rail.update(_pod_side(rail["name"], network, cluster, plan))
    return section


def _chosen(adoption: _Adoption) -> dict[str, _PodNetwork]:
    """The network of each rail: as answered, else by what its VLAN or its policy says."""
    networks, answers, plan = adoption.networks, adoption.answers, adoption.plan
    by_place = {network.place: network for network in networks}
    drafted = [rail["name"] for rail in plan.rails]
    for rail, place in answers.networks.items():
        if place not in by_place or rail not in drafted:
            raise LabError(
                f"answers: networks.{rail}: {place}: no such network or rail; networks: {some(sorted(by_place), 8)}"
            )
    vlans = _rails_by_vlan(adoption.inventory, adoption.rails)
    found: dict[str, _PodNetwork] = {}
    lost = []
    for rail in drafted:
        if rail in answers.networks:
            found[rail] = by_place[answers.networks[rail]]
            continue
        own = [n for n in networks if n.vlan_id is not None and vlans.get(n.vlan_id) == {rail}]
        own += [n for n in networks if _by_policy(n, adoption.cluster, adoption.rails[rail]) and n not in own]
        if len({network.attachment.name for network in own}) == 1:
            found[rail] = own[0]
        else:
            lost.append(rail)
    if lost and networks:
        plan.questions.append(
            Question(
                code="network",
                nodes=(),
                text=f"Which networks are those of {', '.join(lost)}? Neither VLAN nor policy says so.",
                evidence=tuple(
                    f"{n.place}: {n.attachment.resource_name or 'no resource'}, VLAN {n.vlan_id}" for n in networks[:12]
                ),
                answer="networks:\n" + "\n".join(f"  {rail}: NAMESPACE/NAME" for rail in lost),
            )
        )
    return found


def _rails_by_vlan(inventory: Inventory, rails: Mapping[str, RailOfPorts]) -> dict[int, set[str]]:
    """The rails whose switch ports carry a VLAN beside that of untagged frames."""
    ports = {(switch.name, port.name): port for switch in inventory.switches for port in switch.ports.or_else(())}
    found: dict[int, set[str]] = defaultdict(set)
    for rail in rails.values():
        for one in rail.ports.values():
            port = ports.get((one.leaf.name, one.leaf.port)) if one.leaf else None
            for vlan in port.vlans.or_else(()) if port else ():
                if vlan != (port.native_vlan.value if port else None):
                    found[vlan].add(rail.name)
    return found


def _by_policy(network: _PodNetwork, cluster: Cluster, rail: RailOfPorts) -> bool:
    """Whether a policy of the SR-IOV operator cuts the network's resource from the rail's NICs."""
    resource = network.attachment.resource_name.rpartition("/")[2]
    for policy in cluster.sriov_policies.or_else(()):
        selector = policy.spec.get("nicSelector")
        if policy.spec.get("resourceName") != resource or not isinstance(selector, dict):
            continue
        names = {each.partition("#")[0] for each in _texts(selector.get("pfNames"))}
        slots = set(_texts(selector.get("rootDevices")))
        if all(_is_selected(port, names, slots) for port in rail.ports.values()):
            return True
    return False


def _texts(value: JsonValue) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _is_selected(port: RailPort, names: set[str], slots: set[str]) -> bool:
    return bool(names or slots) and (not names or port.interface in names) and (not slots or port.pci in slots)


def _subnets(cluster: Cluster, answers: Answers) -> Entry:
    """The networks of the cluster: as answered, else the smallest range of what its nodes have, and its services'."""
    pods = [ip_network(text) for node in cluster.nodes.or_else(()) for text in node.pod_cidrs]
    ranges = [subnet for subnet in pods if isinstance(subnet, IPv4Network)]
    services = [text for text in cluster.service_cidrs.or_else(()) if ":" not in text]
    found = {
        "pod_subnet": answers.pod_subnet or (smallest_range(ranges) if ranges else None),
        "service_subnet": answers.service_subnet or (services[0] if services else None),
    }
    if lacking := [key for key, subnet in found.items() if subnet is None]:
        lines = "\n".join(f"{key}: SUBNET" for key in lacking)
        raise _LeftOutError(f"its {' and '.join(lacking)} cannot be read", f"cluster: adopt\n{lines}")
    return {key: str(subnet) for key, subnet in found.items()}


def _delivery(cluster: Cluster, kind: str, chosen: Mapping[str, _PodNetwork], plan: DraftPlan) -> Entry:
    if kind == "macvlan":
        return {"delivery": {"profile": "shared_rdma"}}
    states: Sequence[CustomObject] = cluster.sriov_node_states.or_else(())
    if not states:
        return {}
    counts = {pf["vfs"] for node in plan.nodes for pf in node["pfs"]}
    prefixes = {network.attachment.resource_name.partition("/")[0] for network in chosen.values()}
    if len(counts) != 1 or len(prefixes) != 1 or counts == {0}:
        raise _LeftOutError("the SR-IOV operator gives its PFs different numbers of VFs, and a lab file has one number")
    for node in plan.nodes:
        for pf in node["pfs"]:
            pf["vfs"] = 0
    delivery = {"profile": "sriov_operator", "vfs": counts.pop(), "namespace": states[0].namespace}
    return {"delivery": {**delivery, "resource_prefix": prefixes.pop()}}


def _pod_side(rail: str, network: _PodNetwork, cluster: Cluster, plan: DraftPlan) -> Entry:
    prefix, _, resource = network.attachment.resource_name.rpartition("/")
    vfs = Counter(pf["vfs"] for node in plan.nodes for pf in node["pfs"] if pf["rail"] == rail)
    range_, first, last, block, gateway = _range_of(network, cluster, max(vfs) or 1)
    pod = {
        "vlan_id": network.vlan_id,
        "subnet": str(range_),
        "first_address": str(first),
        "last_address": str(last),
        **({"gateway": gateway} if gateway else {}),
        "addresses_per_node": block,
    }
    if network.ipam.get("type") == "whereabouts":
        plan.notices.append(Notice(code="pool", nodes=(), text=f"{rail}: addresses_per_node is its number of VFs"))
    named = (
        {"resource_name": resource, **({"resource_prefix": prefix} if prefix != "intel.com" else {})}
        if resource
        else {}
    )
    return {"pod": pod, **named, "network_name": network.attachment.name}


def _range_of(
    network: _PodNetwork, cluster: Cluster, vfs: int
) -> tuple[IPv4Network, IPv4Address, IPv4Address, int, str]:
    """Subnet, first and last address, block per node and router of a network's pool."""
    try:
        if network.ipam.get("type") == "whereabouts":
            subnet = IPv4Network(network.ipam["range"], strict=False)
            first = IPv4Address(network.ipam.get("range_start", str(subnet.network_address + 1)))
            last = IPv4Address(network.ipam.get("range_end", str(subnet.broadcast_address - 1)))
            return subnet, first, last, vfs, str(network.ipam.get("gateway", ""))
        name = network.ipam.get("poolName")
        spec = next(pool.spec for pool in cluster.ip_pools.or_else(()) if pool.name == name)
        subnet = IPv4Network(spec["subnet"])
        exclusions, block = spec.get("exclusions"), spec["perNodeBlockSize"]
        ranges = [each for each in exclusions if isinstance(each, dict)] if isinstance(exclusions, list) else []
        first, last = _outside(subnet, [(str(each["startIP"]), str(each["endIP"])) for each in ranges])
        return subnet, first, last, int(str(block)), str(spec.get("gateway", ""))
    except (StopIteration, KeyError, ValueError, TypeError):
        raise _LeftOutError(
            f"the address range of {network.place} cannot be read from its pool; add `pod` by hand"
        ) from None


def _outside(subnet: IPv4Network, exclusions: Sequence[tuple[str, str]]) -> tuple[IPv4Address, IPv4Address]:
    """The ends of a subnet without what is excluded at them."""
    first, last = subnet.network_address + 1, subnet.broadcast_address - 1
    for begin, end in sorted((IPv4Address(begin), IPv4Address(end)) for begin, end in exclusions):
        if begin <= first <= end:
            first = end + 1
        if begin <= last <= end:
            last = begin - 1
    return first, last

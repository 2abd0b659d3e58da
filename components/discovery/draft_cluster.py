"""The cluster of a draft: what carries the rails into pods, and operators that own VFs or drivers.

It is drafted only when you answer `cluster: adopt`.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from typing import Any

from pydantic import JsonValue

from components.discovery.candidates import RailPort
from components.discovery.infer_rails import RailOfPorts
from components.discovery.questions import Answers, DraftPlan, Entry, Evidence, Notice, Question
from components.discovery.rail_networks import smallest_range
from components.inventory.kube import KubeNodes, managed_pfs
from components.inventory.model import Attachment, Cluster, CustomObject, Inventory
from components.inventory.reading import majority
from stacks.base import LabError
from stacks.frozen import frozen
from stacks.words import plural, some

NVIDIA = "15b3"
OPERATED = "sriov_operator"
BACK_FROM_OPERATOR = (
    "to create them with rocelab, remove the nodes from the policies and run "
    "`rocelab discover` again"
)


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


def cluster_of(
    inventory: Inventory, rails: Sequence[RailOfPorts], answers: Answers, plan: DraftPlan
) -> Entry | None:
    """The section `cluster`, with the pod side in the plan's rails; None while it is left alone.

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
    adoption = _Adoption(
        inventory=inventory,
        cluster=cluster,
        networks=networks,
        rails={rail.name: rail for rail in rails},
        answers=answers,
        plan=plan,
    )
    try:
        return _adopted(adoption)
    except _LeftOutError as error:
        text = f"The cluster is left out: {error}"
        plan.questions.append(Question(code="cluster", text=text, answer=error.answer))
        return None


@frozen
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
    agents = []
    for agent in cluster.daemon_sets.or_else(()):
        if "sriov" in agent.name or "multus" in agent.name:
            agents.append(f"{agent.namespace}/{agent.name}")
    states = len(cluster.sriov_node_states.or_else(()))
    return Question(
        code="cluster",
        text="Should rocelab manage the agents that give pods access to the rails? `up` then "
        "installs its own.",
        evidence=(
            f"networks: {some([network.place for network in networks], 8) or 'none'}",
            f"agents: {some(agents, 8) or 'none'}",
            f"SR-IOV operator: {plural(states, 'node state')}",
        ),
        answer="cluster: leave  # or adopt",
    )


def _networks(cluster: Cluster) -> list[_PodNetwork]:
    networks = []
    for attachment in cluster.attachments.or_else(()):
        plugins = attachment.config.get("plugins")
        if isinstance(plugins, list) and plugins:
            first = plugins[0]
        else:
            first = attachment.config
        if not isinstance(first, dict):
            continue
        vlan, ipam = first.get("vlan"), first.get("ipam")
        vlan_id = vlan if isinstance(vlan, int) and vlan > 0 else None
        settings = ipam if isinstance(ipam, dict) else {}
        networks.append(_PodNetwork(attachment, str(first.get("type", "")), vlan_id, settings))
    return networks


def _adopted(adoption: _Adoption) -> Entry:
    cluster, plan = adoption.cluster, adoption.plan
    chosen = _chosen(adoption)
    if not chosen:
        raise _LeftOutError("none of its networks belongs to exactly one rail")
    kinds = {network.kind for network in chosen.values()}
    if len(kinds) > 1 or not kinds <= {"sriov", "macvlan"}:
        raise _LeftOutError(
            f"its networks are {', '.join(sorted(kinds))}; a lab has one of sriov and macvlan"
        )
    section: Entry = {
        **_subnets(cluster, adoption.answers),
        "namespaces": sorted({n.attachment.namespace for n in chosen.values()}),
    }
    section |= _delivery(cluster, kinds.pop(), chosen, plan)
    sources = {str(network.ipam.get("type", "none")) for network in chosen.values()}
    if len(sources) > 1 or not sources <= {"nv-ipam", "whereabouts"}:
        raise _LeftOutError(
            f"its pods get addresses by {', '.join(sorted(sources))}, which names no range: "
            "add `pod` by hand"
        )
    if sources == {"whereabouts"}:
        section["ipam"] = {"kind": "whereabouts"}
    vendors = []
    for host in adoption.inventory.hosts:
        vendors += [pf.vendor_id for pf in host.pfs.or_else(()) if pf.rdma.or_else(())]
    vendor = majority(vendors)
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
                f"answers: networks.{rail}: {place}: no such network or rail; "
                f"networks: {some(sorted(by_place), 8)}"
            )
    vlans = _rails_by_vlan(adoption.inventory, adoption.rails)
    chosen: dict[str, _PodNetwork] = {}
    lost = []
    for rail in drafted:
        if rail in answers.networks:
            chosen[rail] = by_place[answers.networks[rail]]
            continue
        own = [n for n in networks if n.vlan_id is not None and vlans.get(n.vlan_id) == {rail}]
        ports = adoption.rails[rail]
        own += [n for n in networks if _by_policy(n, adoption.cluster, ports) and n not in own]
        if len({network.attachment.name for network in own}) == 1:
            chosen[rail] = own[0]
        else:
            lost.append(rail)
    if lost and networks:
        plan.questions.append(_which_networks(lost, networks))
    return chosen


def _which_networks(rails: Sequence[str], networks: Sequence[_PodNetwork]) -> Question:
    evidence = []
    for network in networks[:12]:
        resource = network.attachment.resource_name or "no resource"
        evidence.append(f"{network.place}: {resource}, VLAN {network.vlan_id}")
    return Question(
        code="network",
        text=f"Which networks belong to {', '.join(rails)}? Neither VLAN nor policy says so.",
        evidence=tuple(evidence),
        answer="networks:\n" + "\n".join(f"  {rail}: NAMESPACE/NAME" for rail in rails),
    )


def _rails_by_vlan(inventory: Inventory, rails: Mapping[str, RailOfPorts]) -> dict[int, set[str]]:
    """The rails whose switch ports carry a VLAN beside that of untagged frames."""
    switch_ports = {}
    for switch in inventory.switches:
        for port in switch.ports.or_else(()):
            switch_ports[switch.name, port.name] = port
    by_vlan: dict[int, set[str]] = defaultdict(set)
    for rail in rails.values():
        for leaf in [port.leaf for port in rail.ports.values() if port.leaf]:
            other_end = switch_ports.get((leaf.name, leaf.port))
            if other_end is None:
                continue
            for vlan in other_end.vlans.or_else(()):
                if vlan != other_end.native_vlan.value:
                    by_vlan[vlan].add(rail.name)
    return by_vlan


def _by_policy(network: _PodNetwork, cluster: Cluster, rail: RailOfPorts) -> bool:
    """Whether a policy of the SR-IOV operator cuts the network's resource from the rail's NICs."""
    resource = network.attachment.resource_name.rpartition("/")[2]
    for policy in cluster.sriov_policies.or_else(()):
        selector = policy.spec.get("nicSelector")
        if policy.spec.get("resourceName") != resource or not isinstance(selector, dict):
            continue
        names = {name.partition("#")[0] for name in _texts(selector.get("pfNames"))}
        slots = set(_texts(selector.get("rootDevices")))
        if all(_is_selected(port, names, slots) for port in rail.ports.values()):
            return True
    return False


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, list):
        return [text for text in value if isinstance(text, str)]
    return []


def _is_selected(port: RailPort, names: set[str], slots: set[str]) -> bool:
    if not names and not slots:
        return False
    return (not names or port.interface in names) and (not slots or port.pci in slots)


def _subnets(cluster: Cluster, answers: Answers) -> Entry:
    """The networks of the cluster: as answered, else as its nodes and services have them."""
    pods = [ip_network(text) for node in cluster.nodes.or_else(()) for text in node.pod_cidrs]
    ranges = [subnet for subnet in pods if isinstance(subnet, IPv4Network)]
    services = [text for text in cluster.service_cidrs.or_else(()) if ":" not in text]
    subnets: Entry = {"pod_subnet": answers.pod_subnet, "service_subnet": answers.service_subnet}
    if answers.pod_subnet is None and ranges:
        subnets["pod_subnet"] = smallest_range(ranges)
    if answers.service_subnet is None and services:
        subnets["service_subnet"] = services[0]
    lacking = [key for key, subnet in subnets.items() if subnet is None]
    if lacking:
        lines = "\n".join(f"{key}: SUBNET" for key in lacking)
        why = f"its {' and '.join(lacking)} cannot be read"
        raise _LeftOutError(why, f"cluster: adopt\n{lines}")
    return {key: str(subnet) for key, subnet in subnets.items()}


def _delivery(
    cluster: Cluster, kind: str, chosen: Mapping[str, _PodNetwork], plan: DraftPlan
) -> Entry:
    if kind == "macvlan":
        return {"delivery": {"profile": "shared_rdma"}}
    states: Sequence[CustomObject] = cluster.sriov_node_states.or_else(())
    if not states:
        return {}
    counts = {pf["vfs"] for node in plan.nodes for pf in node["pfs"]}
    prefixes = set()
    for network in chosen.values():
        prefixes.add(network.attachment.resource_name.partition("/")[0])
    if len(counts) != 1 or len(prefixes) != 1 or counts == {0}:
        raise _LeftOutError(
            "the SR-IOV operator gives its PFs different numbers of VFs, "
            "and a lab file has one number"
        )
    for node in plan.nodes:
        for pf in node["pfs"]:
            pf["vfs"] = 0
    delivery = {"profile": OPERATED, "vfs": counts.pop(), "namespace": states[0].namespace}
    return {"delivery": {**delivery, "resource_prefix": prefixes.pop()}}


def _pod_side(rail: str, network: _PodNetwork, cluster: Cluster, plan: DraftPlan) -> Entry:
    vfs = [pf["vfs"] for node in plan.nodes for pf in node["pfs"] if pf["rail"] == rail]
    side: Entry = {"pod": _pool_of(network, cluster, max(vfs) or 1)}
    if network.ipam.get("type") == "whereabouts":
        text = f"{rail}: addresses_per_node is its number of VFs"
        plan.notice("pool", text)
    prefix, _, resource = network.attachment.resource_name.rpartition("/")
    if resource:
        side["resource_name"] = resource
    if resource and prefix != "intel.com":
        side["resource_prefix"] = prefix
    return {**side, "network_name": network.attachment.name}


def _pool_of(network: _PodNetwork, cluster: Cluster, vfs: int) -> Entry:
    """VLAN, addresses, block per node and router of a network."""
    ipam = network.ipam
    try:
        if ipam.get("type") == "whereabouts":
            subnet = IPv4Network(ipam["range"], strict=False)
            first = IPv4Address(ipam.get("range_start", str(subnet.network_address + 1)))
            last = IPv4Address(ipam.get("range_end", str(subnet.broadcast_address - 1)))
            block, gateway = vfs, str(ipam.get("gateway", ""))
        else:
            specs = {pool.name: pool.spec for pool in cluster.ip_pools.or_else(())}
            spec = specs[str(ipam.get("poolName"))]
            subnet = IPv4Network(spec["subnet"])
            first, last = _outside(subnet, spec.get("exclusions"))
            block, gateway = int(str(spec["perNodeBlockSize"])), str(spec.get("gateway", ""))
    except (KeyError, ValueError, TypeError):
        raise _LeftOutError(
            f"the address range of {network.place} cannot be read from its pool; add `pod` by hand"
        ) from None
    pool = {
        "vlan_id": network.vlan_id,
        "subnet": str(subnet),
        "first_address": str(first),
        "last_address": str(last),
        "gateway": gateway,
        "addresses_per_node": block,
    }
    return {key: value for key, value in pool.items() if value != ""}


def _outside(subnet: IPv4Network, exclusions: JsonValue) -> tuple[IPv4Address, IPv4Address]:
    """The ends of a subnet without what is excluded at them."""
    ranges = []
    for exclusion in exclusions if isinstance(exclusions, list) else ():
        if isinstance(exclusion, dict):
            ends = exclusion["startIP"], exclusion["endIP"]
            ranges.append([IPv4Address(str(end)) for end in ends])
    first, last = subnet.network_address + 1, subnet.broadcast_address - 1
    for begin, end in sorted(ranges):
        if begin <= first <= end:
            first = end + 1
        if begin <= last <= end:
            last = begin - 1
    return first, last


# operators that make VFs or load drivers themselves


def leave_to_operators(inventory: Inventory, section: Entry | None, plan: DraftPlan) -> None:
    """Drains the nodes whose VFs an operator makes, and asks who shall make them.

    Nothing of this where the draft's cluster leaves them to the operator.

    Args:
        inventory: what was read.
        section: the draft's `cluster`; None while the cluster is left alone.
        plan: gets the question, and has these nodes drained.
    """
    cluster = inventory.cluster
    if cluster is None or cluster.unread:
        return
    plan.notices += _about_drivers(cluster)
    if section and section.get("delivery", {}).get("profile") == OPERATED:
        return
    if not cluster.sriov_node_states.is_known:
        why = cluster.sriov_node_states.unknown
        text = f"whether an SR-IOV operator makes VFs is unknown: {why}"
        plan.notice("vf-owners", text)
        return
    states = {state.name: managed_pfs(state) for state in cluster.sriov_node_states.or_else(())}
    in_cluster = KubeNodes(cluster)
    hosts = {plan.names[host.name]: host for host in inventory.hosts if host.name in plan.names}
    evidence = Evidence()
    operated = []
    for place, node in enumerate(plan.nodes):
        kube = in_cluster.of(hosts[node["name"]])
        managed = states.get(kube.name, frozenset()) if kube else frozenset()
        vfs = [
            f"{pf['interface']} has {pf['vfs']} VFs" for pf in node["pfs"] if pf["pci"] in managed
        ]
        if vfs:
            operated.append(node["name"])
            evidence.add(node["name"], ", ".join(vfs))
            plan.nodes[place] = {"name": node["name"], "state": "drained", **node}
    if operated:
        policies = cluster.sriov_policies.or_else(())
        makers = some([policy.name for policy in policies if policy.spec.get("numVfs")], 8)
        plan.questions.append(
            Question(
                code="vf-owners",
                nodes=tuple(operated),
                text="The SR-IOV operator makes VFs on these nodes, drained in the draft. "
                "Should it own them?",
                evidence=(
                    *evidence.lines(),
                    f"policies: {makers or 'none'}",
                    "a host and an operator that both create VFs take them from each other's pods",
                    BACK_FROM_OPERATOR,
                ),
                answer="cluster: adopt  # the operator keeps the VFs",
            )
        )


def _about_drivers(cluster: Cluster) -> Iterator[Notice]:
    for policy in cluster.nic_cluster_policies.or_else(()):
        if policy.spec.get("ofedDriver"):
            text = (
                f"the network operator's NicClusterPolicy {policy.name} loads the NICs' driver "
                "from a container: each time it does, the VFs are gone until they are created again"
            )
            yield Notice(code="driver-owner", text=text)

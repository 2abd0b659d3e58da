"""Faults of the rails in pods, by code: pure functions of what the cluster and the pods report."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address

from components.validation.benchmarks.pods.log import (
    AttachedNetwork,
    PodFacts,
    PodRailFacts,
    variable_of,
)
from components.validation.benchmarks.pods.plan import PodPlan, PodRail
from components.validation.records import PodFault, RailInPods
from components.validation.summary import shortened
from stacks.frozen import frozen
from stacks.safe_yaml import load_beside
from stacks.words import plural, some

AGENT_LABEL = "app.kubernetes.io/name"
AGENTS = {
    "multus": "Multus",
    "sriov-device-plugin": "the SR-IOV device plugin",
    "rdma-shared-device-plugin": "the RDMA shared device plugin",
}
"""The agents that must run on each node, by `AGENT_LABEL` of their pods."""
FULL = (
    "no free addresses in the allocated range",
    "could not allocate ip in range",
    "no ip addresses available in range",
)
"""nv-ipam (pkg/ipam-node/allocator/allocator.go), whereabouts (pkg/allocate/allocate.go; with a
capital in some releases) and host-local."""
MULTUS_AWAY = ("failed to send CNI request", "multus.sock")
"""multus-shim when no daemon listens (multus-cni#1165)."""
NO_VF_PASSED = "VF pci addr is required"
"""SR-IOV CNI when Multus passed no device on (sriov-network-device-plugin#258, #490)."""
NO_NETWORK = "cannot find a network-attachment-definition"
"""Multus, pkg/k8sclient/k8sclient.go."""
NO_PLUGIN = re.compile(r'failed to find plugin "([^"]+)" in path \[([^\]]*)\]')
NAMED_NETWORK = re.compile(
    r'error adding container to network "([^"]+)"|network-attachment-definition \(([^)]+)\)'
)
HINTS: dict[str, str] = load_beside(__file__, "hints.yaml")
LONGEST = 220


@frozen
class NodeState:
    """A node as the cluster reports it."""

    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    missing_agents: Sequence[str]
    """Agents of `AGENTS` that have a DaemonSet and no ready pod on the node, by label."""
    holders: Mapping[str, Sequence[str]]


def node_fault(code: str, node: str, what: str) -> PodFault:
    """A fault of all rails on a node."""
    return _on_rail(code, node, "", shortened(what, LONGEST))


def _on_rail(code: str, node: str, rail: str, what: str) -> PodFault:
    return PodFault(code=code, node=node, rail=rail, what=what, hint=HINTS.get(code, ""))


def unscheduled_faults(
    plan: PodPlan, node: str, state: NodeState, message: str
) -> Iterator[PodFault]:
    """Why the scheduler, which sent this message, found no place for a pod on its node."""
    lacking = [rail for rail in plan.rails_of(node) if f"Insufficient {rail.resource}" in message]
    for rail in lacking:
        if fault := _device_fault(plan, rail, node, state):
            yield fault
    if not lacking:
        yield node_fault("POD_NOT_SCHEDULED", node, message)


def _device_fault(plan: PodPlan, rail: PodRail, node: str, state: NodeState) -> PodFault | None:
    """Why a node has no device of a rail to give; None if it has some, and the scheduler has not
    tried again since.

    The kubelet counts devices of a plugin that has gone in capacity, and not in allocatable; it
    forgets a resource only minutes later (kubernetes, pkg/kubelet/cm/devicemanager/manager.go,
    GetCapacity). VFs that have gone look the same, but then the plugin still offers those of the
    node's other rails.
    """
    resource = rail.resource
    capacity, free = _count(state.capacity, resource), _count(state.allocatable, resource)
    plugins = []
    for label in state.missing_agents:
        if label != "multus":
            plugins.append(AGENTS[label])
    of_others = [other.resource for other in plan.rails_of(node) if other is not rail]
    alive = any(_count(state.allocatable, other) for other in of_others)
    if plugins or (capacity and not free and not alive):
        plugin = plugins[0] if plugins else "the device plugin"
        return _on_rail(
            "DEVICE_PLUGIN_DEAD",
            node,
            rail.name,
            f"{plugin} does not run, so pods get none of {capacity or 'its'} {resource}",
        )
    if resource not in state.capacity:
        prefix = f"{resource.partition('/')[0]}/"
        unnamed = sorted({*state.capacity} - {other.resource for other in plan.rails})
        others = [name for name in unnamed if name.startswith(prefix)]
        if others:
            what = f"the node offers {some(others, 3)} but no {resource}"
            return _on_rail("RESOURCE_NAME", node, rail.name, what)
    if not free:
        what = (
            f"the node offers no {resource}: its device plugin found no VF of this rail with RDMA"
        )
        return _on_rail("NO_VFS", node, rail.name, what)
    holders = state.holders.get(resource, ())
    if not holders:
        return None
    what = f"all {free} {resource} are held by {some(holders, 2)}"
    return _on_rail("DEVICES_HELD", node, rail.name, what)


def sandbox_fault(
    plan: PodPlan, node: str, missing_agents: Sequence[str], message: str
) -> PodFault:
    """The fault behind a message of FailedCreatePodSandBox."""
    named = NAMED_NETWORK.search(message)
    network = named[1] or named[2] if named else ""
    rail = ""
    for of_node in plan.rails_of(node):
        if of_node.network.rpartition("/")[2] == network:
            rail = of_node.name
    if plugin := NO_PLUGIN.search(message):
        what = f"containerd or Multus finds no CNI plugin {plugin[1]} in {plugin[2]}"
        return _on_rail("CNI_PLUGIN_MISSING", node, rail, what)
    if all(text in message for text in MULTUS_AWAY) or "multus" in missing_agents:
        what = "Multus does not answer, so no pod starts on the node"
        return node_fault("MULTUS_DOWN", node, what)
    if any(text in message.lower() for text in FULL):
        where = f" on {rail}" if rail else ""
        return _on_rail("POOL_FULL", node, rail, f"no address is left for a pod{where}")
    if NO_VF_PASSED in message:
        what = "Multus passed no VF to the SR-IOV plugin: the network names another resource"
        fault = _on_rail("RESOURCE_NAME", node, rail, f"{what} than the pod")
        return fault.replace(hint=HINTS["WRONG_VF"])
    if NO_NETWORK in message:
        return _on_rail("NETWORK_MISSING", node, rail, f"there is no network {network}")
    what = shortened(_innermost(message), LONGEST)
    return _on_rail("POD_NETWORK_REFUSED", node, rail, what)


def pod_faults(
    plan: PodPlan, node: str, facts: PodFacts, networks: Sequence[AttachedNetwork]
) -> Iterator[PodFault]:
    """The faults of the rails in a running pod."""
    if not facts.ping:
        yield node_fault("IMAGE_WITHOUT_PING", node, f"{plan.image} has no ping")
    by_name = {network.name: network for network in networks}
    for rail in plan.rails_of(node):
        in_pod = facts.rails.get(rail.name, PodRailFacts())
        if in_pod.interface and rail.network in by_name:
            for code, what in _of_interface(plan, rail, facts, by_name[rail.network].address):
                yield _on_rail(code, node, rail.name, what)
            continue
        what = (
            f"a pod that names {rail.network} has no interface on it: its network-status has "
            f"{some(list(by_name), 3) or 'nothing'}"
        )
        yield _on_rail("MULTUS_SKIPPED", node, rail.name, what)


def _of_interface(
    plan: PodPlan, rail: PodRail, facts: PodFacts, address: IPv4Address | None
) -> Iterator[tuple[str, str]]:
    """Code and evidence of each fault of a rail's interface in a pod."""
    in_pod = facts.rails[rail.name]
    if address is None or address not in rail.subnet:
        got = address or "no address"
        yield "POD_ADDRESS", f"the pod got {got}, but the rail's pods are in {rail.subnet}"
    if in_pod.mtu_bytes != rail.mtu_bytes:
        has = f"{in_pod.interface} has an MTU of {in_pod.mtu_bytes}"
        yield "POD_MTU", f"{has}, the rail {rail.mtu_bytes}"
    own = in_pod.devices
    if plan.own_vf:
        given = facts.given.get(variable_of(rail.resource), ())
        if in_pod.slot not in given:
            function = f"{in_pod.interface} is {in_pod.slot or 'no PCI function'}"
            gave = some(given, 2) or "none"
            yield "WRONG_VF", f"{function}, but the kubelet gave {gave} as {rail.resource}"
        own = tuple(device for device in own if device.slot == in_pod.slot)
    usable = [device for device in own if device.usable]
    if not usable or (address is not None and not any(device.has(address) for device in usable)):
        yield "NO_RDMA_DEVICE", _no_device(in_pod, own, usable)
    elif not facts.rdma_cm:
        yield "NO_RDMA_CM", "the pod has no /dev/infiniband/rdma_cm, so rdma_cm cannot connect"


def _no_device(in_pod: PodRailFacts, own: Sequence[object], usable: Sequence[object]) -> str:
    if usable:
        return f"the RDMA device of {in_pod.interface} has no RoCE v2 address of the pod"
    if own:
        return f"the pod has no file in /dev/infiniband for the RDMA device of {in_pod.interface}"
    return f"no RDMA device belongs to {in_pod.interface}"


def shared_addresses(
    plan: PodPlan, networks: Mapping[str, Sequence[AttachedNetwork]]
) -> Iterator[PodFault]:
    """Addresses that two pods got."""
    for rail in plan.rails:
        by_address: dict[str, list[str]] = {}
        for node, entries in networks.items():
            for entry in entries:
                if entry.name == rail.network and entry.address:
                    by_address.setdefault(str(entry.address), []).append(node)
        for address, nodes in by_address.items():
            if len(nodes) > 1:
                what = f"{address} was also given to the pod on {some(nodes[1:], 3)}"
                yield _on_rail("ADDRESS_TWICE", nodes[0], rail.name, what)


def pair_faults(rail: PodRail, answers: Mapping[tuple[str, str], str]) -> Iterator[PodFault]:
    """The nodes and pairs that are cut off on a rail. A node whose pairs all fail is named instead
    of its pairs.
    """
    dead = {pair for pair, answer in answers.items() if answer == "none"}
    cut = {pair for pair, answer in answers.items() if answer == "small"}
    vlan = "the native VLAN"
    if rail.vlan_id is not None:
        vlan = f"VLAN {rail.vlan_id}"
    look = f"check {vlan} on the switch port, "
    if rail.routed:
        look += "and the router's routes between the rail's subnets"
    else:
        look += "tagged for pods, and in ip link show of the PF (vf … vlan)"
    yield from _attributed(
        {"code": "POD_CUT_OFF", "rail": rail.name, "hint": look},
        "no answer to pings between pods",
        dead,
        answers,
    )
    look = f"set an MTU of at least {rail.mtu_bytes} on each switch port of the rail, VF and PF"
    yield from _attributed(
        {"code": "POD_FRAMES_CUT", "rail": rail.name, "hint": look},
        f"frames of {rail.mtu_bytes} bytes do not pass between pods, small ones do",
        cut,
        answers,
    )


def _attributed(
    known: Mapping[str, str],
    what: str,
    bad: set[tuple[str, str]],
    answers: Mapping[tuple[str, str], str],
) -> Iterator[PodFault]:
    if not bad:
        return
    of_all = Counter(node for pair in answers for node in pair)
    of_bad = Counter(node for pair in bad for node in pair)
    guilty: set[str] = set()
    if len(of_all) > 2:
        if len(bad) == len(answers):
            yield PodFault(**known, node="", what=f"{what}, on none of {len(of_all)} nodes")
            return
        guilty = {node for node, count in of_bad.items() if count == of_all[node]}
    for node in sorted(guilty):
        peers = f"{plural(of_bad[node], 'peer')} of {of_all[node]}"
        yield PodFault(**known, node=node, what=f"{what}: {peers}")
    for node, peer in sorted(bad):
        if not {node, peer} & guilty:
            yield PodFault(**known, node=f"{node} and {peer}", what=what)


def leak_faults(plan: PodPlan, facts: Mapping[str, PodFacts]) -> Iterator[PodFault]:
    """Rails that share a network though each has a VLAN of its own."""
    vlan_of = {rail.name: rail.vlan_id for rail in plan.rails}
    for node, of_pod in facts.items():
        for (rail, peer, other), answered in of_pod.touched.items():
            if answered and rail != other:
                what = (
                    f"in VLAN {vlan_of[rail]} the pod on {peer} answers from its interface on "
                    f"{other} (VLAN {vlan_of[other]})"
                )
                yield _on_rail("VLAN_LEAK", node, rail, what)


def rail_counts(
    plan: PodPlan,
    facts: Mapping[str, PodFacts],
    answers: Mapping[str, Mapping[tuple[str, str], str]],
) -> Iterator[RailInPods]:
    """The numbers of each rail."""
    for rail in plan.rails:
        in_pods = {node: of.rails[rail.name] for node, of in facts.items() if rail.name in of.rails}
        of_rail = answers.get(rail.name, {}).values()
        yield RailInPods(
            rail=rail.name,
            pods=len(in_pods),
            pairs=len(rail.pairs),
            reached=sum(answer == "large" for answer in of_rail),
            apart=_silent_elsewhere(rail.name, facts),
            mtu_bytes={node: of.mtu_bytes for node, of in in_pods.items() if of.mtu_bytes},
        )


def _silent_elsewhere(rail: str, facts: Mapping[str, PodFacts]) -> int:
    """Interfaces of other rails that do not answer on this one.

    Where IPv6 does not answer on the rail itself, its silence elsewhere proves nothing.
    """
    heard, silent = set(), []
    for of_pod in facts.values():
        for (of, peer, other), answered in of_pod.touched.items():
            if of == rail == other and answered:
                heard.add(peer)
            elif of == rail != other and not answered:
                silent.append(peer)
    return sum(peer in heard for peer in silent)


def _count(counts: Mapping[str, str], resource: str) -> int:
    text = counts.get(resource, "")
    return int(text) if text.isdecimal() else 0


def _innermost(message: str) -> str:
    """The end of a CNI error, without who passed it on and what Multus repeats."""
    text, _, _ = message.partition("': StdinData:")
    return text.rpartition("error adding container to network")[2].strip(' "')

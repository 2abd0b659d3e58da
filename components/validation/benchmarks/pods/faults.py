"""Faults of the rails in pods, by code: pure functions of what the cluster and the pods report."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from components.validation.benchmarks.pods.log import (
    AttachedNetwork,
    PodFacts,
    PodRailFacts,
    variable_of,
)
from components.validation.benchmarks.pods.plan import PodPlan, PodRail
from components.validation.records import PodFault, RailInPods
from components.validation.summary import shortened
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
LONGEST = 220


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeState:
    """A node as the cluster reports it."""

    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    missing_agents: Sequence[str] = ()
    """Agents of `AGENTS` that have a DaemonSet and no ready pod on the node, by label."""
    holders: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Other pods on the node by resource."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PodState:
    """A pod of the check as the cluster reports it."""

    unscheduled: str = ""
    """The scheduler's message."""
    sandbox: str = ""
    """The last message of FailedCreatePodSandBox."""
    pull: str = ""
    """Why its image can never be pulled."""
    ended: str = ""
    """Why it is no longer running."""


def not_started(node: str, within_s: float, why: str) -> PodFault:
    """A pod that has not started in time, without a lasting reason."""
    what = f"its pod has not started within {within_s:.0f} s{f': {why}' if why else ''}"
    return PodFault(code="POD_NOT_STARTED", node=node, what=shortened(what, LONGEST))


def start_faults(plan: PodPlan, node: str, state: NodeState, pod: PodState) -> Iterator[PodFault]:
    """Why a pod has not started; none while no reason is known."""
    rails = plan.rails_of(node)
    if pod.pull:
        yield PodFault(code="POD_IMAGE", node=node, what=pod.pull)
    elif pod.sandbox:
        yield _sandbox_fault(rails, node, state, pod.sandbox)
    elif pod.unscheduled:
        lacking = [rail for rail in rails if f"Insufficient {rail.resource}" in pod.unscheduled]
        for rail in lacking:
            if fault := _device_fault(plan, rail, node, state):
                yield fault
        if not lacking:
            hint = "kubectl describe node; nodes.state: drained leaves it out"
            yield PodFault(
                code="POD_NOT_SCHEDULED",
                node=node,
                what=shortened(pod.unscheduled, LONGEST),
                hint=hint,
            )
    elif pod.ended:
        yield PodFault(code="POD_ENDED", node=node, what=shortened(pod.ended, LONGEST))


def _device_fault(plan: PodPlan, rail: PodRail, node: str, state: NodeState) -> PodFault | None:
    """Why a node has no device of a rail to give.

    None if it has some, and the scheduler has not tried again since.

    The kubelet counts devices of a plugin that has gone in capacity, and not in allocatable; it
    forgets a resource only minutes later (kubernetes, pkg/kubelet/cm/devicemanager/manager.go,
    GetCapacity). VFs that have gone look the same, but then the plugin still offers those of the
    node's other rails.
    """
    known = {"node": node, "rail": rail.name}
    capacity, free = (
        _count(counts.get(rail.resource)) for counts in (state.capacity, state.allocatable)
    )
    plugin = next((label for label in state.missing_agents if label != "multus"), None)
    of_others = [other.resource for other in plan.rails_of(node) if other is not rail]
    alive = any(_count(state.allocatable.get(resource)) for resource in of_others)
    if plugin or (capacity and not free and not alive):
        return PodFault(
            code="DEVICE_PLUGIN_DEAD",
            **known,
            what=f"{AGENTS[plugin] if plugin else 'the device plugin'} does not run: of "
            f"{capacity or 'its'} "
            f"{rail.resource} none can be given to a pod",
            hint="kubectl -n kube-system get pods -o wide; check the log of its pod on the node "
            "and delete it: "
            "its DaemonSet starts another",
        )
    if rail.resource not in state.capacity:
        prefix = rail.resource.partition("/")[0]
        named = {other.resource for other in plan.rails}
        others = sorted(
            name for name in state.capacity if name.startswith(f"{prefix}/") and name not in named
        )
        if others:
            return PodFault(
                code="RESOURCE_NAME",
                **known,
                what=f"the node offers {some(others, 3)} and no {rail.resource}",
                hint="the device plugin's configuration names another resource than the lab file: "
                "kubectl get "
                "configmap -A; two plugins on one node register over each other",
            )
    if not free:
        return PodFault(
            code="NO_VFS",
            **known,
            what=f"the node offers no {rail.resource}: its device plugin found no VF of this rail "
            "that has RDMA",
            hint="check sriov_numvfs of the rail's PF on the node and the VFs' drivers; the "
            "plugin scans again "
            "when VFs appear, and kubectl -n kube-system logs of its pod shows which devices it "
            "skipped",
        )
    holders = state.holders.get(rail.resource, ())
    if not holders:
        return None
    return PodFault(
        code="DEVICES_HELD",
        **known,
        what=f"all {free} {rail.resource} are held by {some(holders, 2)}",
        hint="wait until these pods end, or raise nodes[].pfs[].vfs",
    )


def _sandbox_fault(rails: Sequence[PodRail], node: str, state: NodeState, message: str) -> PodFault:
    """The fault behind a message of FailedCreatePodSandBox."""
    named = NAMED_NETWORK.search(message)
    name = next((text for text in named.groups() if text), "") if named else ""
    rail = next((of_node for of_node in rails if of_node.network.rpartition("/")[2] == name), None)
    known = {"node": node, "rail": rail.name if rail else ""}
    if plugin := NO_PLUGIN.search(message):
        return PodFault(
            code="CNI_PLUGIN_MISSING",
            **known,
            what=f"containerd or Multus finds no CNI plugin {plugin[1]} in {plugin[2]}",
            hint="set bin_dir to /opt/cni/bin in /etc/containerd/config.toml and restart "
            "containerd; see that the "
            "plugin's installer runs on the node",
        )
    if all(text in message for text in MULTUS_AWAY) or "multus" in state.missing_agents:
        return PodFault(
            code="MULTUS_DOWN",
            node=node,
            what="Multus does not answer, so no pod starts on the node",
            hint="kubectl -n kube-system get pods -o wide; check the log of kube-multus there and "
            "delete its pod",
        )
    if any(text in message.lower() for text in FULL):
        return PodFault(
            code="POOL_FULL",
            **known,
            what=f"no address is left for a pod{f' on {rail.name}' if rail else ''}",
            hint="look for addresses of pods that are gone (kubectl get ippools -A -o yaml), or "
            "widen rails[].pod and "
            "addresses_per_node",
        )
    if NO_VF_PASSED in message:
        return PodFault(
            code="RESOURCE_NAME",
            **known,
            what="Multus passed no VF to the SR-IOV plugin: the network names another resource "
            "than the pod asks for",
            hint="k8s.v1.cni.cncf.io/resourceName of the network has to be the rail's resource: "
            "pulumi up --refresh "
            "renders both from the lab file",
        )
    if NO_NETWORK in message:
        return PodFault(
            code="NETWORK_MISSING",
            **known,
            what=f"there is no network {name}",
            hint="pulumi up --refresh puts it back",
        )
    return PodFault(
        code="POD_NETWORK_REFUSED", **known, what=shortened(_innermost(message), LONGEST)
    )


def pod_faults(
    plan: PodPlan, node: str, facts: PodFacts, networks: Sequence[AttachedNetwork]
) -> Iterator[PodFault]:
    """The faults of the rails in a running pod."""
    if not facts.ping:
        hint = "build and push it again: rocelab image push"
        yield PodFault(
            code="IMAGE_WITHOUT_PING", node=node, what=f"{plan.image} has no ping", hint=hint
        )
    for rail in plan.rails_of(node):
        in_pod = facts.rails.get(rail.name, PodRailFacts())
        network = next((entry for entry in networks if entry.name == rail.network), None)
        known = {"node": node, "rail": rail.name}
        if not in_pod.interface or network is None:
            got = some([entry.name for entry in networks], 3) or "nothing"
            yield PodFault(
                code="MULTUS_SKIPPED",
                **known,
                what=f"a pod that names {rail.network} has no interface on it: its network-status "
                f"has {got}",
                hint="Multus' configuration was not the first in /etc/cni/net.d when the pod "
                "started: look for "
                "00-multus.conf, for another CNI that renames it (Cilium: cni.exclusive), and at "
                "containerd's conf_dir",
            )
            continue
        yield from _interface_faults(plan, rail, node, facts, in_pod, network)


def _interface_faults(  # noqa: PLR0913, PLR0917  # one rail of one pod, from all who know of it
    plan: PodPlan,
    rail: PodRail,
    node: str,
    facts: PodFacts,
    in_pod: PodRailFacts,
    network: AttachedNetwork,
) -> Iterator[PodFault]:
    known = {"node": node, "rail": rail.name}
    address = network.address
    if address is None or address not in rail.subnet:
        yield PodFault(
            code="POD_ADDRESS",
            **known,
            what=f"the pod got {address or 'no address'}, the rail's pods are in {rail.subnet}",
            hint="check the pool that the network names, and whether a second IPAM serves it",
        )
    if in_pod.mtu_bytes != rail.mtu_bytes:
        yield PodFault(
            code="POD_MTU",
            **known,
            what=f"{in_pod.interface} has an MTU of {in_pod.mtu_bytes}, the rail {rail.mtu_bytes}",
            hint="look for the tuning plugin in the network's chain, and at the PF's MTU",
        )
    given = facts.given.get(variable_of(rail.resource), ())
    if plan.own_vf and in_pod.slot not in given:
        yield PodFault(
            code="WRONG_VF",
            **known,
            what=f"{in_pod.interface} is {in_pod.slot or 'no PCI function'}, the kubelet gave "
            f"{some(given, 2) or 'none'} as {rail.resource}",
            hint="k8s.v1.cni.cncf.io/resourceName of the network has to be the rail's resource",
        )
    own = (
        [device for device in in_pod.devices if device.slot == in_pod.slot]
        if plan.own_vf
        else list(in_pod.devices)
    )
    usable = [device for device in own if device.usable]
    if not usable or (address is not None and not any(device.has(address) for device in usable)):
        yield PodFault(
            code="NO_RDMA_DEVICE",
            **known,
            what=_no_device(in_pod, own, usable),
            hint="isRdma in the device plugin's selectors, the RDMA CNI where namespaces are "
            "exclusive, and the VF's "
            "driver: kubectl exec … -- ls /dev/infiniband /sys/class/infiniband",
        )
    elif not facts.rdma_cm:
        yield PodFault(
            code="NO_RDMA_CM",
            **known,
            what="the pod has no /dev/infiniband/rdma_cm, so rdma_cm connects nothing",
            hint="load rdma_ucm on the node; the device plugin then restarts by itself, and new "
            "pods get the file",
        )


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
                hint = (
                    "two IPAMs serve one range, or the pool's records are stale: kubectl get "
                    "ippools -A -o yaml"
                )
                what = f"{address} was also given to the pod on {some(nodes[1:], 3)}"
                yield PodFault(
                    code="ADDRESS_TWICE", node=nodes[0], rail=rail.name, what=what, hint=hint
                )


def pair_faults(rail: PodRail, answers: Mapping[tuple[str, str], str]) -> Iterator[PodFault]:
    """The nodes and pairs that are cut off on a rail.

    A node whose pairs all fail is named instead of its pairs.
    """
    dead = {pair for pair, answer in answers.items() if answer == "none"}
    cut = {pair for pair, answer in answers.items() if answer == "small"}
    vlan = f"VLAN {rail.vlan_id}" if rail.vlan_id is not None else "the native VLAN"
    look = (
        f"check {vlan} on the switch port (allowed, and tagged for pods) and in ip link show of "
        "the PF (vf … vlan)"
        if not rail.routed
        else f"check {vlan} on the switch port, and the router's routes between the rail's subnets"
    )
    yield from _attributed(
        rail, dead, answers, "POD_CUT_OFF", "no answer to pings between pods", look
    )
    yield from _attributed(
        rail,
        cut,
        answers,
        "POD_FRAMES_CUT",
        f"frames of {rail.mtu_bytes} bytes do not pass between pods, small ones do",
        f"set an MTU of at least {rail.mtu_bytes} on every switch port of the rail, and check the "
        "VFs' and PFs' MTU",
    )


def _attributed(  # noqa: PLR0913, PLR0917  # a kind of fault in words
    rail: PodRail,
    bad: set[tuple[str, str]],
    answers: Mapping[tuple[str, str], str],
    code: str,
    what: str,
    hint: str,
) -> Iterator[PodFault]:
    if not bad:
        return
    of_all = Counter(node for pair in answers for node in pair)
    of_bad = Counter(node for pair in bad for node in pair)
    known = {"code": code, "rail": rail.name, "hint": hint}
    if len(bad) == len(answers) and len(of_all) > 2:
        yield PodFault(**known, node="", what=f"{what}, on no node of {len(of_all)}")
        return
    guilty: set[str] = set()
    if len(of_all) > 2:
        guilty = {node for node, count in of_bad.items() if count == of_all[node]}
    for node in sorted(guilty):
        yield PodFault(
            **known, node=node, what=f"{what}: {plural(of_bad[node], 'peer')} of {of_all[node]}"
        )
    for node, peer in sorted(bad):
        if not {node, peer} & guilty:
            yield PodFault(**known, node=f"{node} and {peer}", what=what)


def leak_faults(plan: PodPlan, facts: Mapping[str, PodFacts]) -> Iterator[PodFault]:
    """Rails that share a network though each has a VLAN of its own."""
    vlan_of = {rail.name: rail.vlan_id for rail in plan.rails}
    for node, of_pod in facts.items():
        for (rail, peer, other), answered in of_pod.touched.items():
            if answered and rail != other:
                yield PodFault(
                    code="VLAN_LEAK",
                    node=node,
                    rail=rail,
                    what=f"from VLAN {vlan_of[rail]} the pod on {peer} answers with its interface "
                    f"of {other}, "
                    f"which has VLAN {vlan_of[other]}",
                    hint="one of the two VFs has the other rail's VLAN, or the switch bridges "
                    "both VLANs: ip link show "
                    "of both PFs, and the VLANs of their switch ports",
                )


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


def _count(text: object) -> int:
    return int(str(text)) if str(text).isdecimal() else 0


def _innermost(message: str) -> str:
    """The end of a CNI error, without who passed it on and what Multus repeats."""
    return (
        message.partition("': StdinData:")[0]
        .rpartition("error adding container to network")[2]
        .strip(' "')
    )


def few_of(faults: Iterable[PodFault], most: int) -> tuple[tuple[PodFault, ...], int]:
    """The first faults, and how many more there are."""
    unique = tuple(dict.fromkeys(faults))
    return unique[:most], max(len(unique) - most, 0)

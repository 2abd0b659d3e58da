"""VFs and Kubernetes: what pods get of the rails."""

from ipaddress import IPv4Address
from itertools import chain

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import check
from components.audit.view import View, fault
from components.hosts.program.look.pci import LEGACY
from components.inventory.kube import KubeNodes, managed_pfs
from components.inventory.model import Attachment, KubeNode
from stacks.delivery import SriovOperator

PLUGIN = "https://github.com/k8snetworkplumbingwg/sriov-network-device-plugin/issues/276"
SWITCHDEV = (
    "https://github.com/torvalds/linux/blob/master/"
    "drivers/net/ethernet/mellanox/mlx5/core/esw/legacy.c"
)
EXTERNAL = "https://github.com/k8snetworkplumbingwg/sriov-network-operator/pull/436"
OPERATOR = "https://github.com/k8snetworkplumbingwg/sriov-network-operator"
MULTUS = "https://github.com/k8snetworkplumbingwg/rdma-cni"
TOPOLOGY = "https://kubernetes.io/docs/tasks/administer-cluster/topology-manager/"
NODE_IP = "https://github.com/kubernetes/kubernetes/issues/44702"


@check(
    "vfs",
    Severity.HIGH,
    title="Number of VFs is wrong",
    why="pods that ask for a VF wait, or a node gets fewer pods than its peers",
    source=OPERATOR,
    remedy="drain the node, write 0 and then the number to sriov_numvfs, then restart its device "
    "plugin",
)
def vfs(view: View) -> Faults:
    operated = _operated(view)

    def declared(port: Port) -> int | None:
        if port.declared is None:
            return None
        return operated.vfs if operated else port.declared.vfs

    return view.unlike_declared(view.ports, lambda port: port.pf.vfs_num, declared)


@check(
    "eswitch",
    Severity.HIGH,
    title="The NIC's eswitch is not in legacy mode",
    why="its VFs refuse VLAN, trust and spoof check (EOPNOTSUPP), so the SR-IOV CNI fails every "
    "pod",
    source=SWITCHDEV,
    remedy="drain the node, write 0 to sriov_numvfs, devlink dev eswitch set pci/ADDRESS mode "
    "legacy; stop what sets "
    "switchdev at boot (OVN, OVS offload); waive it where pods use OVS offload",
)
def eswitch(view: View) -> Faults:
    for port, reading, mode in view.each(view.ports, lambda port: port.pf.eswitch_mode):
        has_vfs = port.declared.vfs if port.declared else port.pf.vfs_num.value
        if has_vfs and mode not in {"", LEGACY}:
            yield fault(port, reading, mode, LEGACY)


@check(
    "allocatable",
    Severity.HIGH,
    title="Kubernetes offers the wrong number of VFs",
    why="the device plugin lists VFs once when it starts: later VFs are never offered, and "
    "removed ones still are",
    source=PLUGIN,
    remedy="delete the device plugin's pod on this node",
)
def allocatable(view: View) -> Faults:
    cluster, nodes = view.cluster(), _nodes(view)
    if cluster is None or not _offers_vfs(view):
        return
    offered_anywhere = {name for node in nodes.values() for name in node.capacity}
    networks = view.read("", cluster.attachments) or ()
    named = {network.resource_name for network in networks} - {""}
    if not view.lab and named - offered_anywhere:
        view.skip("", "a network names a resource that no node offers")
        return
    for place in view.places:
        node, ports = nodes.get(place.node), view.fleet.ports_of(place.host)
        if node is None or not ports:
            continue
        groups: dict[str, int] = {}
        complete = True
        for port in ports:
            count = view.read(place.node, port.pf.vfs_num)
            complete = complete and count is not None
            resource = ""
            if port.lab_rail and port.lab_rail.pod:
                resource = port.lab_rail.resource
            if resource or not view.lab:
                groups[resource] = groups.get(resource, 0) + (count or 0)
        if not complete:
            continue
        for resource, count in groups.items():
            names = sorted(named)
            if resource:
                names = [resource]
            offered = [node.allocatable.get(name, "0") for name in names]
            total = sum(int(text) for text in offered if text.isdecimal())
            if total != count and (resource or named):
                yield view.cluster_fault(
                    cluster.nodes.source,
                    resource,
                    f"{total} allocatable",
                    f"{count} VFs",
                    node=place.node,
                )


def _nodes(view: View) -> dict[str, KubeNode]:
    """The cluster's nodes by the host's name in the inventory."""
    cluster = view.fleet.inventory.cluster
    if cluster is None:
        return {}
    view.read("", cluster.nodes)
    in_cluster = KubeNodes(cluster)
    nodes: dict[str, KubeNode] = {}
    for host in view.fleet.hosts:
        declared = view.fleet.node(host)
        if node := in_cluster.of(host, *([declared.name] if declared else [])):
            nodes[host.name] = node
    return nodes


def _operated(view: View) -> SriovOperator | None:
    """How the operator makes the VFs, where the lab file leaves them to it."""
    delivery = None
    if view.lab and view.lab.cluster:
        delivery = view.lab.cluster.delivery
    if isinstance(delivery, SriovOperator):
        return delivery
    return None


def _offers_vfs(view: View) -> bool:
    """Whether device plugins offer VFs: not where pods share PFs."""
    cluster = view.lab.cluster if view.lab else None
    return cluster is None or cluster.delivery.profile.startswith("sriov")


@check(
    "vf-owners",
    Severity.CRITICAL,
    title="Two owners create the VFs of one PF",
    why="each undoes the other's work, and pods lose their VFs",
    source=EXTERNAL,
    remedy="remove the PF from the operator's policies, or let the operator create its VFs: "
    "profile sriov_operator",
)
def vf_owners(view: View) -> Faults:
    cluster, nodes = view.cluster(), _nodes(view)
    states = None
    if cluster:
        states = view.read("", cluster.sriov_node_states)
    managed = {state.name: managed_pfs(state) for state in states or ()}
    for port in view.ports:
        node = nodes.get(port.node)
        if node is None or port.pf.pci not in managed.get(node.name, ()):
            continue
        files = []
        for file in port.pf.config_files.or_else(()):
            if file.vfs:
                files.append(file.path)
        if files or (port.declared and port.declared.vfs and not _operated(view)):
            yield fault(port, port.pf.config_files, "SR-IOV operator and host", "one owner")


@check(
    "vf-operator",
    Severity.HIGH,
    title="The SR-IOV operator has not applied its policy",
    why="the node's VFs still follow the previous policy, or are half created",
    source=OPERATOR,
    remedy="read the log of the node's sriov-network-config-daemon",
)
def vf_operator(view: View) -> Faults:
    cluster = view.cluster()
    if cluster is None:
        return
    hosts = {node.name: host for host, node in _nodes(view).items()}
    for state in view.read("", cluster.sriov_node_states) or ():
        sync = str(state.status.get("syncStatus", "") or "none")
        if sync != "Succeeded" and managed_pfs(state):
            name = hosts.get(state.name, state.name)
            yield view.cluster_fault(
                cluster.sriov_node_states.source, "", sync, "Succeeded", node=name
            )


@check(
    "attachment",
    Severity.HIGH,
    title="A network for pods is missing or names an unknown resource",
    why="pods that name the network or need its resource wait forever",
    source=MULTUS,
    remedy="create the network in the namespace, with annotation k8s.v1.cni.cncf.io/resourceName",
)
def attachment(view: View) -> Faults:
    cluster = view.cluster()
    if cluster is None:
        return
    networks, nodes = view.read("", cluster.attachments), view.read("", cluster.nodes)
    if networks is None or nodes is None:
        return
    offered = {name for node in nodes for name in node.capacity}
    source = cluster.attachments.source
    for network in networks:
        where, resource = f"{network.namespace}/{network.name}", network.resource_name
        if resource and resource not in offered:
            yield view.cluster_fault(source, where, resource, "a resource that a node offers")
        elif not resource and "sriov" in plugin_types(network):
            yield view.cluster_fault(source, where, "no resource", "the resource of its rail")
    if view.lab is None or view.lab.cluster is None:
        return
    there = {(network.namespace, network.name): network.resource_name for network in networks}
    for rail in view.lab.rails:
        for namespace in view.lab.cluster.namespaces if rail.pod else ():
            own = there.get((namespace, rail.network_name))
            where = f"{namespace}/{rail.network_name}"
            if own is None:
                yield view.cluster_fault(source, where, "missing", "there")
            elif own and own in offered and own != rail.resource:
                yield view.cluster_fault(source, where, own, rail.resource)


def plugin_types(network: Attachment) -> set[str]:
    """The CNI plugins of a network."""
    return {str(plugin.get("type")) for plugin in network.plugins}


@check(
    "rdma-namespaces",
    Severity.MEDIUM,
    title="RDMA devices are shared by all namespaces, but rdma-cni moves them",
    why="the plugin cannot move a device into a pod: pods fail to start",
    source=MULTUS,
    remedy="put options ib_core netns_mode=0 in /etc/modprobe.d and reboot: it cannot change "
    "while namespaces exist",
)
def rdma_namespaces(view: View) -> Faults:
    cluster = view.cluster()
    if cluster is None:
        return
    networks = view.read("", cluster.attachments) or ()
    if not any("rdma" in plugin_types(network) for network in networks):
        return
    yield from view.unlike(
        view.places, lambda place: place.host.system.rdma_namespaces, "exclusive"
    )


@check(
    "topology-policy",
    Severity.MEDIUM,
    title="The kubelet does not align VFs, GPUs and CPUs",
    why="a pod may get a VF and CPUs of different NUMA nodes",
    source=TOPOLOGY,
    remedy="set topologyManagerPolicy: restricted in the kubelet's configuration, drain the "
    "node, restart kubelet",
)
def topology_policy(view: View) -> Faults:
    for place, reading, policy in view.each(
        view.places, lambda place: place.host.system.kubelet_topology_policy
    ):
        if policy == "none" and place.host.system.numa_nodes.or_else(2) > 1:
            yield fault(place, reading, "none", "restricted, or another aligning policy")


@check(
    "node-ip",
    Severity.HIGH,
    title="The node's Kubernetes address is on a rail",
    why="the API, probes and pod networks share the rail with RDMA",
    source=NODE_IP,
    remedy="set --node-ip for the kubelet, then restart it on the drained node",
)
def node_ip(view: View) -> Faults:
    cluster, nodes = view.cluster(), _nodes(view)
    if cluster is None:
        return
    for host in view.fleet.hosts:
        node = nodes.get(host.name)
        addresses = chain.from_iterable(port.ipv4 for port in view.fleet.ports_of(host))
        rails = {address.network for address in addresses}
        for text in node.internal_ips if node else ():
            if ":" not in text and any(IPv4Address(text) in rail for rail in rails):
                yield view.cluster_fault(
                    cluster.nodes.source, "", text, "a management address", node=host.name
                )

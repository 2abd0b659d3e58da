"""Operators of the cluster that make VFs or load drivers themselves, beside the hosts of a draft."""

from collections.abc import Iterator

from components.discovery.plan import DraftPlan, Entry
from components.discovery.questions import Evidence, Notice, Question
from components.inventory.kube import KubeNodes, managed_pfs
from components.inventory.model import Cluster, Inventory
from stacks.words import some

OPERATED = "sriov_operator"


def leave_to_operators(inventory: Inventory, section: Entry | None, plan: DraftPlan) -> None:
    """Drains the nodes whose VFs an operator makes, unless the draft's cluster leaves them to it, and asks who shall.

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
        text = f"whether an SR-IOV operator makes VFs is unknown: {cluster.sriov_node_states.unknown}"
        plan.notices.append(Notice(code="vf-owners", nodes=(), text=text))
        return
    states = {state.name: managed_pfs(state) for state in cluster.sriov_node_states.or_else(())}
    in_cluster = KubeNodes(cluster)
    hosts = {plan.names[host.name]: host for host in inventory.hosts if host.name in plan.names}
    evidence = Evidence()
    operated = []
    for place, node in enumerate(plan.nodes):
        kube = in_cluster.of(hosts[node["name"]])
        managed = states.get(kube.name, frozenset()) if kube else frozenset()
        if pfs := [pf for pf in node["pfs"] if pf["pci"] in managed]:
            operated.append(node["name"])
            evidence.add(node["name"], ", ".join(f"{pf['interface']} has {pf['vfs']} VFs" for pf in pfs))
            plan.nodes[place] = {"name": node["name"], "state": "drained", **node}
    if operated:
        policies = [each.name for each in cluster.sriov_policies.or_else(()) if each.spec.get("numVfs")]
        plan.questions.append(
            Question(
                code="vf-owners",
                nodes=tuple(operated),
                text="The SR-IOV operator makes VFs on these nodes, drained in the draft. Should it own them?",
                evidence=(
                    *evidence.lines(),
                    f"policies: {some(policies, 8) or 'none'}",
                    "a host and an operator that both create VFs take them from each other's pods",
                    "to create them with rocelab, remove the nodes from the policies and run `rocelab discover` again",
                ),
                answer="cluster: adopt  # the operator keeps the VFs",
            )
        )


def _about_drivers(cluster: Cluster) -> Iterator[Notice]:
    for policy in cluster.nic_cluster_policies.or_else(()):
        if policy.spec.get("ofedDriver"):
            text = (
                f"the network operator's NicClusterPolicy {policy.name} loads the NICs' driver from a container: each "
                "time it does, the VFs are gone until they are created again"
            )
            yield Notice(code="driver-owner", nodes=(), text=text)

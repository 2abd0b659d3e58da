"""The rails that the cluster uses, with their nodes and interfaces."""

from stacks.lab import Lab
from stacks.nodes import Node
from stacks.rails import PodSide, Rail


def present_nodes(lab: Lab) -> tuple[Node, ...]:
    """Nodes of the cluster, including drained ones, which keep their VFs and pods."""
    return tuple(node for node in lab.nodes if node.state != "absent")


def pod_rails(lab: Lab) -> tuple[Rail, ...]:
    """Rails that pods use; the cluster does not know the others."""
    return tuple(rail for rail in lab.rails if lab.pods_use(rail))


def pod_side(rail: Rail) -> PodSide:
    """What pods see of a rail that they use."""
    if rail.pod is None:
        raise ValueError(f"rail {rail.name} has no pod section, so the cluster has nothing for it")
    return rail.pod


def populated_rails(lab: Lab) -> tuple[Rail, ...]:
    """Rails of pods with a PF. A resource without PF names would match every VF of the vendor."""
    return tuple(rail for rail in pod_rails(lab) if interfaces(lab, rail))


def nodes_on(lab: Lab, rail: Rail) -> tuple[Node, ...]:
    """Present nodes with a PF on the rail."""
    return tuple(node for node in present_nodes(lab) if node.pf_on(rail.name))


def interfaces(lab: Lab, rail: Rail) -> tuple[str, ...]:
    """Names of the rail's PFs, in the order of the nodes: the plugin has one list for all nodes."""
    pfs = (node.pf_on(rail.name) for node in present_nodes(lab))
    return tuple(dict.fromkeys(pf.interface for pf in pfs if pf))


def slots(lab: Lab, rail: Rail) -> tuple[str, ...]:
    """PCI addresses of the rail's PFs if another rail has one of their names; empty if names are
    enough.
    """
    names = set(interfaces(lab, rail))
    others = (other for other in pod_rails(lab) if other.name != rail.name)
    if not any(names.intersection(interfaces(lab, other)) for other in others):
        return ()
    pfs = (node.pf_on(rail.name) for node in present_nodes(lab))
    return tuple(dict.fromkeys(pf.pci for pf in pfs if pf and pf.pci))

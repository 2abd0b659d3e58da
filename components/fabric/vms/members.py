"""Which VMs a lab has, and where each may run. Pure."""

from collections.abc import Sequence

from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.nodes import VsphereVm


def machines_of(lab: Lab) -> Sequence[VsphereVm]:
    """The nodes that the fabric makes or adopts, in their order."""
    return [node for node in lab.nodes if isinstance(node, VsphereVm) and node.state != "absent"]


def free(nodes: Sequence[VsphereVm]) -> list[VsphereVm]:
    """Those that the cluster places."""
    return [node for node in nodes if node.machine.host is None]


def hosts_of(node: VsphereVm, fabric: Fabric) -> list[str]:
    """Where a machine may run: the host that it is pinned to, or every host of its rails' switches."""
    if node.machine.host:
        return [node.machine.host]
    rails = {pf.rail for pf in node.pfs}
    return sorted({host.name for switch in fabric.switches if switch.rail in rails for host in switch.hosts})

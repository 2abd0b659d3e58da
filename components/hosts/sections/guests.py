"""What a virtual machine's document says of its guest."""

from pydantic import JsonValue

from stacks.lab import Lab
from stacks.nodes import Node, VsphereVm


def guest_network_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: no virtual machine, or nobody asks for it."""
    network = lab.guests.network if lab.guests else None
    if network is None or not isinstance(node, VsphereVm) or not node.pfs:
        return None
    return {"tool": network.tool, "peers": {**_peers(lab, node)}}


def _peers(lab: Lab, node: Node) -> dict[str, str]:
    """Per interface another node's address on the same rail: the next one, so that all nodes together ask all."""
    found: dict[str, str] = {}
    for pf in node.pfs:
        ring = [(other.name, there.address) for other in lab.active_nodes if (there := other.pf_on(pf.rail))]
        names = [name for name, _ in ring]
        place = names.index(node.name) if node.name in names else 0
        name, address = ring[(place + 1) % len(ring)] if ring else (node.name, pf.address)
        if name != node.name:
            found[pf.interface] = str(address.ip)
    return found

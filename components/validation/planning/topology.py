"""Which leaf switch each PF hangs on, as far as the lab file has the cables. Pure."""

from stacks.lab import Lab
from stacks.switches import cables


def leaves_of(lab: Lab) -> dict[tuple[str, str], str]:
    """Switch by (node, rail); a PF whose cable nobody wrote down is left out, and then no link is named for it."""
    rail_of = {(node.name, pf.interface): pf.rail for node in lab.nodes for pf in node.pfs}
    return {
        (node, rail_of[node, interface]): switch.name
        for switch in lab.switches
        for node, interface, _ in cables(switch)
        if (node, interface) in rail_of
    }

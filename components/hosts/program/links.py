"""Links: their state, and the way from one state to another."""

from typing import Any, Dict, List

from .host import Host


def link_state(host: Host, pf: str) -> Dict[str, Any]:
    """What a revert or an undo of a PF's link needs."""
    mtu = host.links().get(pf, {}).get("mtu", 0)
    return {"mtu_bytes": mtu, "up": host.is_up(pf), "addresses": host.addresses(pf)}


def link_changes(host: Host, pf: str, wanted: Dict[str, Any]) -> List[str]:
    """Lines for `ip -batch` that lead from what is to what is wanted."""
    now = link_state(host, pf)
    lines = [f"address del {address} dev {pf}" for address in now["addresses"] if address not in wanted["addresses"]]
    if now["mtu_bytes"] != wanted["mtu_bytes"]:
        lines.append(f"link set dev {pf} mtu {wanted['mtu_bytes']}")
    if now["up"] != wanted["up"]:
        lines.append(f"link set dev {pf} {'up' if wanted['up'] else 'down'}")
    if lines or now["addresses"] != wanted["addresses"]:
        # replace: with the first address of a subnet the kernel may drop the others, the wanted one among them
        lines += [f"address replace {address} dev {pf}" for address in wanted["addresses"]]
    return lines

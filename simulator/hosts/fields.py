"""What a simulated host answers once a document is applied to it.

The host program does not compute it, so a field that the program names or fills wrongly shows as drift. Only sections
that a lab of simulated hosts has are here.
"""

from typing import Any

Document = dict[str, Any]
Fields = dict[str, Any]


def conforming(document: Document) -> Fields:
    """The fields of a host that is as the document asks."""
    fields: Fields = {"modules": sorted(document["modules"]), "rdma_namespaces": document["rdma_namespaces"]}
    routed = any("routing" in pf for pf in document["pfs"])
    for pf in document["pfs"]:
        of_pf = _port(pf) | ({"routing": _routing(pf)} if routed else {})
        fields |= {f"{pf['interface']}.{name}": value for name, value in of_pf.items()}
    if "bitfusion" in document:
        fields |= {"bitfusion_client": document["bitfusion"]["version"], "bitfusion_token": "as delivered"}
    return fields | {"unit": "enabled"}


def _port(pf: Document) -> Fields:
    of_vfs = {"vf_macs": "own", "vf_mtu_bytes": pf["mtu_bytes"]} if pf["vfs"] else {}
    return {
        "arp": "arp_ignore=1 arp_announce=2 rp_filter=2",
        "mtu_bytes": pf["mtu_bytes"],
        "link": "up",
        "address": pf["address"],
        "vfs": pf["vfs"],
        **of_vfs,
        "rdma_device": pf["rdma_device"],
    }


def _routing(pf: Document) -> str:
    """Routes and rule as `ip` words them."""
    if "routing" not in pf:
        return "none"
    name, address, routing = pf["interface"], pf["address"].split("/")[0], pf["routing"]
    table, gateway = routing["table"], routing["gateway"]
    to_range = f"{routing['range']} via {gateway} dev {name} table main metric {table}; " if "range" in routing else ""
    return (
        f"{to_range}{routing['subnet']} dev {name} table {table}; "
        f"default via {gateway} dev {name} table {table}; from {address} lookup {table}"
    )

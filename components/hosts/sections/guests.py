"""Sections of a host's document for guests of vSphere."""

from pydantic import JsonValue

from stacks.lab import Lab
from stacks.licence import FEATURE_TYPES, LegacyLicence
from stacks.nodes import Node, VsphereVm
from stacks.secret_files import licensed_nodes


def guest_sections(lab: Lab, node: Node) -> dict[str, JsonValue | None]:
    """Sections by their key; None: the lab file does not ask for this, or not on this node. No
    token is part of one.
    """
    initramfs = lab.guests is not None and lab.guests.initramfs and isinstance(node, VsphereVm)
    return {
        "guest_network": _guest_network(lab, node),
        "licence": _licence(lab, node),
        "bitfusion": _bitfusion(lab, node),
        "initramfs": initramfs or None,
    }


def _guest_network(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    network = lab.guests.network if lab.guests else None
    if network is None or not isinstance(node, VsphereVm) or not node.pfs:
        return None
    return {"tool": network.tool, "peers": {**_peers(lab, node)}}


def _licence(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    licence = lab.licence
    if licence is None or node not in licensed_nodes(lab):
        return None
    settings: dict[str, JsonValue] = {"FeatureType": str(FEATURE_TYPES[licence.product])}
    if isinstance(licence, LegacyLicence):
        settings |= {"ServerAddress": str(licence.server), "ServerPort": str(licence.port)}
        if licence.backup_server:
            settings["BackupServerAddress"] = licence.backup_server
    return {"kind": licence.kind, "server": str(licence.server), "settings": settings}


def _bitfusion(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    client = lab.bitfusion_client
    if client is None or node.name not in client.nodes:
        return None
    return client.model_dump(mode="json", include={"version", "package", "authorisation"})


def _peers(lab: Lab, node: Node) -> dict[str, str]:
    """Per interface the next node's address on the same rail: together they reach every node."""
    peers: dict[str, str] = {}
    for pf in node.pfs:
        ring = [other for other in lab.active_nodes if other.pf_on(pf.rail)]
        place = ring.index(node) if node in ring else 0
        peer = ring[(place + 1) % len(ring)] if ring else node
        on_rail = peer.pf_on(pf.rail)
        if peer.name != node.name and on_rail:
            peers[pf.interface] = str(on_rail.address.ip)
    return peers

"""What a virtual machine's document says of its guest."""

from pydantic import JsonValue

from components.hosts.program.distribution import INSTALL_S
from components.hosts.program.nvidia import SMI_S
from components.hosts.program.steps.initramfs import WRITE_S
from components.hosts.program.steps.licence import LICENCE_WAIT_S
from stacks.lab import Lab
from stacks.licence import FEATURE_TYPES, LegacyLicence
from stacks.nodes import Node, VsphereVm
from stacks.secret_files import licensed_nodes


def guest_network_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: no virtual machine, or nobody asks for it."""
    network = lab.guests.network if lab.guests else None
    if network is None or not isinstance(node, VsphereVm) or not node.pfs:
        return None
    return {"tool": network.tool, "peers": {**_peers(lab, node)}}


def licence_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: no licence is asked for, or this node has nothing that needs one. The token is never part of it."""
    licence = lab.licence
    if licence is None or node not in licensed_nodes(lab):
        return None
    settings: dict[str, JsonValue] = {"FeatureType": str(FEATURE_TYPES[licence.product])}
    if isinstance(licence, LegacyLicence):
        settings |= {"ServerAddress": str(licence.server), "ServerPort": str(licence.port)}
        if licence.backup_server:
            settings["BackupServerAddress"] = licence.backup_server
    return {"kind": licence.kind, "server": str(licence.server), "settings": settings}


def bitfusion_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: the node is no client. The token is never part of it."""
    asked = lab.bitfusion_client
    if asked is None or node.name not in asked.nodes:
        return None
    return {
        "version": asked.version,
        "package": {"url": asked.package.url, "sha256": asked.package.sha256},
        "authorisation": asked.authorisation,
    }


def guest_seconds(lab: Lab) -> int:
    """How much longer than usual a run may take for licence and Bitfusion's client."""
    initramfs_s = WRITE_S if lab.guests and lab.guests.initramfs else 0
    return (LICENCE_WAIT_S + SMI_S if lab.licence else 0) + (INSTALL_S if lab.bitfusion_client else 0) + initramfs_s


def initramfs_section(lab: Lab, node: Node) -> bool | None:
    """None: it is left as it is."""
    return True if lab.guests and lab.guests.initramfs and isinstance(node, VsphereVm) else None


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

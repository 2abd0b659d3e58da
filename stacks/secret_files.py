"""Stack secrets that become files on nodes."""

from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.licence import NlsLicence
from stacks.nodes import Node, VsphereVm

LICENCE_KEY, BITFUSION_KEY = "licenceToken", "bitfusionToken"


@frozen
class SecretFile:
    """One file, the same on each of its nodes."""

    name: str
    key: str
    """The stack's secret is `rocelab:<key>`."""
    nodes: tuple[str, ...]


def secret_files(lab: Lab) -> tuple[SecretFile, ...]:
    """The files that a lab needs; most labs need none."""
    files = []
    if isinstance(lab.licence, NlsLicence):
        files.append(
            SecretFile(
                name="licence",
                key=LICENCE_KEY,
                nodes=tuple(node.name for node in licensed_nodes(lab)),
            )
        )
    if lab.bitfusion_client is not None and lab.bitfusion_client.authorisation == "token":
        nodes = tuple(
            node.name for node in lab.active_nodes if node.name in lab.bitfusion_client.nodes
        )
        files.append(SecretFile(name="bitfusion", key=BITFUSION_KEY, nodes=nodes))
    return tuple(files)


def licensed_nodes(lab: Lab) -> tuple[Node, ...]:
    """VMs whose GPUs need a license."""
    return tuple(node for node in lab.active_nodes if isinstance(node, VsphereVm) and node.gpus)

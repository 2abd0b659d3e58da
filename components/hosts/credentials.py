"""What opens the hosts, from the stack's configuration: the only way by which a dynamic provider gets a secret."""

from collections.abc import Callable
from pathlib import Path

from stacks.access import read_host_keys, read_private_key
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import parse_lab

Setting = Callable[[str], object]
"""Value of a key of the stack's configuration; None when it has none."""


def configured_lab(setting: Setting) -> Lab:
    """The lab of this run.

    Raises:
        LabError: when there is none.
    """
    text = setting("lab")
    if not isinstance(text, str):
        raise LabError("the stack's configuration has no rocelab:lab")
    return parse_lab(text, "rocelab:lab")


def private_key(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the lab's private key; None when the ssh-agent has it.

    Raises:
        LabError: when it is not where the lab says.
    """
    if lab.access.identity == "file":
        return read_private_key(lab.access, root)
    if lab.access.identity == "agent":
        return None
    key = setting("sshPrivateKey")
    if not isinstance(key, str) or not key:
        raise LabError(
            "access.identity is secret and the stack has none; pulumi config set --secret rocelab:sshPrivateKey"
        )
    return key


def host_keys(lab: Lab, root: Path) -> dict[str, str]:
    """The only key that may answer, by active node.

    Raises:
        LabError: when known_hosts does not name one.
    """
    places = {node.name: (node.address, node.ssh_port) for node in lab.active_nodes}
    return dict(read_host_keys(lab.access, places, root))


def kubeconfig(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the kubeconfig; None when the lab has no cluster.

    Raises:
        LabError: when it is not where the lab says.
    """
    if lab.cluster is None:
        return None
    if lab.cluster.kubeconfig == "secret":
        text = setting("kubeconfig")
        return text if isinstance(text, str) else None
    try:
        return (root / (lab.cluster.kubeconfig_file or "")).read_text()
    except OSError as error:
        raise LabError(f"cluster.kubeconfig_file: {lab.cluster.kubeconfig_file}: {error.strerror}") from None

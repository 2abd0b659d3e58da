"""What opens hosts, cluster and vCenter, from where the lab says that it is; secrets are only ever asked for.

For a dynamic provider the stack's configuration is the only way by which a secret comes to it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from components.ssh.admin import admin_config, control_planes_of
from components.ssh.connection import Endpoint, Keys, keys_of
from stacks.access import read_private_key
from stacks.base import LabError
from stacks.cluster import read_kubeconfig
from stacks.host_keys import pinned_keys
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.read import parse_lab

Setting = Callable[[str], object]
"""Value of a key of the stack's configuration, such as `sshPrivateKey`; None when it has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """How to get into the nodes."""

    private_key: str | None = field(repr=False)
    """Text of the key; None: the running ssh-agent has it."""
    endpoints: dict[str, Endpoint]
    """By active node."""

    @property
    def keys(self) -> Keys:
        """The key as a connection takes it."""
        return keys_of(self.private_key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What opens the hosts and the cluster."""

    login: Login
    kubeconfig: str | None = field(repr=False)
    """None: the lab has no cluster."""


def configured_lab(setting: Setting) -> Lab:
    """The lab of this run.

    Raises:
        LabError: when there is none.
    """
    text = setting("lab")
    if not isinstance(text, str):
        raise LabError("the stack's configuration has no rocelab:lab")
    return parse_lab(text, "rocelab:lab")


def access_to(lab: Lab, root: Path, setting: Setting) -> Access:
    """Reads keys and kubeconfig from where the lab says they are; not for a running event loop.

    Raises:
        LabError: naming what is missing; never what it contains.
    """
    login = login_to(lab, root, setting)
    if planes := control_planes_of(lab, login.endpoints):
        return Access(login=login, kubeconfig=asyncio.run(admin_config(planes, login.keys)))
    return Access(login=login, kubeconfig=kubeconfig(lab, setting, root))


def login_to(lab: Lab, root: Path, setting: Setting) -> Login:
    """The login alone, for who needs no cluster.

    Raises:
        LabError: when a key is not where the lab says.
    """
    keys = host_keys(lab, root, setting)
    return Login(private_key=private_key(lab, setting, root), endpoints=endpoints_of(lab, keys))


def private_key(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the lab's private key; None when the ssh-agent has it.

    Raises:
        LabError: when it is not where the lab says.
    """
    if lab.access.identity == "file":
        return read_private_key(lab.access, root)
    return required_secret(setting, "sshPrivateKey") if lab.access.identity == "secret" else None


def host_keys(lab: Lab, root: Path, setting: Setting = lambda _key: None) -> dict[str, str]:
    """The only key that may answer, by active node.

    Raises:
        LabError: when known_hosts does not name one, or the secret is missing that machines' keys are made from.
    """
    places = {node.name: (node.address, node.ssh_port) for node in lab.active_nodes}
    return pinned_keys(lab, places, root, setting)


def endpoints_of(lab: Lab, keys: dict[str, str]) -> dict[str, Endpoint]:
    """Where the SSH of each active node answers, by its name; `keys` are those that have to answer."""
    return {node.name: endpoint_of(lab, node, keys[node.name]) for node in lab.active_nodes}


def endpoint_of(lab: Lab, node: Node, host_key: str) -> Endpoint:
    """Where a node's SSH answers."""
    return Endpoint(address=str(node.address), port=node.ssh_port, user=lab.access.user, host_key=host_key)


def kubeconfig(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the kubeconfig; None when the lab has no cluster, or one whose control planes have to be asked for it.

    Raises:
        LabError: when it is not where the lab says.
    """
    if lab.cluster is None or lab.cluster.bootstrap is not None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return required_secret(setting, "kubeconfig")
    return read_kubeconfig(lab.cluster, root)


def required_secret(setting: Setting, name: str) -> str:
    """A secret of the stack.

    Raises:
        LabError: when it has none, with the command that sets it.
    """
    value = setting(name)
    if not isinstance(value, str) or not value:
        raise LabError(f"the stack has no secret rocelab:{name}; set it: pulumi config set --secret rocelab:{name}")
    return value

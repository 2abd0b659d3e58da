"""Where the runner's credentials come from: what the lab names, and secrets that are only ever asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from components.validation.ssh import Login
from stacks.access import read_host_keys, read_private_key
from stacks.base import LabError
from stacks.lab import Lab

Secret = Callable[[str], str | None]
"""The stack secret of a name, such as `sshPrivateKey`; None when the stack has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What opens the hosts and the cluster."""

    login: Login
    kubeconfig: str | None = field(repr=False)
    """None: the lab has no cluster."""


def access_to(lab: Lab, root: Path, secret: Secret) -> Access:
    """Reads keys and kubeconfig from where the lab says they are.

    Raises:
        LabError: naming what is missing; never what it contains.
    """
    endpoints = {node.name: (node.address, node.ssh_port) for node in lab.active_nodes}
    login = Login(
        user=lab.access.user,
        private_key=_private_key(lab, root, secret),
        endpoints=endpoints,
        host_keys=read_host_keys(lab.access, endpoints, root),
    )
    return Access(login=login, kubeconfig=_kubeconfig(lab, root, secret))


def _private_key(lab: Lab, root: Path, secret: Secret) -> str | None:
    if lab.access.identity == "file":
        return read_private_key(lab.access, root)
    return _required(secret, "sshPrivateKey") if lab.access.identity == "secret" else None


def _kubeconfig(lab: Lab, root: Path, secret: Secret) -> str | None:
    if lab.cluster is None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return _required(secret, "kubeconfig")
    path = root / (lab.cluster.kubeconfig_file or "")
    try:
        return path.read_text()
    except OSError as error:
        raise LabError(
            f"cluster.kubeconfig_file: {lab.cluster.kubeconfig_file} cannot be read ({error.strerror}). "
            "The simulator's is written by: sim up"
        ) from None


def _required(secret: Secret, name: str) -> str:
    value = secret(name)
    if not value:
        raise LabError(f"the stack has no secret rocelab:{name}; set it: pulumi config set --secret rocelab:{name}")
    return value

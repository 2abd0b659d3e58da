"""Credentials of hosts, cluster and vCenter, from the places that the lab file names."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path

import yaml

from components.provider.base import ProviderConfig
from components.ssh.connection import Endpoint, Keys, NoAnswerError, connected, keys_of
from components.ssh.session import feed
from stacks.access import read_private_key
from stacks.base import LabError
from stacks.cluster import Cluster, read_kubeconfig
from stacks.files import read_simulator_file
from stacks.frozen import frozen
from stacks.host_keys import pinned_keys
from stacks.lab import Lab
from stacks.nodes import Node

Setting = Callable[[str], object]
"""Value of a key of the stack's configuration, such as `sshPrivateKey`; None when it has none."""


@frozen
class Login:
    """SSH login of all nodes."""

    private_key: str | None = field(repr=False)
    """Text of the key; None: the running ssh-agent has it."""
    endpoints: dict[str, Endpoint]
    """By active node."""

    @property
    def keys(self) -> Keys:
        return keys_of(self.private_key)


@frozen
class LabAccess:
    """SSH login of the nodes, and the kubeconfig."""

    login: Login
    kubeconfig: str | None = field(repr=False)
    """None: the lab has no cluster."""


async def access_to(lab: Lab, root: Path, setting: Setting) -> LabAccess:
    """Reads keys and kubeconfig.

    Raises:
        LabError: naming what is missing; never what it contains.
    """
    login = login_to(lab, root, setting)
    if planes := control_planes_of(lab, login.endpoints):
        return LabAccess(login=login, kubeconfig=await admin_config(planes, login.keys))
    return LabAccess(login=login, kubeconfig=kubeconfig(lab, setting, root))


CONTROL_PLANE = "control_plane"


def kubeconfig_source(cluster: Cluster) -> str:
    """Where the kubeconfig is: `secret`, `control_plane`, or its file."""
    if cluster.bootstrap is not None:
        return CONTROL_PLANE
    if cluster.kubeconfig == "secret":
        return "secret"
    return str(cluster.kubeconfig_file)


async def admin_kubeconfig(source: str, config: ProviderConfig, root: Path) -> str:
    """Text of the kubeconfig. By its source, a resource is deleted after the lab lost its cluster.

    Raises:
        LabError: when it is missing, or no control plane returns it.
    """
    if source == "secret":
        return required_secret(config.get, "kubeconfig")
    if source != CONTROL_PLANE:
        return read_simulator_file("cluster.kubeconfig_file", Path(source), root)
    login = login_to(config.lab, root, config.get)
    return await admin_config(control_planes_of(config.lab, login.endpoints), login.keys)


def login_to(lab: Lab, root: Path, setting: Setting) -> Login:
    """The SSH login, without a cluster.

    Raises:
        LabError: when a key is missing.
    """
    keys = host_keys(lab, root, setting)
    return Login(private_key=private_key(lab, setting, root), endpoints=endpoints_of(lab, keys))


def private_key(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the lab's private key; None when the ssh-agent has it.

    Raises:
        LabError: when it is missing.
    """
    if lab.access.identity == "file":
        return read_private_key(lab.access, root)
    if lab.access.identity == "secret":
        return required_secret(setting, "sshPrivateKey")
    return None


def host_keys(lab: Lab, root: Path, setting: Setting = lambda _key: None) -> dict[str, str]:
    """Pinned host key by active node.

    Raises:
        LabError: when known_hosts lacks a key, or the secret is missing that VMs' keys are derived
            from.
    """
    places = {}
    for node in lab.active_nodes:
        places[node.name] = (node.address, node.ssh_port)
    return pinned_keys(lab, places, root, setting)


def endpoints_of(lab: Lab, keys: dict[str, str]) -> dict[str, Endpoint]:
    """SSH endpoint by active node; `keys` are the pinned host keys."""
    return {node.name: endpoint_of(lab, node, keys[node.name]) for node in lab.active_nodes}


def endpoint_of(lab: Lab, node: Node, host_key: str) -> Endpoint:
    return Endpoint(
        address=str(node.address), port=node.ssh_port, user=lab.access.user, host_key=host_key
    )


def kubeconfig(lab: Lab, setting: Setting, root: Path) -> str | None:
    """Text of the kubeconfig; None when the lab has no cluster, or one that rocelab creates.

    Raises:
        LabError: when it is missing.
    """
    if lab.cluster is None or lab.cluster.bootstrap is not None:
        return None
    if lab.cluster.kubeconfig == "secret":
        return required_secret(setting, "kubeconfig")
    return read_kubeconfig(lab.cluster, root)


def required_secret(setting: Setting, name: str) -> str:
    """A secret of the stack.

    Raises:
        LabError: when it is missing, with the command that sets it.
    """
    value = setting(name)
    if not isinstance(value, str) or not value:
        command = f"pulumi config set --secret rocelab:{name}"
        raise LabError(f"the stack has no secret rocelab:{name}; set it: {command}")
    return value


READ = "exec sudo -n cat /etc/kubernetes/admin.conf"
READ_S = 30


def control_planes_of(lab: Lab, endpoints: dict[str, Endpoint]) -> list[tuple[str, Endpoint]]:
    """Active control planes, in the order of the lab file; none if the cluster exists already."""
    if lab.cluster is None or lab.cluster.bootstrap is None:
        return []
    planes = []
    for node in lab.active_nodes:
        if node.role == "control_plane":
            planes.append(node.name)
    return [(name, endpoints[name]) for name in planes]


async def admin_config(planes: Sequence[tuple[str, Endpoint]], keys: Keys) -> str:
    """The first kubeconfig that a control plane has.

    Raises:
        LabError: with the answer of each control plane.
    """
    reasons = ["cluster.bootstrap: no control plane returned a kubeconfig:"]
    for name, endpoint in planes:
        try:
            async with asyncio.timeout(READ_S), connected(endpoint, keys, name=name) as connection:
                done = await feed(connection, READ, b"")
        except NoAnswerError as error:
            reasons.append(f"  {error}")
        except TimeoutError:
            reasons.append(f"  {name} ({endpoint.place}) gave no answer within {READ_S} s")
        else:
            if done.code == 0 and is_kubeconfig(done.out):
                return done.out
            last = (done.err.strip().splitlines() or ["it contains no kubeconfig"])[-1]
            reasons.append(f"  {name}: /etc/kubernetes/admin.conf: {last[:160]}")
    raise LabError("\n".join([*reasons, "See the output hosts for why."]))


def is_kubeconfig(text: str) -> bool:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(config, dict):
        return False
    return config.get("kind") == "Config" and bool(config.get("clusters"))

"""The kubeconfig of a cluster that is made here, read where kubeadm put it: on a control plane that answers."""

import asyncio
from collections.abc import Sequence

import yaml

from components.ssh.connection import Endpoint, Keys, NoAnswerError, connected
from components.ssh.session import feed
from stacks.base import LabError
from stacks.lab import Lab

READ = "exec sudo -n cat /etc/kubernetes/admin.conf"
READ_S = 30


def control_planes_of(lab: Lab, endpoints: dict[str, Endpoint]) -> list[tuple[str, Endpoint]]:
    """The control planes that are active, in the lab's order; none where the cluster exists by itself."""
    if lab.cluster is None or lab.cluster.bootstrap is None:
        return []
    return [(node.name, endpoints[node.name]) for node in lab.active_nodes if node.role == "control_plane"]


async def admin_config(planes: Sequence[tuple[str, Endpoint]], keys: Keys) -> str:
    """The text of the first one that a control plane has.

    Raises:
        LabError: with what each control plane said.
    """
    said: list[str] = []
    for name, endpoint in planes:
        try:
            async with asyncio.timeout(READ_S), connected(endpoint, keys, name=name) as connection:
                done = await feed(connection, READ, b"")
        except NoAnswerError as error:
            said.append(f"  {error}")
        except TimeoutError:
            said.append(f"  {name} ({endpoint.place}) gave no answer within {READ_S} s")
        else:
            if done.code == 0 and is_kubeconfig(done.out):
                return done.out
            last = (done.err.strip().splitlines() or ["no kubeconfig in it"])[-1]
            said.append(f"  {name}: /etc/kubernetes/admin.conf: {last[:160]}")
    raise LabError(
        "\n".join(["cluster.bootstrap: no control plane gives a kubeconfig:", *said, "See the output hosts for why."])
    )


def is_kubeconfig(text: str) -> bool:
    """Whether it names a cluster; what it says beyond that is for who uses it."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    return isinstance(found, dict) and found.get("kind") == "Config" and bool(found.get("clusters"))

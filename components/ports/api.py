"""Where the API server of a cluster answers that exists by itself, as the kubeconfig has it."""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

import yaml

from stacks.base import LabError

Place = tuple[str, int]
"""Name or address, and port."""


def server_of(kubeconfig: str) -> Place:
    """The server of the current context.

    Raises:
        LabError: when none can be told, or it is behind a proxy, where a connection of ours would prove nothing.
    """
    try:
        said = yaml.safe_load(kubeconfig)
        context = _named(said, "context", said.get("current-context"))
        cluster = _named(said, "cluster", context.get("cluster"))
        server = urlsplit(str(cluster.get("server") or ""))
        port = server.port or (80 if server.scheme == "http" else 443)
    except (yaml.YAMLError, AttributeError, TypeError, ValueError):
        raise LabError("the kubeconfig cannot be read") from None
    if not server.hostname:
        raise LabError("the kubeconfig's current context names no server")
    if cluster.get("proxy-url"):
        raise LabError("the kubeconfig goes to the API server by a proxy: kubectl get nodes proves it")
    return server.hostname, port


def only_here(place: Place) -> bool:
    """Whether it is an address of this machine alone, such as the end of a tunnel."""
    try:
        return place[0] == "localhost" or ip_address(place[0]).is_loopback
    except ValueError:
        return False


def _named(said: Mapping[str, list[Mapping[str, object]]], kind: str, name: object) -> Mapping[str, object]:
    found = next((one[kind] for one in said.get(f"{kind}s") or () if one.get("name") == name), None)
    return found if isinstance(found, Mapping) else {}

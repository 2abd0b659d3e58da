"""The IPAMs, one file each: plugin, program, pools and definitions. `cluster.ipam.kind` names the
file.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from components.by_name import class_named
from components.cluster.manifests import Manifest, Program
from stacks.bill import Upstream
from stacks.cluster import Cluster
from stacks.lab import Lab
from stacks.rails import Rail

IPS: Manifest = {"ips": True}
"""Capability of a plugin whose pods choose their addresses (`Static.NAMED_BY_PODS`)."""


class AddressSource(ABC):
    """One IPAM in one cluster. Pure: it renders manifests. Only `for_rail` is required.

    >>> class HostLocal(AddressSource):
    ...     def for_rail(self, rail):
    ...         return {"type": "host-local", "subnet": str(rail.pod.subnet)}
    >>> HostLocal(lab.cluster).for_rail(lab.rails[0])
    {'type': 'host-local', 'subnet': '10.20.111.0/24'}
    """

    name: ClassVar[str] = ""
    """Names the resources of its program. It must not change: resources of that name are in the
    state."""
    kinds: ClassVar[Mapping[str, Manifest]] = {}
    """Custom resource definitions written here, by short key; pinned files are in
    `IpamBase.DEFINITIONS`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def definitions(self) -> dict[str, Upstream | Manifest]:
        """All its custom resource definitions by short key."""
        return {**self.cluster.ipam.DEFINITIONS, **self.kinds}

    @abstractmethod
    def for_rail(self, rail: Rail) -> Manifest:
        """The `ipam` object of the rail's CNI configuration."""

    def program(self) -> Program | None:
        """What runs in the cluster. None: the CNI plugin on the nodes is enough."""
        return None

    def pools(self, lab: Lab) -> dict[str, Manifest]:
        """Custom resources with the addresses, by `<rail>-pool`."""
        del lab
        return {}

    def blocks(self, lab: Lab) -> dict[str, list[str]]:
        """What jobs wait for: the active nodes that need a block, by API path of the pool."""
        del lab
        return {}

    def in_nic_policy(self) -> Manifest:
        """Its part of the NicClusterPolicy, if the network operator can run it."""
        return {}


def address_source(cluster: Cluster) -> AddressSource:
    """The IPAM that the lab has chosen."""
    source: AddressSource = class_named(__name__, cluster.ipam.kind, AddressSource)(cluster)
    return source

"""The IPAMs, one file each: plugin, program, pools and definitions. `cluster.ipam.kind` names the file."""

from components.by_name import class_named
from components.cluster.addresses import AddressSource
from components.cluster.manifests import Manifest
from stacks.base import members
from stacks.bill import Upstream
from stacks.cluster import Cluster
from stacks.ipam import Ipam


def address_source(cluster: Cluster) -> AddressSource:
    """The IPAM that the lab has chosen."""
    return _source(cluster.ipam.kind)(cluster)


def kinds_of_all() -> dict[str, Upstream | Manifest]:
    """The definitions of every IPAM, whichever a lab has."""
    found: dict[str, Upstream | Manifest] = {}
    for kind in members(Ipam, "kind"):
        found.update(_source(kind).kinds)
    return found


def _source(kind: str) -> type[AddressSource]:
    source: type[AddressSource] = class_named(__name__, kind, AddressSource)
    return source

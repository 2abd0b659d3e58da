"""The IPAMs, one file each: plugin, program, pools and definitions. `cluster.ipam.kind` names the file."""

from components.by_name import class_named
from components.cluster.addresses import AddressSource
from stacks.cluster import Cluster


def address_source(cluster: Cluster) -> AddressSource:
    """The IPAM that the lab has chosen."""
    source: AddressSource = class_named(__name__, cluster.ipam.kind, AddressSource)(cluster)
    return source

"""Static addresses: each pod names its own in its annotation (`ips`)."""

from components.cluster.addresses import AddressSource
from components.cluster.manifests import Manifest
from stacks.rails import Rail


class StaticAddresses(AddressSource):
    """The plugin is enough."""

    def for_rail(self, rail: Rail) -> Manifest:
        del rail
        return {"type": "static"}

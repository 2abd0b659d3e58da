"""Static addresses: each pod names its own in its annotation (`ips`)."""

from components.cluster.ipam import AddressSource
from components.cluster.manifests import Manifest
from stacks.rails import Rail


class StaticAddresses(AddressSource):
    """Needs only the plugin."""

    def for_rail(self, rail: Rail) -> Manifest:
        del rail
        return {"type": "static"}

"""How hosts and the cluster's objects belong together. Pure."""

from components.inventory.model import Cluster, CustomObject, Host, KubeNode


class KubeNodes:
    """The nodes of a cluster by host; none without a cluster."""

    def __init__(self, cluster: Cluster | None) -> None:
        nodes = cluster.nodes.or_else(()) if cluster else ()
        self._by_name = {address: node for node in nodes for address in node.internal_ips}
        self._by_name |= {node.name: node for node in nodes}

    def of(self, host: Host, *names: str) -> KubeNode | None:
        """The node of a host, by its names and its address; `names` are further ones that it has."""
        asked = (host.name, *names, host.address, host.system.hostname.or_else(""))
        return next((self._by_name[name] for name in asked if name in self._by_name), None)


def managed_pfs(state: CustomObject) -> frozenset[str]:
    """PCI addresses of the PFs on which the SR-IOV operator makes VFs, by a SriovNetworkNodeState."""
    interfaces = state.spec.get("interfaces")
    found = [one for one in interfaces if isinstance(one, dict)] if isinstance(interfaces, list) else []
    return frozenset(
        str(one.get("pciAddress")) for one in found if one.get("numVfs") and not one.get("externallyManaged")
    )

"""How hosts and the cluster's objects belong together. Pure."""

from components.inventory.model import Cluster, CustomObject, Host, KubeNode


class KubeNodes:
    """The nodes of a cluster by host; none without a cluster."""

    def __init__(self, cluster: Cluster | None) -> None:
        nodes = cluster.nodes.or_else(()) if cluster else ()
        self._by_name = {address: node for node in nodes for address in node.internal_ips}
        self._by_name |= {node.name: node for node in nodes}

    def of(self, host: Host, *names: str) -> KubeNode | None:
        """The node of a host, by its address, its names, and further `names` of it."""
        for name in (host.name, *names, host.address, host.system.hostname.or_else("")):
            if name in self._by_name:
                return self._by_name[name]
        return None


def managed_pfs(state: CustomObject) -> frozenset[str]:
    """PCI addresses of PFs on which the SR-IOV operator makes VFs."""
    interfaces = state.spec.get("interfaces")
    managed = set()
    for interface in interfaces if isinstance(interfaces, list) else ():
        if not isinstance(interface, dict) or interface.get("externallyManaged"):
            continue
        if interface.get("numVfs"):
            managed.add(str(interface.get("pciAddress")))
    return frozenset(managed)

"""nv-ipam: the controller gives each node a block of a rail's pool, and the node assigns its
addresses.
"""

from collections.abc import Mapping
from typing import ClassVar

from components.cluster.ipam import AddressSource
from components.cluster.manifests import (
    Manifest,
    Program,
    in_parts,
    render,
    render_all,
    render_program,
)
from components.cluster.rails import nodes_on, pod_side, populated_rails
from stacks.delivery import SriovOperator
from stacks.lab import Lab
from stacks.rails import Rail

API = "/apis/nv-ipam.nvidia.com/v1alpha1"


class NvIpamPools(AddressSource):
    """A pool per rail. The network operator brings program and definitions where it runs."""

    name = "nv-ipam"
    kinds: ClassVar[Mapping[str, Manifest]] = render_all("cluster/manifests/nv_ipam/definitions")

    def for_rail(self, rail: Rail) -> Manifest:
        return {"type": "nv-ipam", "poolName": rail.name, "poolType": "ippool"}

    def pools(self, lab: Lab) -> dict[str, Manifest]:
        return {f"{rail.name}-pool": self.pool(lab, rail) for rail in populated_rails(lab)}

    def blocks(self, lab: Lab) -> dict[str, list[str]]:
        path = f"{API}/namespaces/{self._namespace()}/ippools"
        active = {node.name for node in lab.active_nodes}
        served = {}
        for rail in populated_rails(lab):
            names = [node.name for node in nodes_on(lab, rail)]
            served[f"{path}/{rail.name}"] = [name for name in names if name in active]
        return served

    def in_nic_policy(self) -> Manifest:
        # its webhook needs certificates, and the lab file refuses the same
        image = in_parts(self.cluster.bill.operator_nv_ipam, self.cluster.registry)
        return {"nvIpam": {**image, "enableWebhook": False}}

    def pool(self, lab: Lab, rail: Rail) -> Manifest:
        """The pool of a rail: whole blocks, for the nodes of the rail."""
        pod = pod_side(rail)
        gateway = str(pod.gateway) if pod.gateway else ""
        return render(
            "cluster/manifests/nv_ipam/pool",
            rail=rail.name,
            namespace=self._namespace(),
            subnet=str(pod.subnet),
            addresses_per_node=pod.addresses_per_node,
            gateway=gateway,
            excluded=[(str(first), str(last)) for first, last in pod.outside_blocks()],
            nodes=[node.name for node in nodes_on(lab, rail)],
        )

    def program(self) -> Program:
        """The controller gives blocks to nodes, and the agent addresses to pods."""
        return render_program(
            "nv_ipam/rbac",
            "nv_ipam/programs",
            namespace=self.cluster.system_namespace,
            image=self.cluster.bill.nv_ipam,
        )

    def _namespace(self) -> str:
        """The namespace of nv-ipam, which looks for pools only there."""
        delivery = self.cluster.delivery
        if isinstance(delivery, SriovOperator):
            return delivery.namespace
        return self.cluster.system_namespace

"""The reference CNI plugins' own IPAM, with a daemon and a kind that it does not have, as `…/ipam/host_local.py`."""

from typing import ClassVar

from components.cluster.ipam import AddressSource
from components.cluster.manifests import Manifest, Program
from components.cluster.rails import pod_side
from stacks.rails import Rail

# rocelab's own programs are templates; see `components/cluster/manifests`
SWEEP: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "sweep", "namespace": "kube-system"},
}


class HostLocal(AddressSource):
    name = "host-local"
    kinds: ClassVar[dict[str, Manifest]] = {"ranges": {"kind": "CustomResourceDefinition"}}

    def for_rail(self, rail: Rail) -> Manifest:
        pod = pod_side(rail)
        return {"type": "host-local", "subnet": str(pod.subnet), "routes": self.cluster.ipam.routes}

    def program(self) -> Program:
        pod: Manifest = {"containers": [{"name": "sweep", "image": self.cluster.bill.dhcp_shell}]}
        return Program(runs={"daemonset": {**SWEEP, "spec": {"template": {"spec": pod}}}})

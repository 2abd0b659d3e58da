"""Whereabouts: one list of a rail's addresses for the whole cluster, kept in custom resources."""

from components.cluster.ipam import AddressSource
from components.cluster.manifests import Manifest, Program, render_program
from components.cluster.rails import pod_side
from stacks.ipam import WHEREABOUTS_SHA256
from stacks.rails import Rail


class WhereaboutsList(AddressSource):
    """One list for the whole cluster."""

    name = "whereabouts"

    def for_rail(self, rail: Rail) -> Manifest:
        pod = pod_side(rail)
        return {
            "type": "whereabouts",
            "range": str(pod.subnet),
            "range_start": str(pod.first_address),
            "range_end": str(pod.last_address),
            **({"gateway": str(pod.gateway)} if pod.gateway else {}),
            # pools are named after the range; the prefix keeps equal ranges of other labs apart
            "network_name": rail.network_name,
        }

    def program(self) -> Program:
        return render_program(
            "whereabouts/rbac",
            "whereabouts/programs",
            namespace=self.cluster.system_namespace,
            image=self.cluster.bill.whereabouts,
            kinds=list(WHEREABOUTS_SHA256),
        )

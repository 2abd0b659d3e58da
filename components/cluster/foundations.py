"""What everything else in the cluster waits for: namespaces, definitions, and the operators' custom resources."""

from collections.abc import Mapping

import pulumi

from components.cluster.manifests import Manifest
from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from components.cluster.operators import Owner, place
from components.cluster.profiles import kinds, placed_source, policies, render_namespaces
from components.cluster.store import Store, read_definitions
from stacks.base import LabError
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab

Waits = Mapping[str, list[pulumi.CustomResource]]
"""What each program waits for by its key; and `networks`, `pools` and `policies`."""


class Foundations:
    def __init__(self, name: str, owner: Owner, child: pulumi.ResourceOptions) -> None:
        self._name, self._owner, self._child = name, owner, child

    def place(self, lab: Lab, cluster: Cluster) -> Waits:
        """Places all of them, and returns what each program waits for."""
        namespaces = {
            key: self._placed(f"namespace-{key}", manifest) for key, manifest in render_namespaces(lab, cluster).items()
        }
        # a definition takes every object of its kind with it, and on hardware some may be somebody else's
        keep = pulumi.ResourceOptions(retain_on_delete=None if lab.simulated else True)
        defined = {
            key: self._placed(f"definition-{key}", manifest, keep) for key, manifest in _definitions(cluster).items()
        }
        ordered: list[pulumi.CustomResource] = []
        for key, manifest in policies(lab, cluster).items():
            # in their order: the driver before the VFs, and the mode of the nodes before their PFs are split
            ordered.append(self._placed(key, manifest, pulumi.ResourceOptions(depends_on=list(ordered))))
        operated = ordered if isinstance(cluster.delivery, SriovOperator) else []
        source = placed_source(cluster)
        pools = [defined[key] for key in source.definitions] if source else []
        networks = [defined["networks"]] if "networks" in defined else operated
        return {
            "multus": networks,
            **({source.name: pools} if source else {}),
            "mpi-operator": [defined["mpijobs"], namespaces[MPI_NAMESPACE]],
            "networks": networks,
            "pools": pools or operated,
            "policies": ordered,
        }

    def _placed(
        self, key: str, manifest: Manifest, also: pulumi.ResourceOptions | None = None
    ) -> pulumi.CustomResource:
        opts = pulumi.ResourceOptions.merge(self._child, also)
        return place(f"{self._name}-{key}", manifest, self._owner, opts)


def _definitions(cluster: Cluster) -> Mapping[str, Manifest]:
    try:
        return read_definitions(Store.from_environment(), kinds(cluster))
    except LabError as error:
        # the loader cannot read these files, and their fault is the machine's: no traceback
        raise pulumi.RunError(str(error)) from None

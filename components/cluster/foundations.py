"""The objects that everything else waits for: namespaces, definitions, and the operators' custom
resources.
"""

from collections.abc import Mapping

import pulumi

from components.cluster.gpus import OWNER_S_FIELDS
from components.cluster.manifests import Manifest
from components.cluster.operators import place
from components.cluster.profiles import (
    MPI_NAMESPACE,
    kinds,
    placed_source,
    policies,
    render_namespaces,
)
from components.cluster.upstream import Store, read_definitions
from stacks.base import LabError
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab

Waits = Mapping[str, list[pulumi.CustomResource]]
"""What each program waits for, by its key, and what `networks`, `pools` and `policies` wait for."""


def place_foundations(
    name: str, lab: Lab, cluster: Cluster, child: pulumi.ResourceOptions
) -> Waits:
    """Places all of them with the options `child`, and returns what each program waits for."""

    def placed(
        key: str, manifest: Manifest, also: pulumi.ResourceOptions | None = None
    ) -> pulumi.CustomResource:
        merged = pulumi.ResourceOptions.merge(child, also)
        return place(f"{name}-{key}", manifest, lab.name, merged)

    namespaces, defined = {}, {}
    for key, manifest in render_namespaces(lab, cluster).items():
        namespaces[key] = placed(f"namespace-{key}", manifest)
    # deleting a definition deletes every object of its kind, on hardware perhaps those of others
    kept = None if lab.simulated else True
    keep = pulumi.ResourceOptions(retain_on_delete=kept)
    for key, manifest in _definitions(cluster).items():
        defined[key] = placed(f"definition-{key}", manifest, keep)
    ordered: list[pulumi.CustomResource] = []
    for key, manifest in policies(lab, cluster).items():
        # in order: the driver before the VFs, and the nodes' mode before their VFs
        also = pulumi.ResourceOptions(depends_on=list(ordered))
        if key == "gpu-policy":
            also.ignore_changes = list(OWNER_S_FIELDS)
        ordered.append(placed(key, manifest, also))
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


def _definitions(cluster: Cluster) -> Mapping[str, Manifest]:
    try:
        return read_definitions(Store.from_environment(), kinds(cluster))
    except LabError as error:
        # a missing file is not a bug: no traceback
        raise pulumi.RunError(str(error)) from None

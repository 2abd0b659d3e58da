"""The namespaces that are made here."""

from components.cluster.manifests import PART_OF, Manifest
from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from stacks.cluster import Cluster
from stacks.lab import Lab


def render_namespaces(lab: Lab, cluster: Cluster) -> dict[str, Manifest]:
    """Namespaces that are ours, by name. Those of `cluster.namespaces` exist already and outlive the lab."""
    made: dict[str, Manifest] = {MPI_NAMESPACE: _namespace(MPI_NAMESPACE)}
    if lab.benchmarks is not None and lab.benchmarks.namespace not in cluster.namespaces:
        # RDMA wants IPC_LOCK, which the baseline and restricted levels of pod security refuse
        bench = _namespace(lab.benchmarks.namespace, {"pod-security.kubernetes.io/enforce": "privileged"})
        made[lab.benchmarks.namespace] = bench
    return made


def _namespace(name: str, labels: Manifest | None = None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {**PART_OF, **(labels or {})}},
    }

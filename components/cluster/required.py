"""What has to be in a cluster before this program begins: operators that are not installed by it."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from components.cluster.profiles import programs
from components.cluster.registry import part
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HELM = "--repo https://helm.ngc.nvidia.com/nvidia"
NETWORK_OPERATOR, GPU_OPERATOR = "26.4.1", "v26.7.0"
"""Chart versions whose custom resources are rendered here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Required:
    """One object whose absence is told before anything is changed."""

    path: str
    """In the API."""
    lack: str
    """What to say when nothing is there: what is missing, why it is needed, and the command that brings it."""

    def as_dict(self) -> dict[str, str]:
        """As it goes into a property of a resource."""
        return asdict(self)


def required(lab: Lab, cluster: Cluster) -> list[Required]:
    """Everything that the lab's profile counts on."""
    return [*_operators(cluster), *_login(lab, cluster)]


def _operators(cluster: Cluster) -> Iterator[Required]:
    if isinstance(cluster.delivery, SriovOperator):
        install = (
            f"helm install network-operator network-operator {HELM} --version {NETWORK_OPERATOR} "
            f"--namespace {cluster.delivery.namespace} --create-namespace --set sriovNetworkOperator.enabled=true "
            # its SriovOperatorConfig would have two owners, Helm and this program
            "--set sriov-network-operator.sriovOperatorConfig.deploy=false "
            f"--set sriov-network-operator.operator.resourcePrefix={cluster.delivery.resource_prefix}"
        )
        for kind in ("nicclusterpolicies.mellanox.com", "sriovnetworknodepolicies.sriovnetwork.openshift.io"):
            yield Required(path=f"{DEFINITIONS}/{kind}", lack=_lack("cluster.delivery sriov_operator", kind, install))
    if cluster.gpus == "operator":
        kind = "clusterpolicies.nvidia.com"
        install = (
            f"helm install gpu-operator gpu-operator {HELM} --version {GPU_OPERATOR} --namespace gpu-operator "
            "--create-namespace --set clusterPolicy.deployCR=false"
        )
        yield Required(path=f"{DEFINITIONS}/{kind}", lack=_lack("cluster.gpus operator", kind, install))


def _login(lab: Lab, cluster: Cluster) -> Iterator[Required]:
    """The registry's login, in each namespace whose pods pull with it; namespaces that are made here come later."""
    secret = cluster.registry.pull_secret
    if not secret:
        return
    agents = [manifest for program in programs(lab, cluster).values() for manifest in program.runs.values()]
    pulling = {str(part(manifest, "metadata")["namespace"]) for manifest in agents} - {MPI_NAMESPACE}
    if isinstance(cluster.delivery, SriovOperator):
        # its own pods are the chart's, and those that its policy asks for name the lab's login
        pulling.add(cluster.delivery.namespace)
    for namespace in sorted(pulling):
        yield Required(
            path=f"/api/v1/namespaces/{namespace}/secrets/{secret}",
            lack=f"cluster.registry.pull_secret: {namespace} has no secret {secret}, so no pod there could pull. Make "
            f"it: kubectl -n {namespace} create secret docker-registry {secret} --docker-server=… --docker-username=…",
        )


def _lack(where: str, kind: str, install: str) -> str:
    return f"{where}: the cluster does not know {kind}, so its operator is not installed. Install it: {install}"

"""What a cluster must have, and what must not be in the way, before rocelab changes it. Pure."""

from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from components.cluster.manifests import PART_OF, Manifest, part, path_of
from components.cluster.profiles import MPI_NAMESPACE, agents, policies
from components.cluster.rails import interfaces, populated_rails
from components.kubernetes.client import Object, at
from stacks.cluster import Cluster
from stacks.delivery import Pvrdma, SharedRdma, SriovOperator, SriovPlain
from stacks.frozen import frozen
from stacks.lab import Lab

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SRIOV_KINDS = (
    "nicclusterpolicies.mellanox.com",
    "sriovnetworknodepolicies.sriovnetwork.openshift.io",
)
CHARTS = "--repo https://helm.ngc.nvidia.com/nvidia"
NETWORK_OPERATOR, GPU_OPERATOR = "26.4.1", "v26.7.0"
"""Chart versions whose custom resources are rendered here."""
[OWNER_LABEL] = PART_OF


@frozen
class Precondition:
    """One object that must exist, or must not be somebody else's."""

    path: str
    """API path of an object or of a collection."""
    fault: str
    """What is wrong, why that matters, how to fix it. `{names}` becomes the objects in the way."""
    conflict: bool = False
    """Whether an object that rocelab did not create is in the way. Otherwise it must exist."""
    fields: Sequence[str] = ()
    """Of a conflict: an object without any of these fields, as dotted paths, is not in the way."""
    nics: Sequence[str] = ()
    """PFs and vendors: an SriovNetworkNodePolicy of other NICs is not in the way."""

    def fault_of(self, answer: Object | None) -> str:
        """The fault of what the API server answered at the path, if there is one."""
        if not self.conflict:
            return self.fault if answer is None else ""
        names = []
        for item in _objects(answer):
            if self._is_in_the_way(item):
                names.append(_name(item, self.fields))
        if names:
            return self.fault.replace("{names}", ", ".join(names))
        return ""

    def _is_in_the_way(self, item: JsonValue) -> bool:
        if at(item, "metadata", "labels", OWNER_LABEL) == PART_OF[OWNER_LABEL]:
            return False
        if self.fields and not _set_fields(item, self.fields):
            return False
        return not self.nics or _selects(item, self.nics)


def _objects(answer: Object | None) -> list[JsonValue]:
    """The object, or those of a collection."""
    if answer is None:
        return []
    items = answer.get("items")
    return items if isinstance(items, list) else [answer]


def _set_fields(item: JsonValue, fields: Sequence[str]) -> list[str]:
    """The fields that an object sets; ConfigMaps write false as text."""
    return [field for field in fields if at(item, *field.split(".")) not in (None, False, "false")]


def _selects(policy: JsonValue, nics: Sequence[str]) -> bool:
    """Whether an SriovNetworkNodePolicy may select these NICs; `pf#0-3` is a part of a PF's VFs."""
    selector = at(policy, "spec", "nicSelector")
    names = at(selector, "pfNames")
    if isinstance(names, list) and names:
        return any(str(name).partition("#")[0] in nics for name in names)
    vendor = at(selector, "vendor")
    return vendor is None or vendor in nics


def _name(item: JsonValue, fields: Sequence[str]) -> str:
    name = str(at(item, "metadata", "name"))
    present = _set_fields(item, fields)
    if present:
        return f"{name} ({', '.join(present)})"
    return name


def preconditions(lab: Lab, cluster: Cluster) -> list[Precondition]:
    """All that the claim checks before anything is placed."""
    return [
        *_operators(cluster),
        *_login(lab, cluster),
        *_cilium(cluster),
        *_owners_of_rails(lab, cluster),
        *_owners_of_gpus(cluster),
        *_taken_places(lab, cluster),
    ]


def _operators(cluster: Cluster) -> Iterator[Precondition]:
    """The definitions that prove that a profile's operators are installed."""
    if isinstance(cluster.delivery, SriovOperator):
        install = (
            f"helm install network-operator network-operator {CHARTS} --version {NETWORK_OPERATOR} "
            f"--namespace {cluster.delivery.namespace} --create-namespace "
            "--set sriovNetworkOperator.enabled=true "
            # its SriovOperatorConfig would have two owners, Helm and rocelab
            "--set sriov-network-operator.sriovOperatorConfig.deploy=false "
            "--set sriov-network-operator.operator.resourcePrefix="
            f"{cluster.delivery.resource_prefix}"
        )
        where = "cluster.delivery sriov_operator"
        for kind in SRIOV_KINDS:
            yield _installed(where, kind, install)
    if cluster.gpus == "operator":
        install = (
            f"helm install gpu-operator gpu-operator {CHARTS} --version {GPU_OPERATOR} "
            "--namespace gpu-operator --create-namespace --set clusterPolicy.deployCR=false"
        )
        yield _installed("cluster.gpus operator", "clusterpolicies.nvidia.com", install)


def _installed(where: str, kind: str, install: str) -> Precondition:
    return Precondition(
        path=f"{DEFINITIONS}/{kind}",
        fault=f"{where}: the cluster has no kind {kind}. Install its operator: {install}",
    )


def _login(lab: Lab, cluster: Cluster) -> Iterator[Precondition]:
    """The registry's login, in each namespace whose pods pull with it and that exists already."""
    secret = cluster.registry.pull_secret
    if not secret:
        return
    pulling = set()
    for manifest in agents(lab, cluster):
        pulling.add(str(part(manifest, "metadata")["namespace"]))
    pulling.discard(MPI_NAMESPACE)
    if isinstance(cluster.delivery, SriovOperator):
        # the chart owns the operator's pods, but those of its policy use the lab's login
        pulling.add(cluster.delivery.namespace)
    for namespace in sorted(pulling):
        yield Precondition(
            path=f"/api/v1/namespaces/{namespace}/secrets/{secret}",
            fault=f"cluster.registry.pull_secret: create it: kubectl -n {namespace} create secret "
            f"docker-registry {secret} --docker-server=… --docker-username=…",
        )


def _cilium(cluster: Cluster) -> Iterator[Precondition]:
    """With `cni.exclusive`, its chart's default, Cilium renames Multus' file when it appears."""
    if isinstance(cluster.delivery, Pvrdma):
        return
    yield Precondition(
        path="/api/v1/namespaces/kube-system/configmaps/cilium-config",
        conflict=True,
        fields=("data.cni-exclusive",),
        fault=f"cluster.delivery {cluster.delivery.profile}: Cilium (ConfigMap "
        "kube-system/{names}) renames 00-multus.conf to 00-multus.conf.cilium_bak. Turn that off: "
        "helm upgrade cilium cilium/cilium -n kube-system --reuse-values --set "
        "cni.exclusive=false, then kubectl -n kube-system rollout restart daemonset/cilium",
    )


def _owners_of_rails(lab: Lab, cluster: Cluster) -> Iterator[Precondition]:
    """NVIDIA's operators at work beside a profile that installs the same parts itself."""
    delivery = cluster.delivery
    where = f"cluster.delivery {delivery.profile}"
    parts = ["spec.secondaryNetwork.multus"]
    if isinstance(delivery, SriovPlain):
        parts.append("spec.sriovDevicePlugin")
    elif isinstance(delivery, SharedRdma):
        parts.append("spec.rdmaSharedDevicePlugin")
    else:
        return
    if cluster.ipam.kind == "nv_ipam":
        parts.append("spec.nvIpam")
    yield Precondition(
        path="/apis/mellanox.com/v1alpha1/nicclusterpolicies",
        conflict=True,
        fields=parts,
        fault=f"{where}: NicClusterPolicy {{names}} already runs what this profile installs. "
        "Remove these fields, or delete it and let rocelab write one: cluster.delivery "
        "sriov_operator",
    )
    if isinstance(delivery, SriovPlain):
        pfs = [name for rail in populated_rails(lab) for name in interfaces(lab, rail)]
        yield Precondition(
            path="/apis/sriovnetwork.openshift.io/v1/sriovnetworknodepolicies",
            conflict=True,
            nics=[*pfs, *cluster.rdma_vendor_ids],
            fault=f"{where}: SriovNetworkNodePolicy {{names}} selects PFs of this lab. Delete it, "
            "name other PFs in its nicSelector.pfNames, or let the operator own the VFs: "
            "cluster.delivery sriov_operator",
        )


def _owners_of_gpus(cluster: Cluster) -> Iterator[Precondition]:
    if cluster.gpus == "none":
        return
    where = f"cluster.gpus {cluster.gpus}"
    hand_over = ""
    if cluster.gpus == "operator":
        hand_over = (
            f". To hand it over: helm upgrade gpu-operator gpu-operator {CHARTS} --version "
            f"{GPU_OPERATOR} --namespace gpu-operator --reuse-values --set "
            "clusterPolicy.deployCR=false, then delete the policy"
        )
    yield Precondition(
        path="/apis/nvidia.com/v1/clusterpolicies",
        conflict=True,
        fault=f"{where}: ClusterPolicy {{names}} already offers GPUs here. To leave it and its "
        f"DCGM as they are, set cluster.gpus: none{hand_over}",
    )
    yield Precondition(
        path="/apis/nvidia.com/v1alpha1/gpuclusters",
        conflict=True,
        fault=f"{where}: GPUCluster {{names}} offers GPUs by Dynamic Resource Allocation, but "
        "jobs ask for nvidia.com/gpu. Set cluster.gpus: none and leave benchmarks.nccl out, or set "
        "gpuCluster.deployCR=false in the chart's values",
    )


HAND_OVER = {
    "NicClusterPolicy": "To keep it, leave section cluster out. To hand it over, save and "
    "delete it while no job runs: Multus, plugins and drivers leave the nodes with it",
    "SriovOperatorConfig": "Hand it over: helm upgrade network-operator "
    f"network-operator {CHARTS} --version {NETWORK_OPERATOR} --namespace {{namespace}} "
    "--reuse-values --set sriov-network-operator.sriovOperatorConfig.deploy=false",
}
"""How the operators' own objects come into rocelab's hands."""


def _taken_places(lab: Lab, cluster: Cluster) -> Iterator[Precondition]:
    """Programs and policies of the same name, which would have two owners."""
    for manifest in [*agents(lab, cluster), *policies(lab, cluster).values()]:
        if manifest["kind"] != "ClusterPolicy":  # of any name: see above
            yield _taken_place(manifest)


def _taken_place(manifest: Manifest) -> Precondition:
    kind, metadata = str(manifest["kind"]), part(manifest, "metadata")
    name, namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
    in_namespace = f"-n {namespace} " if namespace else ""
    remedy = HAND_OVER.get(
        kind,
        "Remove it with the tool that installed it, or by kubectl "
        f"{in_namespace}delete {kind.lower()} {name}",
    )
    place = f"{namespace}/{name}" if namespace else name
    return Precondition(
        path=path_of(manifest),
        conflict=True,
        fault=f"cluster: {kind} {place} exists, but rocelab did not create it. "
        f"{remedy.format(name=name, namespace=namespace)}",
    )

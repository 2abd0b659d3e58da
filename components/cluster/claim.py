"""The claim: an object in the cluster that names its lab, created before anything else.

The state contains the path of this module, so it must not move.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pulumi
from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    Resource,
    ResourceProvider,
    UpdateResult,
)

from components.cluster.manifests import PART_OF, Manifest, part
from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from components.cluster.profiles import programs
from components.kubernetes.client import ApiError, KubernetesApi, at
from stacks.base import LabError
from stacks.cluster import Cluster
from stacks.delivery import SriovOperator
from stacks.lab import Lab

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HELM = "--repo https://helm.ngc.nvidia.com/nvidia"
NETWORK_OPERATOR, GPU_OPERATOR = "26.4.1", "v26.7.0"
"""Chart versions whose custom resources are rendered here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Required:
    """One object that must exist before rocelab changes the cluster."""

    path: str
    """API path."""
    lack: str
    """The message if it is missing: what, why it is needed, and the command that installs it."""


def required_objects(lab: Lab, cluster: Cluster) -> list[Required]:
    """All objects that the lab's profile needs."""
    return [*_operators(cluster), *_login(lab, cluster)]


def _operators(cluster: Cluster) -> Iterator[Required]:
    if isinstance(cluster.delivery, SriovOperator):
        install = (
            f"helm install network-operator network-operator {HELM} --version {NETWORK_OPERATOR} "
            f"--namespace {cluster.delivery.namespace} --create-namespace --set sriovNetworkOperator.enabled=true "
            # its SriovOperatorConfig would have two owners, Helm and rocelab
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
    """The registry's login, in each namespace whose pods pull with it, except namespaces that rocelab creates later."""
    secret = cluster.registry.pull_secret
    if not secret:
        return
    agents = [manifest for program in programs(lab, cluster).values() for manifest in program.runs.values()]
    pulling = {str(part(manifest, "metadata")["namespace"]) for manifest in agents} - {MPI_NAMESPACE}
    if isinstance(cluster.delivery, SriovOperator):
        # the chart owns the operator's pods, but those of its policy use the lab's login
        pulling.add(cluster.delivery.namespace)
    for namespace in sorted(pulling):
        yield Required(
            path=f"/api/v1/namespaces/{namespace}/secrets/{secret}",
            lack=f"cluster.registry.pull_secret: {namespace} has no secret {secret}, so no pod there could pull. "
            f"Create it: kubectl -n {namespace} create secret docker-registry {secret} --docker-server=… "
            "--docker-username=…",
        )


def _lack(where: str, kind: str, install: str) -> str:
    return f"{where}: the cluster does not know {kind}, so its operator is not installed. Install it: {install}"


NAMESPACE, NAME = "kube-system", "rocelab-owner"
"""One fixed place: agents run on every node and definitions are cluster-wide, so two labs cannot share a cluster."""
COLLECTION = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATH = f"{COLLECTION}/{NAME}"

Properties = dict[str, object]


class ClaimedError(LabError):
    """The cluster is another lab's, or lacks what this one needs."""


class ClaimProvider(ResourceProvider):
    """Claims a free cluster, and refuses one that another stack has claimed."""

    serialize_as_secret_always = False  # its code holds no secret; the kubeconfig is a property and secret by itself

    def check(self, _olds: Properties, news: Properties) -> CheckResult:
        """Refuses already in the preview of the first run. A server that does not answer yet is asked by the run."""
        if _olds or not isinstance(news.get("kubeconfig"), str):
            return CheckResult(news, [])
        try:
            _refuse(news, ())
        except ClaimedError as error:
            return CheckResult(news, [CheckFailure("owner", str(error))])
        except LabError:
            pass
        return CheckResult(news, [])

    def diff(self, _id: str, _olds: Properties, _news: Properties) -> DiffResult:
        """Claims again when the owner's name, the login or what is needed changes."""
        return DiffResult(changes=any(_olds.get(key) != _news.get(key) for key in ("owner", "kubeconfig", "required")))

    def create(self, props: Properties) -> CreateResult:
        """Claims the cluster; a claim of an interrupted run of the same stack counts as this one's."""
        _claim(props, ())
        return CreateResult("claim", props)

    def read(self, id_: str, props: Properties) -> ReadResult:
        """Checks whether the claim still exists. A silent server counts as unchanged."""
        try:
            with KubernetesApi(str(props["kubeconfig"])) as api:
                owner = owner_in(api.get(PATH))
        except LabError as error:
            pulumi.log.warn(f"cannot read who owns the cluster: {error}")
            return ReadResult(id_, props)
        return ReadResult(id_ if owner else None, {**props, "owner": owner})

    def update(self, _id: str, _olds: Properties, _news: Properties) -> UpdateResult:
        """Claims under the new name: a stack may be renamed."""
        _claim(_news, (str(_olds.get("owner")),))
        return UpdateResult(_news)

    def delete(self, _id: str, _props: Properties) -> None:
        """Releases the cluster, unless it has another owner by now."""
        with KubernetesApi(str(_props["kubeconfig"])) as api:
            if owner_in(api.get(PATH)) == _props["owner"]:
                api.delete(PATH)


def owner_in(found: Manifest | None) -> str:
    """The cluster's owner; empty when it has none."""
    owner = at(found, "data", "owner")
    return owner if isinstance(owner, str) else ""


def refusal(found: Manifest | None, owner: str, also_ours: Sequence[str] = ()) -> str | None:
    """Why a cluster with this ConfigMap must not be changed; None when it is free or this stack's."""
    theirs = owner_in(found)
    if found is None or theirs in (owner, *also_ours):
        return None
    return (
        f"this cluster belongs to {theirs or 'an unnamed owner'}, not to {owner}; nothing was changed. Two labs cannot "
        "share one cluster: name another cluster, or destroy the other lab first. If that lab no longer exists, run "
        f"kubectl -n {NAMESPACE} delete configmap {NAME}"
    )


def _refuse(props: Properties, also_ours: Sequence[str]) -> Manifest | None:
    """The ConfigMap, if it exists.

    Raises:
        ClaimedError: when another stack owns the cluster, or an operator is missing that the lab needs.
    """
    with KubernetesApi(str(props["kubeconfig"])) as api:
        found = api.get(PATH)
        if text := refusal(found, str(props["owner"]), also_ours):
            raise ClaimedError(text)
        required = [Required(**item) for item in json.loads(str(props["required"]))]
        if lacking := [each.lack for each in required if api.get(each.path) is None]:
            raise ClaimedError("\n".join(lacking))
    return found


def _claim(props: Properties, also_ours: Sequence[str]) -> None:
    logging.getLogger("grpc").setLevel(logging.CRITICAL)  # it would print a traceback
    found = _refuse(props, also_ours)
    data: Manifest = {"owner": str(props["owner"])}
    metadata: Manifest = {"name": NAME, "labels": PART_OF}
    made: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    with KubernetesApi(str(props["kubeconfig"])) as api:
        if found is not None:
            api.merge(PATH, {"data": data})
            return
        try:
            api.create(COLLECTION, made)
        except ApiError as error:
            if error.status != 409:
                raise
            _refuse(props, also_ours)  # another run was faster, so check its owner


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimArgs:
    lab: str
    kubeconfig: pulumi.Input[str]
    required: Sequence[Required]
    """Objects that must exist already."""


class Claim(Resource, module="cluster", name="Claim"):
    """A ConfigMap with the owner's name. Everything else in the cluster waits for it."""

    owner: pulumi.Output[str]

    def __init__(self, name: str, args: ClaimArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        required = json.dumps([asdict(each) for each in args.required])
        inputs: Mapping[str, pulumi.Input[str]] = {
            "owner": f"lab {args.lab} of stack {pulumi.get_project()}/{pulumi.get_stack()}",
            "kubeconfig": pulumi.Output.secret(args.kubeconfig),
            "required": required,
        }
        super().__init__(ClaimProvider(), name, dict(inputs), opts)

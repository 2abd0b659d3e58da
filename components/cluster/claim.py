"""The claim: an object in the cluster that names its lab, created before anything else.

The state contains the path of this module, so it must not move.
"""

import json
import logging
from collections.abc import Mapping, Sequence
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

from components.cluster.manifests import PART_OF, Manifest
from components.cluster.preconditions import Precondition
from components.kubernetes.client import ApiError, KubernetesApi, at
from stacks.base import LabError

NAMESPACE, NAME = "kube-system", "rocelab-owner"
"""One fixed place: agents run on every node and definitions are cluster-wide, so two labs cannot share a cluster."""
COLLECTION = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATH = f"{COLLECTION}/{NAME}"

Properties = dict[str, object]


class ClaimedError(LabError):
    """The cluster is another lab's, lacks what this one needs, or has what excludes it."""


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
        ClaimedError: when another stack owns the cluster, or a precondition of the lab does not hold.
    """
    with KubernetesApi(str(props["kubeconfig"])) as api:
        found = api.get(PATH)
        if text := refusal(found, str(props["owner"]), also_ours):
            raise ClaimedError(text)
        faults = []
        for item in json.loads(str(props["required"])):
            precondition = Precondition(**item)
            if fault := precondition.fault_of(api.get(precondition.path)):
                faults.append(fault)
        if faults:
            raise ClaimedError("\n".join(faults))
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
    required: Sequence[Precondition]


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

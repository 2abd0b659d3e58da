"""The claim: an object in the cluster that names its lab, created before anything else."""

from collections.abc import Sequence
from pathlib import Path

from components.cluster.manifests import PART_OF, Manifest
from components.cluster.preconditions import Precondition
from components.kubernetes.client import ApiError, KubernetesApi, at
from components.provider import log
from components.provider.base import Failure, Properties, Resource, changed
from components.ssh.credentials import CONTROL_PLANE, admin_kubeconfig
from stacks.base import LabError

NAMESPACE, NAME = "kube-system", "rocelab-owner"
"""One fixed place: agents run on every node and definitions are cluster-wide, so two labs cannot
share a cluster."""
COLLECTION = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATH = f"{COLLECTION}/{NAME}"


class ClaimedError(LabError):
    """The cluster is another lab's, lacks what this one needs, or has what excludes it."""


class ClaimInputs(Properties):
    owner: str
    """Lab and stack, as other labs read it in a refusal."""
    cluster: str
    """Which cluster: `identity_of` its kubeconfig; unknown until there is one."""
    kubeconfig: str
    """Where the kubeconfig is: `secret`, `control_plane`, or a file."""
    required: tuple[Precondition, ...] = ()
    """What must be there already, or must not be."""


class ClaimState(ClaimInputs):
    current_owner: str
    """The owner that the cluster names; not `owner` if someone else has taken the cluster over."""


class Claim(Resource[ClaimInputs, ClaimState]):
    """A ConfigMap with the owner's name, in a free cluster; everything else in the cluster waits
    for it.
    """

    delete_before_replace = True

    async def check(self, old: ClaimInputs | None, new: ClaimInputs) -> list[Failure]:
        """Refuses already in the first preview. The run asks a server that does not answer yet."""
        if old is not None or not new.cluster:
            return []
        try:
            with await self._api(new) as api:
                _refuse(api, new, ())
        except ClaimedError as error:
            return [Failure("owner", str(error))]
        except LabError:
            pass
        return []

    async def diff(self, old: ClaimState, new: ClaimInputs) -> list[str]:
        names = changed(old, new)
        if old.current_owner != old.owner:
            names.append("current_owner")
        return names

    async def create(self, new: ClaimInputs) -> ClaimState:
        """Claims the cluster; an interrupted run of the same stack may have done so already."""
        with await self._api(new) as api:
            _claim(api, new, ())
        return ClaimState(**dict(new), current_owner=new.owner)

    async def read(self, old: ClaimState) -> ClaimState | None:
        """Checks whether the claim still exists. A silent server counts as unchanged."""
        try:
            with await self._api(old) as api:
                owner = owner_in(api.get(PATH))
        except LabError as error:
            log.warn(f"cannot read who owns the cluster: {error}")
            return old
        if owner:
            return old.model_copy(update={"current_owner": owner})
        return None

    async def update(self, old: ClaimState, new: ClaimInputs) -> ClaimState:
        """Claims under the new name, since a stack may be renamed; refuses a cluster that someone
        else has taken.
        """
        with await self._api(new) as api:
            _claim(api, new, (old.owner,))
        return ClaimState(**dict(new), current_owner=new.owner)

    async def delete(self, old: ClaimState) -> None:
        """Releases the cluster, unless it has another owner by now."""
        if old.kubeconfig == CONTROL_PLANE and self.config.lab.cluster is None:
            return  # the lab created the cluster, which ends when its hosts leave it
        with await self._api(old) as api:
            if owner_in(api.get(PATH)) == old.owner:
                api.delete(PATH)

    async def _api(self, claim: ClaimInputs) -> KubernetesApi:
        return KubernetesApi(await admin_kubeconfig(claim.kubeconfig, self.config, Path.cwd()))


def owner_in(config_map: Manifest | None) -> str:
    """The cluster's owner; empty when it has none."""
    owner = at(config_map, "data", "owner")
    return owner if isinstance(owner, str) else ""


def refusal(config_map: Manifest | None, owner: str, also_ours: Sequence[str] = ()) -> str | None:
    """Why a cluster with this ConfigMap must not be changed; None when it is free or this
    stack's.
    """
    theirs = owner_in(config_map)
    if config_map is None or theirs in (owner, *also_ours):
        return None
    return (
        f"this cluster belongs to {theirs or 'an unnamed owner'}, not to {owner}; use another "
        f"cluster, or destroy that lab first. If it no longer exists, run kubectl -n {NAMESPACE} "
        f"delete configmap {NAME}"
    )


def _refuse(api: KubernetesApi, claim: ClaimInputs, also_ours: Sequence[str]) -> Manifest | None:
    """The ConfigMap, if it exists.

    Raises:
        ClaimedError: when another stack owns the cluster, or a precondition of the lab does not
            hold.
    """
    config_map = api.get(PATH)
    if text := refusal(config_map, claim.owner, also_ours):
        raise ClaimedError(text)
    faults = []
    for precondition in claim.required:
        faults.append(precondition.fault_of(api.get(precondition.path)))
    if any(faults):
        raise ClaimedError("\n".join(filter(None, faults)))
    return config_map


def _claim(api: KubernetesApi, claim: ClaimInputs, also_ours: Sequence[str]) -> None:
    config_map = _refuse(api, claim, also_ours)
    data: Manifest = {"owner": claim.owner}
    if config_map is not None:
        api.merge(PATH, {"data": data})
        return
    metadata: Manifest = {"name": NAME, "labels": PART_OF}
    try:
        api.create(
            COLLECTION,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        )
    except ApiError as error:
        if error.status != 409:
            raise
        _refuse(api, claim, also_ours)  # another run was faster, so check its owner

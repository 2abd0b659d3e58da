"""The claim: whose a cluster is, decided by what is found there."""

import asyncio
from typing import Any

import pytest

from components.cluster import claim
from components.cluster.claim import Claim, ClaimedError, ClaimInputs, ClaimState, refusal
from components.cluster.preconditions import Precondition
from components.kubernetes.client import ApiError
from components.provider.base import UNKNOWN, ProviderConfig, UnknownValueError
from tests.messages import states

OURS, THEIRS = "lab lab of stack rocelab/lab", "lab other of stack rocelab/other"
CLAIM = Claim(ProviderConfig({"kubeconfig": "{}"}))
INPUTS = ClaimInputs(owner=OURS, cluster="https://192.0.2.1:6443 0123456789ab", kubeconfig="secret")
STATE = ClaimState(**dict(INPUTS), current_owner=OURS)


class FakeApi:
    """A cluster that has the objects of `there`, by path."""

    there: dict[str, Any]
    silent = False

    def __init__(self, _kubeconfig: str) -> None:
        if self.silent:
            raise ApiError(0, "the API server does not answer")

    def get(self, path: str) -> Any:
        return self.there.get(path)

    def create(self, collection: str, body: Any) -> None:
        path = f"{collection}/{body['metadata']['name']}"
        if path in self.there:
            raise ApiError(409, "already exists")
        self.there[path] = body

    def merge(self, path: str, body: Any) -> None:
        self.there[path] = {**self.there[path], **body}

    def delete(self, path: str) -> None:
        self.there.pop(path, None)

    def __enter__(self) -> "FakeApi":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    there: dict[str, Any] = {}
    monkeypatch.setattr(FakeApi, "there", there, raising=False)
    monkeypatch.setattr(claim, "KubernetesApi", FakeApi)
    return there


def owned(by: str) -> dict[str, Any]:
    return {"data": {"owner": by}}


def test_a_free_cluster_is_taken_and_given_back(cluster: dict[str, Any]) -> None:
    asyncio.run(CLAIM.create(INPUTS))
    assert cluster[claim.PATH]["data"] == {"owner": OURS}

    asyncio.run(CLAIM.delete(STATE))
    assert cluster == {}


def test_what_a_killed_run_of_the_same_stack_has_claimed_is_taken_over(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(OURS)

    asyncio.run(CLAIM.create(INPUTS))

    assert cluster[claim.PATH]["data"] == {"owner": OURS}


def test_another_s_cluster_is_refused_with_its_name_and_stays_as_it_is(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(THEIRS)

    with pytest.raises(ClaimedError) as refused:
        asyncio.run(CLAIM.create(INPUTS))

    assert states(str(refused.value), THEIRS, OURS)
    assert "delete configmap rocelab-owner" in str(refused.value)
    assert cluster[claim.PATH] == owned(THEIRS)


def test_the_slower_run_loses_the_race_and_gets_that_error(
    cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen a free cluster; the server lets one create."""
    looks = iter([None, owned(THEIRS)])
    monkeypatch.setattr(FakeApi, "get", lambda _self, _path: next(looks))
    cluster[claim.PATH] = owned(THEIRS)

    with pytest.raises(ClaimedError, match=THEIRS):
        asyncio.run(CLAIM.create(INPUTS))


def test_a_preview_refuses_already_and_only_where_it_can_ask(
    cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster[claim.PATH] = owned(THEIRS)
    new_cluster = ClaimInputs.model_validate({"owner": OURS, "cluster": UNKNOWN, "kubeconfig": "control_plane"})

    assert [failure.property for failure in asyncio.run(CLAIM.check(None, INPUTS))] == ["owner"]
    assert asyncio.run(CLAIM.check(INPUTS, INPUTS)) == [], "a refresh reads it again, not each preview"
    with pytest.raises(UnknownValueError, match="cluster"):
        asyncio.run(CLAIM.check(None, new_cluster))
    monkeypatch.setattr(FakeApi, "silent", True)
    assert asyncio.run(CLAIM.check(None, INPUTS)) == [], "the run itself fails"


def test_a_renamed_stack_keeps_its_cluster(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(OURS)
    renamed = INPUTS.model_copy(update={"owner": "lab lab of stack rocelab/renamed"})

    assert asyncio.run(CLAIM.diff(STATE, renamed)) == ["owner"]
    asyncio.run(CLAIM.update(STATE, renamed))

    assert cluster[claim.PATH]["data"]["owner"] == renamed.owner


def test_a_lost_claim_shows_in_a_refresh(cluster: dict[str, Any]) -> None:
    assert asyncio.run(CLAIM.read(STATE)) is None

    cluster[claim.PATH] = owned(THEIRS)
    seen = asyncio.run(CLAIM.read(STATE))
    assert seen
    assert asyncio.run(CLAIM.diff(seen, INPUTS)) == ["current_owner"]


def test_a_cluster_that_another_lab_took_over_is_neither_taken_back_nor_released(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(THEIRS)
    refreshed = asyncio.run(CLAIM.read(STATE))
    assert refreshed

    with pytest.raises(ClaimedError, match=THEIRS):
        asyncio.run(CLAIM.update(refreshed, INPUTS))
    asyncio.run(CLAIM.delete(refreshed))

    assert cluster[claim.PATH] == owned(THEIRS)


def test_a_silent_server_has_lost_no_claim(cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeApi, "silent", True)

    assert asyncio.run(CLAIM.read(STATE)) == STATE


def test_the_end_leaves_another_s_claim_alone(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(THEIRS)

    asyncio.run(CLAIM.delete(STATE))

    assert cluster[claim.PATH] == owned(THEIRS)


def test_what_is_missing_is_reported_before_the_cluster_is_claimed(cluster: dict[str, Any]) -> None:
    operator = Precondition(path="/apis/x", fault="no operator; install it: helm install x")
    lacking = INPUTS.model_copy(update={"required": (operator,)})

    with pytest.raises(ClaimedError, match="helm install x"):
        asyncio.run(CLAIM.create(lacking))

    assert cluster == {}


def test_what_is_in_the_way_is_refused_in_the_first_preview_and_left_alone(cluster: dict[str, Any]) -> None:
    theirs = {"metadata": {"name": "cluster-policy"}}
    cluster["/apis/x"] = {"items": [theirs]}
    conflict = Precondition(path="/apis/x", conflict=True, fault="{names} offers GPUs; set cluster.gpus: none")
    crowded = INPUTS.model_copy(update={"required": (conflict,)})

    [failure] = asyncio.run(CLAIM.check(None, crowded))
    assert failure.reason == "cluster-policy offers GPUs; set cluster.gpus: none"
    with pytest.raises(ClaimedError, match="cluster-policy"):
        asyncio.run(CLAIM.create(crowded))
    assert cluster == {"/apis/x": {"items": [theirs]}}

    theirs["metadata"]["labels"] = {"app.kubernetes.io/part-of": "rocelab"}  # type: ignore[assignment]  # of an earlier run
    asyncio.run(CLAIM.create(crowded))
    assert cluster[claim.PATH]["data"] == {"owner": OURS}


def test_a_claim_without_an_owner_cannot_be_taken() -> None:
    assert "an unnamed owner" in (refusal({"data": {}}, OURS) or "")
    assert refusal(None, OURS) is None

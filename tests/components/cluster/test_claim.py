"""The claim: whose a cluster is, decided by what is found there."""

from typing import Any

import pytest

from components.cluster import claim
from components.cluster.claim import ClaimedError, ClaimProvider, refusal
from components.kubernetes.client import ApiError
from tests.messages import states

OURS, THEIRS = "lab lab of stack rocelab/lab", "lab other of stack rocelab/other"
PROPS: dict[str, object] = {"owner": OURS, "kubeconfig": "{}", "required": "[]"}


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
    ClaimProvider().create(PROPS)
    assert cluster[claim.PATH]["data"] == {"owner": OURS}

    ClaimProvider().delete("claim", PROPS)
    assert cluster == {}


def test_what_a_killed_run_of_the_same_stack_has_claimed_is_taken_over(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(OURS)

    ClaimProvider().create(PROPS)

    assert cluster[claim.PATH]["data"] == {"owner": OURS}


def test_another_s_cluster_is_refused_with_its_name_and_stays_as_it_is(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(THEIRS)

    with pytest.raises(ClaimedError) as refused:
        ClaimProvider().create(PROPS)

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
        ClaimProvider().create(PROPS)


def test_a_preview_refuses_already_and_only_where_it_can_ask(
    cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster[claim.PATH] = owned(THEIRS)
    provider = ClaimProvider()

    assert [failure.property for failure in provider.check({}, PROPS).failures] == ["owner"]
    assert provider.check(PROPS, PROPS).failures == [], "it is asked again by a refresh, not by each preview"
    assert provider.check({}, {**PROPS, "kubeconfig": None}).failures == [], "a cluster that is yet to be made"
    monkeypatch.setattr(FakeApi, "silent", True)
    assert provider.check({}, PROPS).failures == [], "the run itself will tell"


def test_a_renamed_stack_keeps_its_cluster(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(OURS)
    renamed = {**PROPS, "owner": "lab lab of stack rocelab/renamed"}

    assert ClaimProvider().diff("claim", PROPS, renamed).changes
    ClaimProvider().update("claim", PROPS, renamed)

    assert cluster[claim.PATH]["data"]["owner"] == renamed["owner"]


def test_a_lost_claim_shows_in_a_refresh(cluster: dict[str, Any]) -> None:
    assert ClaimProvider().read("claim", PROPS).id is None

    cluster[claim.PATH] = owned(THEIRS)
    seen = ClaimProvider().read("claim", PROPS)
    assert seen.outs is not None
    assert ClaimProvider().diff("claim", seen.outs, PROPS).changes


def test_a_silent_server_has_lost_no_claim(cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeApi, "silent", True)

    seen = ClaimProvider().read("claim", PROPS)

    assert (seen.id, seen.outs) == ("claim", PROPS)


def test_the_end_leaves_another_s_claim_alone(cluster: dict[str, Any]) -> None:
    cluster[claim.PATH] = owned(THEIRS)

    ClaimProvider().delete("claim", PROPS)

    assert cluster[claim.PATH] == owned(THEIRS)


def test_what_is_missing_is_reported_before_the_cluster_is_claimed(cluster: dict[str, Any]) -> None:
    lacking = {**PROPS, "required": '[{"path": "/apis/x", "fault": "no operator; install it: helm install x"}]'}

    with pytest.raises(ClaimedError, match="helm install x"):
        ClaimProvider().create(lacking)

    assert cluster == {}


def test_what_is_in_the_way_is_refused_in_the_first_preview_and_left_alone(cluster: dict[str, Any]) -> None:
    theirs = {"metadata": {"name": "cluster-policy"}}
    cluster["/apis/x"] = {"items": [theirs]}
    conflict = '[{"path": "/apis/x", "conflict": true, "fault": "{names} offers GPUs; set cluster.gpus: none"}]'
    crowded = {**PROPS, "required": conflict}

    [failure] = ClaimProvider().check({}, crowded).failures
    assert failure.reason == "cluster-policy offers GPUs; set cluster.gpus: none"
    with pytest.raises(ClaimedError, match="cluster-policy"):
        ClaimProvider().create(crowded)
    assert cluster == {"/apis/x": {"items": [theirs]}}

    theirs["metadata"]["labels"] = {"app.kubernetes.io/part-of": "rocelab"}  # type: ignore[assignment]  # of an earlier run
    ClaimProvider().create(crowded)
    assert cluster[claim.PATH]["data"] == {"owner": OURS}


def test_a_claim_without_an_owner_cannot_be_taken() -> None:
    assert "an unnamed owner" in (refusal({"data": {}}, OURS) or "")
    assert refusal(None, OURS) is None

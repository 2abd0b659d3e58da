"""Where machines run, as a resource: whom DRS is asked about and waited for, and who is only looked at."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from components.fabric import login, placement
from components.fabric.placement import DRS_S, PlacementProvider
from stacks.base import LabError
from tests.messages import stating

ASKED = {
    "cluster": "gpus",
    "machines": {"gpu01": "uuid-1", "gpu02": "uuid-2"},
    "apart": ["gpu01", "gpu02"],
    "pinned": {},
    "ruled": ["gpu01", "gpu02"],
    "patient": True,
}
ADOPTED = {**ASKED, "ruled": []}


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where they run; what would be asked about DRS is refused."""
    found: dict[str, str] = {}
    monkeypatch.setattr(login, "configured_session", lambda _setting: nullcontext(SimpleNamespace(say=print)))
    monkeypatch.setattr(PlacementProvider, "_setting", None, raising=False)
    monkeypatch.setattr(placement, "places_of", lambda _vcenter, machines: {name: found[name] for name in machines})
    monkeypatch.setattr(placement, "drs_refusal", lambda *_: "DRS is off")
    return found


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was to be waited for what was not right at once."""
    bounds: list[float] = []

    def until(done: Any, bound_s: float, *_: object) -> bool:
        if not done():
            bounds.append(bound_s)
        return bool(done())

    monkeypatch.setattr(placement, "until", until)
    return bounds


def test_drs_has_to_separate_machines_that_a_rule_is_made_for_and_no_others(places: dict[str, str]) -> None:
    check = PlacementProvider().check

    assert [one.reason for one in check({}, dict(ASKED)).failures] == ["DRS is off"]
    assert check({}, dict(ADOPTED)).failures == []
    assert check({}, {**ASKED, "ruled": ["gpu01"]}).failures == [], "of one alone there is no rule"


def test_a_cluster_without_drs_is_taken_where_every_machine_has_its_host(places: dict[str, str]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx2"}
    pinned = {**ASKED, "pinned": dict(places)}

    assert PlacementProvider().check({}, dict(pinned)).failures == []
    assert PlacementProvider().create(dict(pinned)).outs["places"] == places
    one_free = {**ASKED, "pinned": {"gpu01": "esx1"}}
    assert [one.reason for one in PlacementProvider().check({}, one_free).failures] == ["DRS is off"]


def test_a_broken_drs_rule_of_the_lab_is_waited_for(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx1"}

    with pytest.raises(LabError, check=stating("gpu01", "gpu02", "esx1")):
        PlacementProvider().create(dict(ASKED))

    assert waits == [DRS_S]


def test_what_nothing_will_move_is_a_fault_at_once(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx1"}

    with pytest.raises(LabError, check=stating("gpu01", "gpu02", "esx1")):
        PlacementProvider().create(dict(ADOPTED))

    assert waits == []


def test_adopted_machines_on_hosts_of_their_own_are_right(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx2"}

    made = PlacementProvider().create(dict(ADOPTED)).outs or {}

    assert (made["places"], made["faults"], waits) == (places, [], [])

"""Where machines run, as a resource: whom DRS is asked about and waited for, and who is only looked at."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from components.fabric import login, placement
from components.fabric.placement import DRS_S, Placement, PlacementInputs
from components.provider.base import ProviderConfig
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
PLACEMENT = Placement(ProviderConfig({}))


def refusals(declared: dict[str, Any]) -> list[str]:
    return [failure.reason for failure in asyncio.run(PLACEMENT.check(None, PlacementInputs(**declared)))]


def places_after(declared: dict[str, Any]) -> dict[str, str]:
    return asyncio.run(PLACEMENT.create(PlacementInputs(**declared))).places


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Where they run; what would be asked about DRS is refused."""
    found: dict[str, str] = {}
    monkeypatch.setattr(login, "configured_session", lambda _config: nullcontext(SimpleNamespace(say=print)))
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
    assert refusals(ASKED) == ["DRS is off"]
    assert refusals(ADOPTED) == []
    assert refusals({**ASKED, "ruled": ["gpu01"]}) == [], "of one alone there is no rule"


def test_a_cluster_without_drs_is_taken_where_every_machine_has_its_host(places: dict[str, str]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx2"}
    pinned = {**ASKED, "pinned": dict(places)}

    assert refusals(pinned) == []
    assert places_after(pinned) == places
    assert refusals({**ASKED, "pinned": {"gpu01": "esx1"}}) == ["DRS is off"]


def test_a_broken_drs_rule_of_the_lab_is_waited_for(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx1"}

    with pytest.raises(LabError, check=stating("gpu01", "gpu02", "esx1")):
        places_after(ASKED)

    assert waits == [DRS_S]


def test_what_nothing_will_move_is_a_fault_at_once(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx1"}

    with pytest.raises(LabError, check=stating("gpu01", "gpu02", "esx1")):
        places_after(ADOPTED)

    assert waits == []


def test_adopted_machines_on_hosts_of_their_own_are_right(places: dict[str, str], waits: list[float]) -> None:
    places |= {"gpu01": "esx1", "gpu02": "esx2"}

    assert (places_after(ADOPTED), waits) == (places, [])

"""A VM of somebody else as a resource: what counts as a change, and what needs no look at the vCenter."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi.output import Unknown

from components.fabric import adopt_machine, login, machine_baseline
from components.fabric.adopt_machine import AdoptedMachineProvider
from components.fabric.machine_baseline import MachineBaselineProvider
from components.fabric.vms import existing
from stacks.base import LabError
from tests.messages import states, stating

WANTED = {"cpus": 8, "adapter.rail-a": True}
STATE = {
    "path": "DC0/corp-gpu",
    "instance": "uuid-1",
    "wanted": {"cpus": 8.0, "adapter.rail-a": True},
    "before": {"cpus": 2.0, "adapter.rail-a": False},
    "now": {"cpus": 8.0, "adapter.rail-a": True},
    "networks": {"rail-a": "dvportgroup-1"},
    "allow_power_off": False,
    "terms": {"hosts": ["esx1"], "least_hardware": 13.0},
}
"""As the engine hands it back: every number is a float."""
RENAMED = "DC0/corp-gpu-renamed"
ASKED = {**STATE, "wanted": WANTED, "terms": {"hosts": ["esx1"], "least_hardware": 13}, "now": None}


@pytest.fixture(autouse=True)
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in (AdoptedMachineProvider, MachineBaselineProvider):
        monkeypatch.setattr(provider, "_setting", None, raising=False)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(adopt_machine.pulumi.log, "info", lines.append)
    return lines


@pytest.fixture
def leads_to(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The vCenter's UUID of a VM by its path; another path leads nowhere."""
    by_path: dict[str, str] = {}

    def by_name(_vcenter: object, path: str) -> SimpleNamespace:
        if path not in by_path:
            raise LabError(f"{path}: fabric.user sees no VM of that name")
        return SimpleNamespace(instance=by_path[path])

    monkeypatch.setattr(login, "configured_session", lambda _setting: nullcontext())
    monkeypatch.setattr(machine_baseline, "by_name", by_name)
    return by_path


def diff(said: list[str], olds: dict[str, Any], news: dict[str, Any]) -> tuple[bool | None, list[str], list[str]]:
    found = AdoptedMachineProvider().diff("id", olds, news)
    return found.changes, list(found.replaces or []), said


def test_what_is_as_declared_is_no_change(said: list[str]) -> None:
    assert diff(said, STATE, ASKED) == (False, [], [])


def test_what_was_removed_by_hand_is_named_with_its_next_value(said: list[str]) -> None:
    drifted = {**STATE, "now": {"cpus": 8.0, "adapter.rail-a": False}}

    assert diff(said, drifted, ASKED) == (True, [], ["DC0/corp-gpu: adapter.rail-a False => True"])


def test_a_field_that_is_declared_no_more_is_shown_with_what_it_gets_back(said: list[str]) -> None:
    less = {**ASKED, "wanted": {"adapter.rail-a": True}}

    assert diff(said, STATE, less) == (True, [], ["DC0/corp-gpu: cpus 8 => 2"])


def test_a_field_that_another_user_changed_since_is_not_shown_as_a_change(said: list[str]) -> None:
    less = {**ASKED, "wanted": {"adapter.rail-a": True}}
    changed = {**STATE, "now": {"cpus": 16.0, "adapter.rail-a": True}}

    assert diff(said, changed, less) == (True, [], [])


def test_a_machine_that_a_killed_run_has_left_off_is_a_change(said: list[str]) -> None:
    assert diff(said, {**STATE, "held_off": True}, ASKED)[0] is True
    assert len(said) == 1
    assert states(said[0], "DC0/corp-gpu", "interrupted")


def test_other_terms_and_port_groups_are_asked_about_and_unknown_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_setting: object) -> None:
        raise LabError("a session")

    monkeypatch.setattr(login, "configured_session", refuse)
    check = AdoptedMachineProvider().check

    for change in ({"terms": {"hosts": ["esx1"], "least_hardware": 17}}, {"networks": {"rail-a": "dvportgroup-2"}}):
        assert [one.reason for one in check(STATE, {**ASKED, **change}).failures] == ["a session"]
    assert check(STATE, {**ASKED, "networks": {"rail-a": Unknown()}}).failures == []


def test_a_machine_whose_host_is_away_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = {"name": "corp-gpu", "runtime.connectionState": "inaccessible"}
    monkeypatch.setattr(existing, "collect", lambda *_: [facts])
    search = SimpleNamespace(FindByUuid=lambda *_: "vm-1")
    vcenter: Any = SimpleNamespace(content=SimpleNamespace(searchIndex=search))

    with pytest.raises(LabError, check=stating("corp-gpu", "inaccessible")):
        existing.by_instance(vcenter, "uuid-1")


def test_another_machine_is_another_resource(said: list[str], leads_to: dict[str, str]) -> None:
    leads_to["DC0/other"] = "uuid-2"

    assert diff(said, STATE, {**ASKED, "path": "DC0/other"})[:2] == (True, ["path"])


def test_the_same_machine_under_another_name_stays_the_resource_that_it_is(
    said: list[str], leads_to: dict[str, str]
) -> None:
    leads_to[RENAMED] = "uuid-1"

    assert diff(said, STATE, {**ASKED, "path": RENAMED}) == (True, [], [])


def test_a_word_that_is_given_or_taken_is_written_down(said: list[str]) -> None:
    assert diff(said, STATE, {**ASKED, "allow_power_off": True}) == (True, [], [])


def test_a_preview_without_another_wish_asks_the_vcenter_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_setting: object) -> None:
        raise AssertionError("a session")

    monkeypatch.setattr(login, "configured_session", refuse)

    assert AdoptedMachineProvider().check(STATE, ASKED).failures == []


def test_a_baseline_changes_with_the_fields_and_never_with_time() -> None:
    olds = {"path": "DC0/corp-gpu", "fields": ["cpus"], "networks": {"rail-a": "dvportgroup-1"}}
    look = MachineBaselineProvider().diff

    assert not look("id", olds, {**olds, "networks": {"rail-a": "dvportgroup-2"}}).changes
    assert look("id", olds, {**olds, "fields": ["adapter.rail-a", "cpus"]}).changes


def test_a_baseline_is_read_again_for_another_vm_and_never_for_another_name(leads_to: dict[str, str]) -> None:
    leads_to |= {RENAMED: "uuid-1", "DC0/other": "uuid-2"}
    olds = {"path": "DC0/corp-gpu", "fields": ["cpus"], "instance": "uuid-1"}
    provider = MachineBaselineProvider()

    renamed = provider.diff("id", olds, {**olds, "path": RENAMED})

    assert (renamed.changes, renamed.replaces) == (True, []), "the new name is written down"
    assert provider.diff("id", olds, {**olds, "path": "DC0/other"}).replaces == ["path"]


def test_a_new_name_that_leads_nowhere_is_refused_at_preview(leads_to: dict[str, str]) -> None:
    olds = {"path": "DC0/corp-gpu", "fields": ["cpus"]}
    check = MachineBaselineProvider().check

    [failure] = check(olds, {**olds, "path": "DC0/none"}).failures
    assert failure.property == "path"
    assert states(failure.reason, "DC0/none", "fabric.user")
    assert check({}, {**olds, "path": "DC0/none"}).failures == [], "a first preview is refused by the one beside it"

"""A changed number of VFs in a preview: who loses some, whether a reboot is needed, and how old that knowledge is."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components.hosts.changes import LOOK, WORDS, changes, cost_of, vfs_refused
from components.hosts.document import host_document
from components.hosts.records import HostRecord, known_of, vf_facts
from stacks.lab import Lab
from tests.components.hosts.fleet_hosts import conforming, record
from tests.components.hosts.host_runs import given_to_a_pod, made, run
from tests.components.hosts.kernel import FakeHost
from tests.messages import states

NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
POD = {"enp5s0 VF 1": "allocated to a pod", "enp5s0 VF 3": "its netdev is in another network namespace"}


def facts(uses: dict[str, str], offered: int = 7, minutes_ago: int = 12) -> dict[str, Any]:
    return vf_facts(
        {"vfs_in_use": dict(uses), "vfs_offered": {"enp5s0": offered}}, NOW - timedelta(minutes=minutes_ago)
    )


def with_vfs(one: HostRecord, count: int) -> HostRecord:
    pfs: Any = one.document["pfs"]
    document = {**one.document, "pfs": [{**pfs[0], "vfs": count}]}
    return one.model_copy(update={"document": document, "fields": conforming(document)})


def line(known: object, after: int = 2) -> str:
    one = record("gpu01", 1)
    [change] = changes({"gpu01": one}, {"gpu01": with_vfs(one, after)}, {"gpu01": known}, NOW)
    return str(change)


def test_vfs_in_use_are_counted_with_a_reason_and_the_age_of_it() -> None:
    assert states(line(facts(POD)), "gpu01", "enp5s0.vfs", "4 => 2", WORDS["pods"], "2 in use", "VF 1", "drain")
    assert states(line(facts(POD)), "no reboot", 7, "12 min")


def test_idle_vfs_are_reported_as_idle_with_the_age_of_the_facts() -> None:
    assert states(line(facts({}, minutes_ago=200)), "none is in use", "no reboot", 7, "3 h")


def test_more_than_the_nic_offers_reboots() -> None:
    said = line(facts({}), after=16)
    assert states(said, "needs a reboot", 7)
    assert "no reboot" not in said


@pytest.mark.parametrize("known", [None, {}, {"machine_id": "1"}, {**facts({}), "seen": "soon"}, "nonsense"])
def test_without_facts_a_reboot_is_possible_and_never_none(known: object) -> None:
    assert states(line(known), "may reboot", LOOK)
    assert "no reboot" not in line(known)


def test_first_vfs_take_nothing_from_anybody() -> None:
    said = cost_of("enp5s0", 0, 4, known_of(facts({})), NOW)
    assert states(said, "no pod", "no reboot", 7, "12 min")
    assert WORDS["pods"] not in said


def test_a_change_is_refused_while_this_very_run_has_seen_vfs_in_use() -> None:
    one = record("gpu01", 1)
    olds, news = {"gpu01": one}, {"gpu01": with_vfs(one, 2)}

    refused = list(vfs_refused(olds, news, {"gpu01": facts(POD)}))

    assert len(refused) == 1
    assert states(refused[0], "gpu01", "enp5s0.vfs", "4 => 2", "2 in use", "drain the node")
    assert list(vfs_refused(olds, olds, {"gpu01": facts(POD)})) == [], "nothing is asked to change"
    assert list(vfs_refused(olds, news, {"gpu01": facts({"enp132s0 VF 0": POD["enp5s0 VF 1"]})})) == []
    assert list(vfs_refused(olds, news, {})) == [], "the host looks for itself"
    assert list(vfs_refused({}, news, {"gpu01": facts(POD)})) == []


def test_a_preview_understands_what_a_host_reports(tmp_path: Path, lab: Lab, monkeypatch) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = FakeHost(tmp_path)
    document: Any = host_document(lab, lab.nodes[0])
    made(machine, document)
    given_to_a_pod(machine)

    kept = vf_facts(run("probe", machine, document)["facts"], NOW)

    assert list(kept["vfs_in_use"]) == ["enp5s0"]
    assert states(kept["vfs_in_use"]["enp5s0"], "1 in use", "VF 1: allocated to pod")
    assert kept["vfs_offered"] == {"enp5s0": 7, "enp132s0": 7}
    assert known_of(kept) is not None


def test_the_facts_stay_small_with_every_vf_in_use() -> None:
    uses = {f"enp{pf}s0 VF {vf}": "its netdev is in another network namespace" for pf in range(8) for vf in range(16)}

    assert len(str(vf_facts({"vfs_in_use": dict(uses), "vfs_offered": {}}, NOW))) < 1000

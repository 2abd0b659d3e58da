"""What a preview says and refuses."""

import json

import pytest

from components.hosts.changes import LOOK, WORDS, changes, reboots_refused
from components.hosts.records import HostRecord, properties_of, records_of
from tests.components.hosts.fleet_hosts import record
from tests.messages import states


def seen(one: HostRecord, **fields: object) -> HostRecord:
    return one.model_copy(update={"fields": {**one.fields, **fields}})


def said(olds: dict[str, HostRecord], news: dict[str, HostRecord]) -> list[str]:
    return [str(change) for change in changes(olds, news)]


def lines(old: HostRecord | None, new: HostRecord | None) -> list[str]:
    return said({"gpu01": old} if old else {}, {"gpu01": new} if new else {})


@pytest.mark.parametrize(
    ("field", "was", "values", "effect"),
    [
        ("enp5s0.mtu_bytes", 1500, "1500 => 9000", "link"),
        ("enp5s0.vfs", 2, "2 => 4", "pods"),
        ("enp5s0.address", "none", "none => 10.10.11.1/24", "link"),
        ("rdma_namespaces", "exclusive", "exclusive => shared", "reboot"),
        ("unit", "x.conf missing", "x.conf missing => enabled", "none"),
        ("modules", [], " => ib_umad", "none"),
    ],
)
def test_a_changed_field_is_reported_with_its_effect(field, was, values, effect):
    one = record("gpu01", 1)
    old = seen(one, **{field: was})

    [change] = changes({"gpu01": old}, {"gpu01": one})
    assert (change.host, change.what, change.values, change.effect) == ("gpu01", field, values, effect)
    assert lines(old, one) == [f"gpu01: {field} {values}: {change.cost}"]
    assert states(change.cost, WORDS[effect])
    assert (LOOK in change.cost) == field.endswith(".vfs"), "what pods use is not known"


def test_nothing_changed_says_nothing():
    assert lines(record("gpu01", 1), record("gpu01", 1)) == []


def test_a_host_that_was_silent_is_looked_at_again():
    one = record("gpu01", 1)

    [line] = lines(one.model_copy(update={"trouble": "no answer in time"}), one)
    assert states(line, "gpu01", "unknown", "no answer in time", "active")


def test_joining_and_leaving_and_changing_state_are_reported():
    one = record("gpu01", 1)

    assert lines(None, one) == ["gpu01: joins (active)"]
    [leaves] = lines(one, None)
    assert states(leaves, "gpu01", "leaves", "VFs", "links", "files", "undone")
    [drained] = lines(one, record("gpu01", 1, "drained"))
    assert states(drained, "gpu01", "state", "active => drained")


def test_a_rename_is_no_leaving():
    printed = said({"gpu01": record("gpu01", 1)}, {"gpu09": record("gpu09", 1, formerly="gpu01")})

    assert len(printed) == 1
    assert states(printed[0], "gpu09", "gpu01", WORDS["none"])


def test_a_rename_without_the_former_name_is_reported_as_uncertain():
    printed = said({"gpu01": record("gpu01", 1)}, {"gpu09": record("gpu09", 1)})

    assert states(printed[1], "gpu01", "leaves", "gpu09", "same machine")


def test_a_reboot_on_a_configured_host_is_refused_by_name():
    old, new = record("gpu01", 1), record("gpu01", 1, rdma_namespaces="exclusive")

    refused = list(reboots_refused({"gpu01": old}, {"gpu01": new}))
    assert len(refused) == 1
    assert states(refused[0], "gpu01", "rdma_namespaces", "shared => exclusive", "hosts.reboot")
    assert "hosts.reboot is never" in refused[0]
    assert list(reboots_refused({}, {"gpu01": new})) == [], (
        "a new host may be set up, and is told to wait for its reboot"
    )


def test_a_deviation_that_was_only_seen_blocks_nothing():
    one = record("gpu01", 1)

    assert list(reboots_refused({"gpu01": seen(one, rdma_namespaces="exclusive")}, {"gpu01": one})) == []


def test_a_document_of_another_version_of_us_blocks_nothing():
    old = record("gpu01", 1).model_copy(update={"document": {"schema": 1, "pfs": [{}]}})

    assert list(reboots_refused({"gpu01": old}, {"gpu01": record("gpu01", 1)})) == []


def test_records_come_back_from_the_state_as_they_went_in():
    records = {"gpu01": record("gpu01", 1), "gpu-02": record("gpu-02", 2, "absent", formerly="old", trouble="silent")}

    assert records_of(properties_of(records)) == records


def test_what_all_hosts_have_in_common_is_in_the_state_once():
    records = {f"gpu0{i}": record(f"gpu0{i}", i) for i in (1, 2, 3)}

    properties = properties_of(records)

    assert "rdma_namespaces" in properties["shared"]
    assert json.dumps(properties).count("rdma_namespaces") == 1
    assert properties["hosts"]["gpu02"]["document"]["pfs"][0]["address"] == "10.10.11.2/24"
    assert records_of(properties) == records


def test_fields_are_in_the_state_only_where_they_differ_from_the_target():
    one = record("gpu01", 1)
    drifted = one.model_copy(update={"fields": {**one.fields, "enp5s0.mtu_bytes": 1500}})

    assert "fields" not in one.plain({})
    assert records_of(properties_of({"gpu01": drifted}))["gpu01"].fields["enp5s0.mtu_bytes"] == 1500
    assert records_of(properties_of({"gpu01": one})) == {"gpu01": one}


def test_the_same_record_is_the_same_text_in_whatever_order_a_host_reports():
    one = record("gpu01", 1)
    backwards = one.model_copy(update={"fields": dict(reversed(one.fields.items()))})

    assert backwards.plain({}) == one.plain({})


def test_what_is_unknown_or_not_ours_is_left_out():
    hosts = {"a": object(), "b": "no mapping", "c": {}, "d": {"document": {}}}
    whole = properties_of({"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2)})

    assert records_of({"hosts": hosts, "policy": "x"}) == {}
    assert records_of({**whole, "shared": "unknown"}) == {}


@pytest.mark.parametrize(
    ("change", "facts"),
    [
        ({"port": 2300}, ["127.0.0.1:2201 => 127.0.0.1:2300"]),
        ({"host_key": "ssh-ed25519 BBBB"}, ["host key", "known_hosts"]),
        ({"user": "root"}, ["nvidia => root"]),
    ],
)
def test_another_endpoint_of_the_host_is_reported(change, facts):
    one = record("gpu01", 1)

    [line] = lines(one, one.model_copy(update={"endpoint": one.endpoint.model_copy(update=change)}))
    assert states(line, "gpu01", WORDS["none"], *facts)


def test_a_change_that_more_vfs_than_the_nic_offers_bring_is_a_reboot_and_not_only_a_loss():
    one = record("gpu01", 1)
    facts = {"gpu01": {"vfs_in_use": {}, "vfs_offered": {"enp5s0": 3}, "seen": "2026-11-22T05:50Z"}}

    def effect(before: int, known: dict[str, object]) -> list[str]:
        return [each.effect for each in changes({"gpu01": seen(one, **{"enp5s0.vfs": before})}, {"gpu01": one}, known)]

    assert effect(2, facts) == ["reboot"]
    assert effect(2, {}) == ["pods"]
    assert effect(0, {}) == ["none"]

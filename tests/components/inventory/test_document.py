"""The inventory's document: what goes in comes out, and only its owner may read it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from components.inventory.document import dump, load, parse, save
from components.inventory.model import Pf
from components.inventory.reading import NOT_READ, Reading, known, majority, unknown
from stacks.base import LabError
from tests.components.inventory.fabricate import changed, changed_pf, fabricate, pci_of


def test_an_inventory_comes_out_of_its_document_as_it_went_in() -> None:
    inventory = fabricate(hosts=3, rails=2)

    assert parse(dump(inventory)) == inventory


def test_an_unread_leaf_is_omitted_and_comes_back_as_not_read() -> None:
    inventory = changed(fabricate(), "gpu01", lambda host: changed_pf(host, pci_of(1), lambda pf: Pf(pci=pf.pci)))

    document = json.loads(dump(inventory))

    assert document["schema"] == 1
    assert document["hosts"][0]["pfs"]["value"][1] == {"pci": pci_of(1)}
    assert parse(dump(inventory)).hosts[0].pfs.or_else(())[1].mtu_bytes == NOT_READ


def test_an_unknown_leaf_keeps_its_reason_and_source() -> None:
    reason = unknown("Permission denied", "ethtool -S ens1np0")
    inventory = changed(
        fabricate(), "gpu01", lambda host: changed_pf(host, pci_of(1), lambda pf: replace(pf, counters=reason))
    )

    assert parse(dump(inventory)).hosts[0].pfs.or_else(())[1].counters == reason


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "Invalid JSON"),
        ("", r"old\.json: not an inventory: .*EOF"),
        ("{}", "schema: missing"),
        ('{"schema": 1, "read_at": "2026-11-01T12:00:00Z", "hosts": {}}', "hosts: should be a list"),
        ('{"schema": 99, "read_at": "2026-11-01T12:00:00Z"}', "schema 99"),
    ],
)
def test_a_document_that_is_no_inventory_of_this_schema_is_refused(text: str, named: str) -> None:
    with pytest.raises(LabError, match=named):
        parse(text, "old.json")


def test_the_file_is_replaced_whole_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "inventory.json"
    path.write_text("something older")
    path.chmod(0o644)

    save(fabricate(), path)

    assert path.stat().st_mode & 0o777 == 0o600
    assert load(path) == fabricate()
    assert [each.name for each in tmp_path.iterdir()] == ["inventory.json"]


def test_a_reading_is_either_known_or_unknown() -> None:
    with pytest.raises(ValueError, match="either"):
        Reading(9000, "mtu", unknown="and yet")
    with pytest.raises(ValueError, match="either"):
        Reading()


def test_an_unknown_reading_takes_part_in_no_majority() -> None:
    readings = [known(9000, "a"), known(9000, "b"), known(1500, "c"), unknown("gone"), unknown("gone")]

    assert majority(readings) == 9000
    assert majority([known(1, ""), known(2, "")]) is None


def test_a_reading_maps_only_what_is_known() -> None:
    mtu = known(9000, "/sys/class/net/a/mtu")

    assert mtu.map(lambda value: value // 2) == known(4500, "/sys/class/net/a/mtu")
    assert unknown("EINVAL", "x").map(str) == unknown("EINVAL", "x")

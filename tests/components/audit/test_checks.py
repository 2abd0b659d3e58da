"""Each check finds what it is for, and nothing else; in a healthy cluster none finds anything."""

import pytest

from components.audit.audit import audit
from components.audit.findings import Audit
from components.audit.registry import PRACTICE, checks
from components.inventory.model import Host, Inventory
from tests.components.audit.spoilt import NEED_EARLIER, NEED_LAB, SPOILS, case, earlier, healthy, lab, on_two_leaves

CODES = tuple(checks())


def audited(code: str) -> Audit:
    given = case(code)
    return audit(given.inventory, given.lab, given.earlier)


def test_every_check_has_an_inventory_in_which_it_finds() -> None:
    assert set(SPOILS) == set(CODES)
    assert set(CODES) >= NEED_EARLIER | NEED_LAB


@pytest.mark.row("A 21", case="numa-switch")
@pytest.mark.parametrize("code", CODES)
def test_a_check_finds_what_it_is_for_and_no_other_finds_anything(code: str) -> None:
    found = audited(code)

    assert {one.code for one in found.findings} == {code}, found.findings
    assert all(one.evidence.source and one.evidence.at for one in found.findings)


def test_nics_of_a_numa_node_that_are_on_as_many_switches_as_the_host_has_are_fine() -> None:
    spread = on_two_leaves(third=2, fourth=1)

    assert [row.code for row in audit(spread).findings] == []


def test_no_check_finds_anything_where_no_value_is_known() -> None:
    inventory = healthy()
    blind = Inventory(
        schema=inventory.schema,
        read_at=inventory.read_at,
        hosts=tuple(Host(name=one.name, address=one.address, read_at=one.read_at) for one in inventory.hosts),
        switches=inventory.switches,
        cluster=inventory.cluster,
    )

    assert audit(blind, lab()).findings == ()


def test_a_healthy_cluster_has_no_finding_whatever_it_is_compared_with() -> None:
    for one in (audit(healthy()), audit(healthy(), lab(), earlier(healthy()))):
        assert one.findings == ()
        assert one.unread == ()
    assert audit(healthy(), lab(), earlier(healthy())).not_checked == ()


def test_every_check_says_why_and_how_to_fix_it() -> None:
    for check in checks().values():
        assert check.source == PRACTICE or check.source.startswith("https://")
        for text in (check.title, check.good, check.why, check.remedy):
            assert text
            assert not text.endswith("."), check.code

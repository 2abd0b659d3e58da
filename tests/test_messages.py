"""Facts of a message are found as wholes, or a test that names them would pass with others."""

import pytest

from tests.messages import lines_naming, states, stating

TEXT = "esx1: rails[0].pod.vlan_id is 10, but 10.0.0.10/24 of gpu-1 needs 4.5 W at vmnic4. Set --mtu 9000"


@pytest.mark.parametrize(
    "fact", ["esx1", "rails[0].pod.vlan_id", 10, "10.0.0.10", "10.0.0.10/24", "gpu-1", 4.5, "vmnic4", "--mtu 9000"]
)
def test_a_fact_is_found_whatever_stands_beside_it(fact: object) -> None:
    assert states(TEXT, fact)
    assert stating(fact)(ValueError(TEXT))


@pytest.mark.parametrize("part", ["esx", "rails[0].pod", "vlan_id", "10.0.0.1", "0.10", "gpu", 1, 4, 5, "vmnic", 900])
def test_a_part_of_a_fact_is_not_that_fact(part: object) -> None:
    assert not states(TEXT, part)
    assert not states(TEXT, "esx1", part), "one that is there does not speak for the other"
    with pytest.raises(AssertionError):
        stating("esx1", part)(ValueError(TEXT))


def test_a_line_is_found_by_all_its_facts_in_any_order_and_by_no_part_of_a_word() -> None:
    text = "error: DC0_C0_H1: the uplink of rail-a is vmnic4 [] => ['a.b']\nerror: DC0_C0_H1: vmnic40 has no link"

    assert lines_naming(text, "vmnic4", "DC0_C0_H1", "rail-a") == text.splitlines()[:1]
    assert lines_naming(text, "vmnic4", "[] => ['a.b']") == text.splitlines()[:1]
    assert lines_naming(text, "rail-a", "vmnic40") == [], "facts of two lines"
    assert lines_naming(text, "vmnic") == []
    assert lines_naming(text, "[] => ['a_b']") == []

"""The comparison of a text with the facts that it must name: each fact is whole, and all are on one line."""

import re

from tests.texts import lines_naming, naming

TEXT = """error: DC0_C0_H1: the uplink of rail-a is vmnic4
error: DC0_C0_H1: vmnic40 has no link"""


def test_a_line_with_all_facts_in_any_order_is_found() -> None:
    assert lines_naming(TEXT, "vmnic4", "DC0_C0_H1", "rail-a") == TEXT.splitlines()[:1]
    assert re.search(naming("vmnic40", "DC0_C0_H1"), TEXT)


def test_facts_of_two_lines_and_parts_of_words_are_not_found() -> None:
    assert lines_naming(TEXT, "rail-a", "vmnic40") == []
    assert lines_naming(TEXT, "vmnic") == []
    assert not re.search(naming("rail-a", "link"), TEXT)


def test_facts_with_signs_are_no_patterns() -> None:
    assert lines_naming("gpu01: vgpus [] => ['a.b']", "vgpus", "[] => ['a.b']") != []
    assert lines_naming("the pool 10.1.1.1", "10.1x1.1") == []

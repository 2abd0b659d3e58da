"""The store: which folders a lab file may name, and which are refused with the remedy."""

import copy
from typing import Any

import pytest

from stacks.base import LabError
from tests.labs import lab_of, section_of
from tests.messages import states
from tests.stacks.refusals import has_fault

LAB = section_of("Pulumi.lab.yaml")


def said_of(store: str, **changes: Any) -> str:
    lab = {**copy.deepcopy(LAB), **changes, "report": {"store": store}}
    try:
        lab_of(lab)
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("store", ["results", "/srv/measurements", ".sim/elsewhere"])
def test_a_folder_is_taken(store: str) -> None:
    assert said_of(store) == ""


@pytest.mark.parametrize(
    ("store", "remedy"),
    [
        ("s3://bucket/lab", ["mount"]),
        ("~/results", ["~", "absolute path"]),
        ("../results", ["..", "absolute path"]),
        ("", [1]),
        ("a\nb", ["control character"]),
    ],
)
def test_what_is_no_folder_of_this_machine_is_refused_with_the_remedy(store: str, remedy: list[str | int]) -> None:
    assert has_fault(said_of(store), "report.store", *remedy)


def test_measurements_of_hardware_do_not_lie_where_make_clean_removes_them() -> None:
    assert states(said_of(".sim/runs", kind="hardware"), "make clean")
    assert "make clean" not in said_of("results", kind="hardware")

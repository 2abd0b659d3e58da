"""YAML is read as Pulumi reads it, so that `rocelab` and `pulumi up` see the same lab."""

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.audit.waivers import read_waivers
from components.discovery.questions import read_answers
from stacks.base import LabError
from stacks.expand import flat_text
from stacks.load import _file_of
from stacks.read import KEY, expanded_lab, read_stack_file
from stacks.safe_yaml import load_kubernetes_yaml, load_yaml, to_yaml
from tests.conftest import ROOT

# answers of `pulumi config get` for a stack file with these plain scalars (v3.259.0, which uses yaml.v3)
TEXTS = (
    "off on yes No y N tRue nUll 0000:19:00.0 00:19.0 22:22 1:30:45 190:20:30.15 2024-13-45 2027-02-30 1.2.3 e3 0x _1 ="
)
READ_BY_PULUMI: dict[str, Any] = {text: text for text in TEXTS.split()} | {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("~", "Null", ""), None),
    "false": False,
    "1e3": 1000,
    "19e5": 1_900_000,
    "5.": 5,
    "0.0": 0,
    "1.30": 1.3,
    "-.5": -0.5,
    "0o17": 15,
    "017": 15,
    "-017": -15,
    "08": 8,
    "0x1f": 31,
    "-0b11": -3,
    "1_000": 1000,
}


@pytest.mark.parametrize("text", READ_BY_PULUMI)
def test_a_plain_scalar_has_the_type_that_pulumi_gives_it(text: str) -> None:
    found, expected = load_yaml(f"k: {text}")["k"], READ_BY_PULUMI[text]

    assert (found, type(found)) == (expected, type(expected))


def test_text_that_pulumi_would_read_as_a_number_is_written_in_quotes() -> None:
    written = ["19e5", "0812", "0o7", "off", "2027-02-28", "15b3"]

    assert load_yaml(to_yaml(list[Any](written))) == written
    assert load_yaml(flat_text({"ids": list[Any](written)}, KEY))["config"][KEY]["ids"] == written


def test_benchmarks_are_off_without_quotes(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    text = (ROOT / "Pulumi.lab.yaml").read_text()
    lab = expanded_lab(ROOT / "Pulumi.lab.yaml")
    benchmarks = text[text.index("    benchmarks:") :]
    path.write_text(text.replace(benchmarks, "    benchmarks: {mode: off}\n"))

    found = read_stack_file(path).benchmarks

    assert found is not None
    assert found.mode == "off"
    assert _file_of(json.dumps({**lab, "benchmarks": {"mode": "off"}}), path), "or no fault has a line number"


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3\n", "x: {a: 1,\n  b: 2,\n  a: 3}\n", "x: &x {b: 1}\ny:\n  <<: *x\n  <<: *x\n"]
)
def test_a_repeated_key_is_refused_with_both_lines(text: str) -> None:
    with pytest.raises(yaml.YAMLError) as refused:
        load_yaml(text)

    assert refused.value.problem_mark.line + 1 >= 3  # type: ignore[attr-defined]  # of MarkedYAMLError


def test_a_merge_may_be_overridden_and_merged_again() -> None:
    """The deep mapping is constructed last, when its merge has already been resolved for `z`."""
    found = load_yaml("x: &x {a: 1, b: 1}\nd: {e: {f: &y {<<: *x, a: 2}}}\nz: {<<: *y, b: 3}\n")

    assert found == {"x": {"a": 1, "b": 1}, "d": {"e": {"f": {"a": 2, "b": 1}}}, "z": {"a": 2, "b": 3}}


def test_a_kubeconfig_keeps_the_booleans_of_yaml_1_1() -> None:
    """As a text, `no` would be true, and the certificate of the API server would not be verified."""
    assert load_kubernetes_yaml("insecure-skip-tls-verify: no") == {"insecure-skip-tls-verify": False}


UNREADABLE = ("!!int x", "!!bool x", "!!timestamp x", "9" * 5000, "[" * 3000 + "]" * 3000, "&a [*a]")


@pytest.mark.parametrize(
    "value", [*UNREADABLE, ".inf", "!!binary aGFsbG8=", "!!timestamp 2027-01-01", "{2027-01-01: 1}"]
)
def test_a_stack_file_with_a_value_that_no_lab_can_have_is_refused(value: str, tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.x.yaml"
    path.write_text(f"config:\n  {KEY}:\n    x: {value}\n")

    with pytest.raises(LabError, match=r"Pulumi\.x\.yaml"):
        read_stack_file(path)
    assert _file_of("{}", path) is None


@pytest.mark.parametrize("value", [*UNREADABLE[:4], "2027-02-30"])
def test_waivers_and_answers_with_such_a_value_are_refused(value: str, tmp_path: Path) -> None:
    waivers, answers = tmp_path / "w.yaml", tmp_path / "answers.yaml"
    waivers.write_text(f"- {{check: iommu, reason: x, expires: {value}}}\n")
    answers.write_text(f"cluster: {value}\n")

    with pytest.raises(LabError, match=r"w\.yaml"):
        read_waivers(waivers, ["iommu"], dt.date(2027, 1, 1))
    with pytest.raises(LabError, match=r"answers\.yaml"):
        read_answers(answers)

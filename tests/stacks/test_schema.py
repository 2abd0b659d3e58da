"""The committed JSON Schema is the models' own, and an editor that follows it catches most mistakes."""

import copy
import json

import yaml

from stacks.docstrings import field_docstrings
from stacks.rails import Rail
from stacks.schema import SCHEMA_FILE, stack_file_schema
from tests.conftest import ROOT
from tests.stacks.lab_schema import SCHEMA, schema_fault
from tests.stacks.refusals import CASES

STACK_FILES = sorted(ROOT.glob("Pulumi.*.yaml"))


def test_the_committed_schema_is_what_the_models_say() -> None:
    assert SCHEMA_FILE.read_text() == stack_file_schema(), "run: rocelab schema > stacks/lab.schema.json"


def test_every_stack_file_names_the_schema_and_follows_it() -> None:
    SCHEMA.check_schema(SCHEMA.schema)

    for path in STACK_FILES:
        assert path.read_text().startswith("# yaml-language-server: $schema="), path.name
        assert schema_fault(path) is None, path.name


def test_the_schema_alone_refuses_what_concerns_a_single_field() -> None:
    reference = yaml.safe_load((ROOT / "Pulumi.lab.yaml").read_text())
    missed = set()
    for name, (edit, _, _) in CASES.items():
        stack = copy.deepcopy(reference)
        edit(stack["config"]["rocelab:lab"])
        if SCHEMA.is_valid(stack):
            missed.add(name)

    assert {"VLAN 4095", "MTU 9300", "a key that nobody knows", "a missing field"} & missed == set()
    assert len(missed) < len(CASES) * 0.65, "the rest are rules between fields, which a schema cannot say"


def test_each_documented_field_of_a_section_is_described_in_the_schema() -> None:
    definitions = json.loads(SCHEMA_FILE.read_text())["$defs"]

    described = definitions["Rail"]["properties"]["mtu_bytes"]["description"]

    assert described == field_docstrings(Rail)["mtu_bytes"]
    assert (
        "description" not in definitions["Rail"]["properties"]["host_subnet"] or field_docstrings(Rail)["host_subnet"]
    )


def test_a_docstring_is_inherited_with_its_field() -> None:
    class Wide(Rail):
        pass

    assert field_docstrings(Wide) == field_docstrings(Rail)

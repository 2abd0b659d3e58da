"""The template is a lab as it stands: who only fills in values begins with something that loads."""

import re

import pytest

from components.validation.benchmarks.jobs.plan import job_of
from stacks.read import read_stack_file
from stacks.schema import SCHEMA_FILE
from tests.conftest import ROOT
from tests.stacks.lab_schema import schema_fault

TEMPLATES = sorted((ROOT / "templates").glob("*/Pulumi.*.yaml"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.parent.name)
def test_a_template_loads_and_renders_its_job(path) -> None:
    lab = read_stack_file(path)

    assert lab.kind == "hardware"
    if lab.cluster is not None:
        assert job_of(lab, "nccl", "roce")["kind"] == "MPIJob"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.parent.name)
def test_a_template_follows_the_schema_that_it_names_and_no_address_of_it_is_anybodys(path) -> None:
    text = path.read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)", text)

    assert named
    assert (path.parent / named[1]).resolve() == SCHEMA_FILE
    assert schema_fault(path) is None
    for node in read_stack_file(path).nodes:
        assert str(node.address).startswith("192.0.2."), "RFC 5737: an address that no machine has"


def test_there_is_a_template() -> None:
    assert TEMPLATES

"""The examples in docstrings run: what people extend shows how, and what they write first works."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from components.audit import registry
from components.audit.fleet import AuditFleet
from components.audit.registry import check
from components.audit.view import View
from components.cluster.ipam import AddressSource
from components.hosts.program.step import Step
from components.provider.base import Resource
from components.report import formats
from components.report.formats import Format
from components.switches.dialect import Dialect
from components.validation.benchmarks.training import TrainingBenchmark
from stacks.lab import Lab
from tests.components.inventory.fabricate import fabricate

EXTENDED = (Step, Dialect, check, TrainingBenchmark, AddressSource, Resource, Format)


@pytest.mark.parametrize("extended", EXTENDED, ids=lambda extended: str(extended.__name__))
def test_an_example_of_what_people_extend_runs(
    extended: object, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_CHECKS", {})  # an example is registered nowhere else
    monkeypatch.setattr(formats, "FORMATS", {})
    view = View(AuditFleet(fabricate(2, 1), None, None))
    names = {**vars(import_module(extended.__module__)), "lab": lab, "view": view}
    [example] = doctest.DocTestFinder(recurse=False).find(extended, extended.__name__, globs=names)

    results = doctest.DocTestRunner().run(example)

    assert results.attempted > 0
    assert results.failed == 0, capsys.readouterr().out

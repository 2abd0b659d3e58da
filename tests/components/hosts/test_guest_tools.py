"""A machine with PVRDMA says before any benchmark that it has nothing to measure with."""

from typing import Any

import pytest

from components.hosts.program.machine import Done
from stacks.lab import Lab
from tests.components.hosts.host_runs import run
from tests.components.hosts.pvrdma_guest import PvrdmaGuest, pvrdma_document


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    return pvrdma_document(lab)


class Bare(PvrdmaGuest):
    """A stock template: nobody has installed perftest."""

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        if words[0] == "ib_write_bw":
            return Done(127, "", "ib_write_bw is not installed")
        return super().run(*words, stdin=stdin, timeout_s=timeout_s)


def test_a_template_without_perftest_is_a_warning_with_the_remedy(tmp_path, document, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = Bare(tmp_path)

    assert run("apply", machine, document)["failed"] is None, "a lab may have no benchmark"
    assert [
        text
        for text in run("confirm", machine, document)["facts"]["warnings"]
        if "system.packages" in text and "perftest" in text
    ]


def test_a_machine_that_has_it_and_a_host_with_a_nic_of_its_own_hear_nothing(document, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert "warnings" not in run("probe", PvrdmaGuest(tmp_path / "virtual"), document)["facts"]

    physical: dict[str, Any] = {**document, "pfs": [{**document["pfs"][0], "driver": "mlx5_core"}]}
    assert "warnings" not in run("probe", Bare(tmp_path / "physical"), physical)["facts"]

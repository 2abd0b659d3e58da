"""A stack whose simulated vCenter was stopped: the next one is empty, and the stack goes on from there."""

import json
import re
import socket
from pathlib import Path

import pytest
import yaml

from components.fabric.vcenter.session import VcenterEndpoint
from engine.recover import recover
from simulator.vcenter.part import VCenter
from stacks.read import parse_lab
from tests.conftest import ROOT
from tests.integration.conftest import ENGINE, require_engine
from tests.integration.fabric_stack import PROGRAM, a_stack
from tests.integration.vcenter import PASSWORD, thumbprint
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

ADDRESS = "127.0.12.204"
BESIDE = """
pulumi.ComponentResource("test:beside:Kept", "kept", None, pulumi.ResourceOptions(depends_on=[fabric]))
"""


def a_vcenter(state: Path) -> VCenter:
    """The simulator's own, at an address of this test."""
    lab = yaml.safe_load((ROOT / "Pulumi.lab-pvrdma.yaml").read_text())["config"]["rocelab:lab"]
    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        lab["fabric"].update(vcenter=ADDRESS, port=free.getsockname()[1])
    (state / "vcenter").mkdir(parents=True)
    (state / "vcenter" / "password").write_text(PASSWORD)
    return VCenter(parse_lab(json.dumps(lab), "lab-pvrdma"), state, ENGINE)


def test_a_stack_starts_afresh_in_a_new_vcenter_and_keeps_what_was_not_in_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_engine()
    vcenter, told = a_vcenter(tmp_path / ".sim"), list[str]()
    vcenter.up(told.append)
    try:
        address, port = told[-1].partition("https://")[2].partition(",")[0].split(":")
        seen = thumbprint(address, int(port))
        endpoint = VcenterEndpoint(
            address=address, port=int(port), user="rocelab", password=PASSWORD, thumbprint_sha256=seen
        )
        stack = a_stack(tmp_path, endpoint)
        (tmp_path / "__main__.py").write_text(PROGRAM + BESIDE)
        stack.fabric["switches"][0]["hosts"] = [{"name": "DC0_C0_H0", "vmkernel": {"existing": "vmk0"}}]
        stack.pulumi("up")

        vcenter.down(told.append)
        vcenter.up(told.append)

        monkeypatch.chdir(tmp_path)
        for name, value in stack.env.items():
            monkeypatch.setenv(name, value)
        assert recover("t", tmp_path, tmp_path / "backend") == 0
        said = capsys.readouterr().out
        done = stack.pulumi("up", "--refresh")

        assert lines_naming(said, "recover:", "vCenter")
        made = re.findall(r"\+ .* (\S+) creat", done)
        assert "fabric-preflight" in made, done
        assert "kept" not in made, "it never was in the vCenter"
        assert stack.seen("DC0_C0_H0") == ("vmk0", True), "set again in the new one"
        assert recover("t", tmp_path, tmp_path / "backend") == 0
        assert capsys.readouterr().out == "", "nothing is forgotten twice"
        stack.pulumi("up", "--expect-no-changes")
    finally:
        vcenter.down(told.append)

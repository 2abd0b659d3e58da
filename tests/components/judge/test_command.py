"""`rocelab judge` as a user calls it."""

import io
import json
import sys
from pathlib import Path

import pytest

from components.cli.app import main
from components.cli.exits import Exit
from components.inventory.document import dump
from tests.components.inventory.fabricate import fabricate
from tests.conftest import ROOT

DEEPOPS = str(ROOT / "tests" / "samples" / "nccl" / "deepops.txt")
WRITE = str(ROOT / "tests" / "samples" / "perftest" / "deepops.client.txt")
FACTS = ("--nic", "100G", "--nics-per-node", "2", "--nodes", "2", "--gpus-per-node", "8")
Out = pytest.CaptureFixture[str]


def test_good_slow_and_undecided_logs_end_with_different_codes() -> None:
    assert main(["judge", DEEPOPS, *FACTS]) == Exit.CLEAN
    assert main(["judge", WRITE, "--nic", "200G"]) == Exit.FINDINGS
    assert main(["judge", WRITE]) == Exit.UNREACHED


def test_several_logs_stand_side_by_side(capsys: Out) -> None:
    main(["judge", DEEPOPS, WRITE, *FACTS])

    first, second = capsys.readouterr().out.splitlines()[:2]
    assert DEEPOPS in first
    assert WRITE in second
    assert first.index("good") == second.index("good")


def test_json_has_each_row_with_its_ceiling(capsys: Out) -> None:
    main(["judge", DEEPOPS, *FACTS, "--json"])

    (log,) = json.loads(capsys.readouterr().out)["logs"]
    assert log["verdict"] == "good"
    assert len(log["rows"]) == len(log["ceilings"]) == 29


def test_markdown_quotes_a_log_and_lets_nothing_act(
    tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("@team.log").write_text("ib_write_bw 97 Gb/s, @owner failed #1\n")

    main(["judge", "@team.log", "--nic", "100G", "--markdown"])

    out = capsys.readouterr().out
    assert "**good**" in out
    assert "@team" not in out


def test_a_log_comes_by_a_pipe(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ib_write_bw 97 Gb/s\n")))

    assert main(["judge", "-", "--nic", "100G"]) == Exit.CLEAN
    assert "stdin: good" in capsys.readouterr().out


def test_a_lab_file_and_an_inventory_say_what_the_log_does_not(tmp_path: Path) -> None:
    inventory = tmp_path / "inventory.json"
    inventory.write_bytes(dump(fabricate(hosts=2, rails=2)))
    lab = ("--config-file", str(ROOT / "Pulumi.lab.yaml"))

    assert main(["judge", DEEPOPS]) == Exit.UNREACHED
    assert main(["judge", DEEPOPS, *lab, "--nic", "100G"]) == Exit.CLEAN
    assert main(["judge", WRITE, "--inventory", str(inventory)]) == Exit.FINDINGS, "400G ports"


def test_a_page_is_written_beside_the_text(tmp_path: Path, capsys: Out) -> None:
    page = tmp_path / "judged.html"

    main(["judge", DEEPOPS, *FACTS, "--html", str(page)])

    assert "<svg" in page.read_text()
    assert "good" in capsys.readouterr().out

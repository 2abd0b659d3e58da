"""The report of the reference lab's outputs: what it shows, what it labels, and what it refuses."""

import io
import json
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

from components.cli.app import main
from components.report.console import COLOUR, print_verdict
from components.report.lines import cells, counted, headline, other_hints, rated
from components.report.markdown import render_markdown
from components.report.page import state_class
from components.validation.records import TransferResult
from components.validation.store import Material
from components.validation.summary import Function, Performance, Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.report.synthetic import Model
from tests.components.validation.labs import hardware, plan_for, record, reduced
from tests.conftest import ROOT
from tests.messages import states

GOLDEN = ROOT / "tests" / "golden" / "report"


def simulated(lab: Lab) -> Material:
    assert lab.benchmarks
    run = record(plan_for(lab), 0.04, nccl=reduced(22.84, replayed=True))
    return Material(summary=judge(plan_for(lab), lab.benchmarks, run).verdict())


def written(tmp_path: Path, validation: object) -> Path:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps({"lab": {}, "validation": validation}))
    return file


@pytest.mark.parametrize("name", ["simulated", "hardware"])
def test_the_markdown_is_the_golden_one(name: str) -> None:
    material = Model(4, 2, simulated=name == "simulated").material()

    assert render_markdown(material) == (GOLDEN / f"{name}.md").read_text()


def test_everything_from_the_simulator_is_labelled(lab: Lab) -> None:
    summary = simulated(lab).summary

    assert headline(summary) == "function: pass · performance: not rated (simulated)"
    for test in summary.tests:
        _, _, function, performance, median, *_ = cells(test, simulated=True)
        not_run = (function, median) == ("not run", "") and any(
            why in performance for why in ("kwok", "simulated node")
        )
        assert not_run or median.endswith(("simulated", "replayed"))


def test_hardware_is_labelled_nowhere() -> None:
    text = render_markdown(Model(4, 2).material())

    assert "simulated" not in text
    assert "replayed" not in text


def test_the_command_prints_the_table_and_writes_the_files(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = simulated(lab).summary
    outputs = written(tmp_path, summary.model_dump(mode="json"))
    files = [str(tmp_path / "r.html"), str(tmp_path / "r.md")]
    status = main(
        ["report", "--outputs", str(outputs), "--store", str(tmp_path), "--html", files[0], "--markdown", files[1]]
    )

    out = capsys.readouterr().out
    assert status == 0
    assert out.splitlines()[-3] == headline(summary)
    assert out.splitlines()[-2:] == [f"report: {file}" for file in files]
    assert "0.04 Gbit/s" in out
    assert "is not in" in Path(files[1]).read_text(), "a report without a record says so"
    assert main(["report", "--outputs", str(outputs), "--store", str(tmp_path), "--json"]) == 0
    assert Summary.model_validate(json.loads(capsys.readouterr().out)["verdict"]) == summary


def test_a_report_is_the_same_where_no_lab_file_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ROOT / "tests" / "samples" / "run"
    options = ["--outputs", str(run / "outputs.json"), "--store", str(run), "--json"]
    assert main(["report", *options]) == 0
    there = capsys.readouterr().out
    monkeypatch.chdir(tmp_path)

    assert main(["report", *options]) == 0
    assert capsys.readouterr().out == there
    assert json.loads(there)["run"]["rails"], "what the lab declared is in the run"


def test_a_folder_gets_every_format_and_is_made(lab: Lab, tmp_path: Path) -> None:
    outputs = written(tmp_path, simulated(lab).summary.model_dump(mode="json"))
    folder = tmp_path / "new" / "report"

    assert main(["report", "--outputs", str(outputs), "--store", str(tmp_path), "--folder", str(folder)]) == 0
    assert sorted(file.name for file in folder.iterdir()) == [
        "lab.ctrf.json",
        "lab.html",
        "lab.json",
        "lab.junit.xml",
        "lab.md",
    ]


def test_a_failed_verdict_is_shown_and_is_exit_code_1(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.benchmarks
    bad = "[bold]x[/] \x1b[2J"
    broken = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=(bad,))
    run = record(plan_for(lab), 0.04, also=[broken], nccl=reduced(replayed=True))
    summary = judge(plan_for(lab), lab.benchmarks, run).verdict()

    assert main(["report", "--outputs", str(written(tmp_path, summary.model_dump(mode="json")))]) == 1
    out = capsys.readouterr().out
    row = summary.tests[0]
    assert (row.function, row.failed) == ("fail", 1)
    assert states(out, "fail", "1 failed")
    assert "[bold]x[/]" in out, "what a host says is text, not markup"
    assert "\x1b" not in out, "and does not act on the terminal"


def test_a_stale_pass_is_reported_as_stale(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary = simulated(lab).summary.model_copy(update={"stale": ("gpu01: driver", "gpu02: driver")})

    assert main(["report", "--outputs", str(written(tmp_path, summary.model_dump(mode="json")))]) == 0
    assert states(capsys.readouterr().out, "stale", "gpu01: driver", "1 more")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "no output `validation` yet"),
        ("nonsense", "no outputs in JSON"),
        ("[]", "no outputs in JSON"),
        pytest.param("[" * 100_000, "no outputs in JSON", id="nested too deeply"),
        ('{"validation": {"schema_version": 1, "function": "pass"}}', "another version of rocelab"),
    ],
)
def test_what_is_not_a_verdict_is_reported_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)

    assert main(["report", "--outputs", str(file)]) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert len(err.splitlines()) == 1


def test_benchmarks_that_are_off_are_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--outputs", str(written(tmp_path, {"mode": "off", "function": "skip"}))]) == 0
    assert "function: skip" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_no_traceback(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = written(tmp_path, simulated(lab).summary.model_dump(mode="json"))

    assert main(["report", "--outputs", str(outputs), "--html", str(tmp_path / "no" / "r.html")]) == 2
    assert f"{tmp_path}/no/r.html: cannot be written: No such file or directory" in capsys.readouterr().err


def test_the_test_that_decides_is_shown_whole_and_once(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = hardware(lab)
    assert real.benchmarks
    summary = judge(plan_for(real), real.benchmarks, record(plan_for(real), 92.40, nccl=reduced(22.92))).verdict()
    assert any(hint.endswith("...") for hint in summary.hints), "the list of hints has it shortened"

    assert main(["report", "--outputs", str(written(tmp_path, summary.model_dump(mode="json")))]) == 0
    out = " ".join(capsys.readouterr().out.split())
    finding = next(found for found in summary.findings if found.code == "MTU_FINGERPRINT_1024")
    assert out.count(" ".join(finding.hint.split())) == 1
    assert render_markdown(Material(summary=summary)).count(finding.hint.partition(":")[0]) == 1


def test_a_hint_that_belongs_to_no_finding_stays(lab: Lab) -> None:
    found = Model(4, 2).material().summary
    summary = found.model_copy(
        update={"hints": (f"{found.findings[0].where}: {'x' * 400}", "measure again", "and 2 more")}
    )

    assert other_hints(summary) == ("measure again",)


def test_what_could_not_be_read_is_counted_as_what_failed_is() -> None:
    test = (
        Model(4, 2)
        .material()
        .summary.tests[0]
        .model_copy(update={"measured": 5, "failed": 1, "skipped": 2, "errors": 4, "function": "error"})
    )

    assert states(counted(test), "1 failed", "2 skipped", "4 unreadable", 12)
    assert counted(test.model_copy(update={"failed": 0, "skipped": 0, "errors": 0})) == ""


def test_the_performance_says_how_many_tests_it_is_about(lab: Lab) -> None:
    summary = Model(4, 2).material().summary

    assert states(rated(summary), "1 of 5", "fail")
    assert rated(simulated(lab).summary) == "simulated"
    assert rated(summary.model_copy(update={"performance": "warn"})) == "", "as when only the comparison warns"


def test_green_is_what_passed_and_is_not_stale_on_each_axis_by_itself(lab: Lab) -> None:
    summary = Model(4, 2).material().summary.model_copy(update={"function": "pass", "performance": "fail"})
    states = {*get_args(Function), *get_args(Performance), "partial"}

    def printed(found: Summary) -> str:
        out = io.StringIO()
        print_verdict(found, Console(file=out, force_terminal=True, color_system="standard", width=160))
        return out.getvalue()

    last = printed(summary).splitlines()[-1]
    assert last.startswith("function: \x1b[32mpass\x1b[0m · performance: \x1b[1;31mfail\x1b[0m")
    assert "\x1b[32m" not in printed(summary.model_copy(update={"stale": ("gpu01: boot",)}))
    assert {state for state in states if COLOUR.get(state, "") == "green"} == {"pass"}
    assert {state for state in states if state_class(state) == "pass"} == {"pass"}
    assert state_class("pass", ["gpu01: boot"]) != "pass"

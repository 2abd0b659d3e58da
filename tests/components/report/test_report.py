"""The report of the reference lab's outputs: what it shows, what it labels, and what it refuses."""

import json
from pathlib import Path

import pytest

from components.report.__main__ import main
from components.report.lines import cells, headline
from components.report.markdown import render_markdown
from components.validation.judging.verdict import judge
from components.validation.records import TransferResult
from components.validation.summary import Summary
from stacks.lab import Lab
from tests.components.validation.labs import hardware, measured, plan_for, record, reduced
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "validation"


def simulated(lab: Lab) -> Summary:
    assert lab.benchmarks
    return judge(plan_for(lab), lab.benchmarks, record(plan_for(lab), 0.04, nccl=reduced(22.84, replayed=True)))


def real(lab: Lab) -> Summary:
    machines = hardware(lab)
    assert machines.benchmarks
    slow = measured("rail-b", "gpu02", "gpu01", 41.0)
    run = record(plan_for(machines), 92.4, nccl=reduced(22.9), also=[slow])
    return judge(plan_for(machines), machines.benchmarks, run)


def written(tmp_path: Path, validation: object) -> Path:
    file = tmp_path / "outputs.json"
    file.write_text(json.dumps({"lab": {}, "validation": validation}))
    return file


@pytest.mark.parametrize(("name", "make"), [("simulated", simulated), ("real", real)])
def test_the_markdown_is_the_golden_one(lab: Lab, name: str, make) -> None:  # type: ignore[no-untyped-def]
    assert render_markdown(make(lab)) == (GOLDEN / f"report-{name}.md").read_text()


def test_everything_from_the_simulator_is_labelled(lab: Lab) -> None:
    summary = simulated(lab)

    assert headline(summary) == "function: pass · performance: not rated (simulated)"
    for test in summary.tests:
        assert cells(test, simulated=True)[4].endswith(("simulated", "replayed"))


def test_hardware_is_labelled_nowhere(lab: Lab) -> None:
    text = render_markdown(real(lab))

    assert "simulated" not in text
    assert "replayed" not in text
    assert "looks like path MTU 1024" in text


def test_the_command_prints_the_table_and_writes_both_files(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = simulated(lab)
    outputs = written(tmp_path, summary.model_dump(mode="json"))
    files = [str(tmp_path / "r.md"), str(tmp_path / "r.json")]
    status = main(["--outputs", str(outputs), "--markdown", files[0], "--json", files[1]])

    out = capsys.readouterr().out
    assert status == 0
    assert out.splitlines()[-1] == "function: pass · performance: not rated (simulated)"
    assert "0.04 Gbit/s" in out
    assert Summary.model_validate_json((tmp_path / "r.json").read_text()) == summary
    assert (tmp_path / "r.md").read_text() == render_markdown(summary)


def test_a_failed_verdict_is_shown_and_is_no_failure_of_the_report(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab.benchmarks
    broken = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("[bold]x[/]",))
    run = record(plan_for(lab), 0.04, also=[broken], nccl=reduced(replayed=True))
    summary = judge(plan_for(lab), lab.benchmarks, run)

    assert main(["--outputs", str(written(tmp_path, summary.model_dump(mode="json")))]) == 0
    out = capsys.readouterr().out
    assert "fail (1 failed of 2)" in out
    assert "[bold]x[/]" in out, "what a host says is text, not markup"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "no output `validation` yet"),
        ("nonsense", "no outputs in JSON"),
        ("[]", "no outputs in JSON"),
        ('{"validation": {"schema_version": 1, "function": "pass"}}', "of another version of this program"),
    ],
)
def test_what_is_no_verdict_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    file = tmp_path / "outputs.json"
    file.write_text(text)

    assert main(["--outputs", str(file)]) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert len(err.splitlines()) == 1


def test_benchmarks_that_are_off_are_no_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--outputs", str(written(tmp_path, {"mode": "off", "function": "skip"}))]) == 0
    assert "function: skip" in capsys.readouterr().out


def test_a_file_that_cannot_be_written_is_no_traceback(
    lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = written(tmp_path, simulated(lab).model_dump(mode="json"))

    assert main(["--outputs", str(outputs), "--json", str(tmp_path / "no" / "r.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err

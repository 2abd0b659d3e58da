"""After an up that failed and did not measure, the verdict of the run before is not this one's."""

import json
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from components.cli.app import main
from components.report.lines import headline
from components.validation.stale import after_up
from components.validation.summary import Performance, Summary, closed
from tests.components.report.synthetic import Model
from tests.messages import states

BEFORE, AFTER = "2000-01-01T00:00:00Z", "2100-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def passed() -> Summary:
    summary = Model(4, 2).material().summary
    return summary.model_copy(update={"function": "pass", "performance": "pass", "mode": "warn", "stale": ()})


def report(folder: Path, summary: Summary, *options: str) -> int:
    outputs = folder / "outputs.json"
    outputs.write_text(json.dumps({"validation": summary.model_dump(mode="json")}))
    return main(["report", "--outputs", str(outputs), "--store", str(folder), *options])


def test_a_failed_up_never_ends_with_the_pass_of_the_run_before(
    passed: Summary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "lab.html"

    assert report(tmp_path, passed, "--html", str(page), "--after-up", "255", AFTER) == 0

    said = capsys.readouterr().out
    shown = after_up(passed, AFTER, failed=True)
    [why] = shown.stale
    assert (shown.function, shown.performance) == ("skip", "not rated")
    assert headline(shown).split(" · stale")[0] in said
    assert states(" ".join(said.split()), "pulumi up", passed.run_id)
    assert "function: pass" not in said
    assert why in page.read_text()


@pytest.mark.parametrize(("status", "begun"), [("0", AFTER), ("255", BEFORE)])
def test_an_up_that_succeeded_or_measured_shows_its_verdict(
    passed: Summary, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str, begun: str
) -> None:
    assert report(tmp_path, passed, "--after-up", status, begun) == 0
    assert headline(passed) in capsys.readouterr().out


@pytest.mark.parametrize(("status", "begun"), [("255", "yesterday"), (AFTER, "255"), ("255", "2100-01-01 00:00:00")])
def test_an_invalid_status_or_start_time_is_refused(
    passed: Summary, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str, begun: str
) -> None:
    assert report(tmp_path, passed, "--after-up", status, begun) == 2
    assert "--after-up" in capsys.readouterr().err


def test_only_a_verdict_for_which_the_gate_fails_again_stays_as_it_was(passed: Summary) -> None:
    functions = get_args(Summary.model_fields["function"].annotation)
    for mode, function, performance in product(("warn", "enforce"), functions, get_args(Performance)):
        verdict = {"mode": mode, "function": function, "performance": performance}

        shown = after_up(passed.model_copy(update=verdict), AFTER, failed=True)

        assert bool(shown.stale) != closed(mode, function, performance), verdict

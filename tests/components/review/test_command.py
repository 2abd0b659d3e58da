"""`rocelab review` as a user and a pipeline call it."""

import json
from pathlib import Path

import pytest

from components.cli.app import main
from components.review.effects import Kind
from tests.components.review.previews import SAMPLES, fleet, hosts, preview, sample


def ended(*words: str) -> int:
    return main(["review", *words])


@pytest.mark.parametrize(
    ("name", "fail_on", "code"),
    [
        ("reboots", None, 0),
        ("reboots", "failed", 0),
        ("reboots", "replace", 0),
        ("reboots", "reboot", 1),
        ("reboots", "pods", 1),
        ("reboots", "any", 1),
        ("changes", "reboot", 4),
        ("changes", "pods", 1),
        ("changes", "link", 1),
        ("changes", "member", 1),
        ("broken", None, 1),
        ("refused", None, 1),
    ],
)
def test_the_exit_code_says_how_bad_it_is(
    name: str, fail_on: str | None, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(str(SAMPLES / f"{name}.json"), *(["--fail-on", fail_on] if fail_on else [])) == code
    assert capsys.readouterr().out.startswith("<!-- rocelab:review pod1 -->\n### pod1: ")


def test_nothing_changed_is_no_finding_even_of_any(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(preview())

    assert ended(str(tmp_path / "p.json"), "--fail-on", "any") == 0


@pytest.mark.parametrize("text", ["", sample("changes")[:5000], '{"sequence":0,"timestamp":1}\n{"sequence":1}\n', "{}"])
def test_what_cannot_be_read_is_bad_input_and_no_comment(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.json").write_text(text)

    assert ended(str(tmp_path / "p.json"), "--fail-on", "any") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "pulumi preview --json" in err


def test_json_has_the_rows_and_the_worst_effect(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(str(SAMPLES / "changes.json"), "--json") == 4

    found = json.loads(capsys.readouterr().out)
    assert (found["title"], found["worst"], found["unread"]) == ("pod1", "pods", True)
    assert found["rows"][0]["where"] == "gpu[0003-0004] enp132s0"


def test_json_without_names_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    ended(str(SAMPLES / "changes.json"), "--json", "--no-names")

    out = capsys.readouterr().out
    assert "gpu" not in out
    assert "pod1" not in out


def test_title_note_and_limit_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.json").write_text(preview(hosts({}, fleet(300))))

    assert ended(str(tmp_path / "p.json"), "--title", "lab", "--note", "commit 1a2b3c4", "--limit", "4000") == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:2] == ["<!-- rocelab:review lab -->", f"### lab: {Kind.JOINS.phrase(300)}"]
    assert out.endswith("<sub>commit 1a2b3c4</sub>\n")
    assert ended(str(tmp_path / "p.json"), "--limit", "10") == 2

"""The commands `python -m ...` beside `rocelab`, which each tell what they are for, and a stack's secrets."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.stack import NoEngineError, Stack
from stacks.base import LabError, UnreachableError
from tests.conftest import ROOT

INNER = {
    "components.jobs.mpi_all_reduce": "the ranks of a job run it, in the job's image",
    "components.ports.connect": "its source runs on the hosts",
    "engine.plugin_version": "setup asks a plugin by it",
    "simulator.nodes.guest_dns": "its source runs on nodes with real pods",
    "simulator.packages.door": "a process of the simulator",
    "simulator.packages.server": "a process of the simulator",
}
"""Programs that no person calls, and why they have no help."""
GUARD = '\nif __name__ == "__main__":\n'


def commands() -> Iterator[str]:
    """Every module that people run. What lies in the folders of engine/ belongs to builds, and would run here."""
    paths = [path for package in ("components", "stacks", "simulator") for path in (ROOT / package).rglob("*.py")]
    for path in sorted([*paths, *(ROOT / "engine").glob("*.py")]):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        text = path.read_text()
        if GUARD in text and name not in INNER:
            assert "argparse" in text, f"{name} knows no --help, and would run"
            yield name


COMMANDS = tuple(commands())


def help_of(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What `--help` prints, on one line."""
    try:
        module = importlib.import_module(f"{name}.__main__")
    except ModuleNotFoundError:
        module = importlib.import_module(name)
    monkeypatch.setattr("sys.argv", [name, "--help"])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as ended:
        module.main(*([["--help"]] if inspect.signature(module.main).parameters else []))
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_its_purpose_and_usage(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = help_of(name, capsys, monkeypatch)

    assert said.startswith("usage: ")
    assert len(said.partition("options:")[0].partition("] ")[2]) > 20, "a sentence on what it is for"


def test_a_secret_is_read_from_the_stack_file_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def pulumi(*words: str) -> str:
        asked.append(words)
        return "opened\n"

    monkeypatch.setattr("components.stack.ask_pulumi", pulumi)
    assert Stack(root=ROOT, name="dgx", config_file=Path("a.yaml")).secret("identity") == "opened"
    assert Stack(root=ROOT).secret("identity") == "opened"

    first, second = asked
    assert first == ("config", "get", "rocelab:identity", "--stack", "dgx", "--config-file", "a.yaml")
    assert second == ("config", "get", "rocelab:identity", "--stack", "lab")


@pytest.mark.parametrize(
    "said", ["error: configuration key 'a' not found for stack 'lab'", "error: no stack named 'lab' found"]
)
def test_a_secret_that_the_stack_does_not_have_is_none(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert secret_where_pulumi_fails(UnreachableError(f"pulumi config get failed: {said}"), monkeypatch) is None


@pytest.mark.parametrize("error", [NoEngineError("pulumi is not on PATH"), UnreachableError("incorrect passphrase")])
def test_an_unreadable_secret_is_not_reported_as_missing(error: LabError, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=str(error)):
        secret_where_pulumi_fails(error, monkeypatch)


def secret_where_pulumi_fails(error: LabError, monkeypatch: pytest.MonkeyPatch) -> str | None:
    def pulumi(*_: str) -> str:
        raise error

    monkeypatch.setattr("components.stack.ask_pulumi", pulumi)
    return Stack(root=ROOT).secret("a")

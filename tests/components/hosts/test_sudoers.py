"""Lines for sudoers: they allow what rocelab runs, and the program that they name for reading cannot change a host."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest

from components.hosts import pack
from components.hosts.calls import command_of
from components.hosts.hosts import start_command
from components.hosts.program.main import perform
from components.hosts.roll import REBOOT, reach_command
from components.hosts.sudoers import BUILDING, READING, lines
from components.inventory.hosts import command as look_command
from components.ssh.credentials import READ
from components.validation.benchmarks.verbs.commands import lease
from tests.components.hosts.kernel import FakeHost
from tests.messages import states

BUILDS = [
    *(command_of(verb) for verb in ("probe", "plan", "confirm", "undo")),
    start_command("apply"),
    start_command("confirm"),
    REBOOT,
    READ,
    reach_command("enp5s0", ["10.10.11.12"]),
    lease("run", 60),
]


def as_root(command: str) -> list[str]:
    """The words behind each `sudo -n` that runs what was sent, without the shell's quotes, as sudo joins them."""
    parts = [part.split(" && exit")[0].split(" || ")[0].split("\n")[0] for part in command.split("sudo -n ")[1:]]
    return [part.replace("'", "").strip() for part in parts if "rocelab-reader" not in part]


@pytest.mark.parametrize("command", BUILDS)
def test_what_a_build_runs_as_root_is_in_its_lines(command: str) -> None:
    seen_by_sudo = as_root(command)

    assert seen_by_sudo
    for words in seen_by_sudo:
        assert [pattern for pattern in BUILDING if fnmatchcase(words, pattern)], words


def test_the_command_of_a_verb_is_the_same_in_every_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = command_of("probe")
    monkeypatch.setattr(pack, "packed", lambda: b"another version")

    assert command_of("probe") == before


def test_reading_allows_no_verb_that_changes_a_host_and_no_wildcard() -> None:
    text = lines("read", "ops")

    assert text.splitlines()[-1] == "ops ALL=(root) NOPASSWD: ROCELAB_READ"
    assert "*" not in text
    assert {verb.split()[0] for verb in READING} == {"look", "evidence", "plan"}
    assert f"sudo -n {pack.PYTHON} /usr/local/lib/rocelab-reader.pyz look" in look_command(sudo=True)


def test_special_characters_are_escaped() -> None:
    assert "--on-active\\=1" in lines("build", "ops")
    assert "-c import sys;exec(sys.stdin.buffer.readline()) *" in lines("build", "ops")


@pytest.mark.parametrize("package", ["--pipe=sh -c id", "../../etc/shadow"])
def test_a_plan_refuses_values_that_could_be_options_or_paths(
    package: str, machine: FakeHost, document: dict[str, Any]
) -> None:
    planned = perform("plan", machine, json.dumps({**document, "packages": [package]}), b"")

    assert planned["failed"] is not None
    assert states(planned["failed"]["reason"], "hyphen")
    assert machine.commands == []

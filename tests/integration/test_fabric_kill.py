"""Runs that are killed between looking at an ESXi host, setting something there, and writing down that it is set."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.fabric.vcenter.client import OPTION, session
from engine.recover import recover
from simulator.vcenter.control import SOCKET, Control
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack
from tests.integration.vcenter import PASSWORD, running
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.kills]

HOST = "DC0_C0_H0"
THEIRS, OURS = "vmk7", "vmk1"
"""The value that the host had before us, which no default would give back, and the adapter that is made for us."""
LONGEST_S = 300
POLL_S = 0.1


@dataclass
class Killed:
    """A stack in a vCenter that holds calls, so that a run can be killed within one."""

    stack: Vsphere
    control: Control

    def at(self, call: str, verb: str) -> None:
        """Runs the engine until the vCenter has such a call in its hands, and kills it there: the call is not done."""
        self.control.hold(call)
        log = self.stack.folder / "killed.log"
        with log.open("wb") as printed:
            engine = subprocess.Popen(
                ["pulumi", verb, "--non-interactive", "--yes", "--skip-preview", "--stack", "t"],
                cwd=self.stack.folder,
                env=self.stack.env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            until(lambda: self.control.held()[call] > 0 or engine.poll() is not None)
            assert engine.returncode is None, f"ended before {call}:\n{log.read_text()[-6000:]}"
            lines = [command_line(pid) for pid in members(engine.pid)]
            assert len(lines) >= 3, "the engine, the program and a plugin at least"
            assert not [line for line in lines if PASSWORD in line], "anybody on this machine can read them"
        finally:
            engine.kill()
            engine.wait()
            for plugin in members(engine.pid):
                with suppress(ProcessLookupError):  # it may end by itself meanwhile
                    os.kill(plugin, signal.SIGKILL)
            self.control.release()
        assert PASSWORD not in log.read_text()

    def recovered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What `make up` does first."""
        with monkeypatch.context() as patched:
            patched.chdir(self.stack.folder)
            for name, value in self.stack.env.items():
                patched.setenv(name, value)
            assert recover("t", self.stack.folder, self.stack.folder / "backend") == 0

    def recorded(self, kind: str) -> dict[str, Any] | None:
        """What the state has of the host's resource of a kind; none where it has no such resource."""
        exported = json.loads(self.stack.run("stack", "export", "--stack", "t").stdout)
        found = [
            one["outputs"] for one in exported["deployment"].get("resources", []) if one["type"].endswith(f":{kind}")
        ]
        return found[0] if found else None

    def baseline(self) -> tuple[str, bool]:
        found = self.recorded("Baseline")
        assert found is not None
        return found["vmknic"], found["firewall_open"]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not done():
        assert time.monotonic() < deadline, "it does not come so far"
        time.sleep(POLL_S)


def members(session_id: int) -> Iterator[int]:
    """The processes of a session whose first one may be gone."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                ours = os.getsid(int(entry.name)) == session_id
            except ProcessLookupError:
                continue
            if ours:
                yield int(entry.name)


def command_line(pid: int) -> str:
    """As the process list shows it; empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    require_engine()
    folder = tmp_path_factory.mktemp("kill")
    with running(folder, f"-control={folder / SOCKET}") as endpoint:
        # as every lab with a fabric: the state is written at each step (docs/decisions/0007-state-once.md)
        stack = a_stack(folder, endpoint)
        # with an adapter that is made, the switch stands before the host is set: a kill then leaves none half made
        stack.fabric["switches"][0]["hosts"] = [{"name": HOST, "vmkernel": {"address": "10.10.11.201/24"}}]
        stack.write_lab()
        with session(endpoint) as vcenter:
            vcenter.set_option(vcenter.host(HOST), OPTION, THEIRS)
        yield Killed(stack, Control(folder / SOCKET))


def test_a_kill_before_a_value_is_set_finds_it_written_down_already(killed: Killed) -> None:
    killed.at("UpdateOptions", "up")

    assert killed.stack.seen(HOST) == (THEIRS, False), "nothing was set"
    assert killed.recorded("HostSettings") is None
    assert killed.baseline() == (THEIRS, False)


def test_a_kill_after_a_value_is_set_and_before_that_is_written_down_keeps_what_was_found(
    killed: Killed, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed.recovered(monkeypatch)
    assert lines_naming(capsys.readouterr().out, "pending create", f"fabric-{HOST}-settings")

    killed.at("EnableRuleset", "up")

    assert killed.stack.seen(HOST) == (OURS, False), "one of the two is set"
    assert killed.recorded("HostSettings") is None, "and nobody wrote it down"
    assert killed.baseline() == (THEIRS, False)


def test_the_next_run_sets_the_rest_and_takes_none_of_its_own_values_for_earlier_ones(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed.recovered(monkeypatch)

    killed.stack.pulumi("up", "--refresh")

    assert killed.stack.seen(HOST) == (OURS, True)
    assert killed.baseline() == (THEIRS, False), "nor does a refresh"


def test_a_killed_destroy_is_finished_by_the_next_and_the_host_has_what_it_had(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed.at("DisableRuleset", "destroy")
    assert killed.stack.seen(HOST) == (THEIRS, True), "one of the two is given back"
    assert killed.recorded("HostSettings") is not None, "and nobody wrote it down"

    killed.recovered(monkeypatch)
    killed.stack.pulumi("destroy")

    assert killed.stack.seen(HOST) == (THEIRS, False)
    with session(killed.stack.endpoint) as vcenter:
        assert vcenter.vmkernel_names(vcenter.host(HOST)).keys() == {"vmk0"}


def test_a_destroy_right_after_a_killed_up_names_what_it_does_not_know(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed.at("EnableRuleset", "up")
    killed.recovered(monkeypatch)

    said = killed.stack.pulumi("destroy")

    assert lines_naming(said, HOST, OPTION, f"'{OURS}'", f"'{THEIRS}'")
    assert killed.recorded("Baseline") is None

"""Plugins that outlive a killed engine, as real processes that somebody else than process 1 adopts."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from engine.recover import orphans, recover

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for a subreaper, and /proc")
PLUGIN = "pulumi-resource-command"
SUBREAPER = """
    import ctypes, os, subprocess, sys
    PR_SET_CHILD_SUBREAPER = 36
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    script = '"$0" 60 & echo $!; wait'
    engine = subprocess.Popen([sys.argv[1], "-c", script, sys.argv[2]], executable="/bin/sh")
    sys.stdin.readline()
    engine.kill()
    engine.wait()
    print("killed", flush=True)
    pid, status = os.wait()
    print(pid, os.WTERMSIG(status), flush=True)
"""


def until_it_is(pid: int, program: Path) -> None:
    """Waits for the end of a start: a fork has its parent's words at first, and a new program none for a moment."""
    while not Path(f"/proc/{pid}/cmdline").read_text().startswith(str(program)):
        time.sleep(0.01)


class Family:
    """A subreaper, below it an engine, below that a plugin."""

    def __init__(self, checkout: Path, engine: str = "pulumi") -> None:
        plugin = checkout / ".engine" / "standins" / PLUGIN
        plugin.parent.mkdir(parents=True)
        plugin.symlink_to("/bin/sleep")
        self._reaper = subprocess.Popen(
            [sys.executable, "-c", dedent(SUBREAPER), engine, plugin],
            cwd=checkout,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.plugin = int(self.says())
        until_it_is(self.plugin, plugin)

    def says(self) -> str:
        assert self._reaper.stdout
        return self._reaper.stdout.readline().strip()

    def kill_the_engine(self) -> None:
        assert self._reaper.stdin
        self._reaper.stdin.write("\n")
        self._reaper.stdin.flush()
        assert self.says() == "killed"

    def end(self) -> None:
        command = Path(f"/proc/{self.plugin}/cmdline")
        if command.exists() and PLUGIN in command.read_text():  # the number may be another process's by now
            os.kill(self.plugin, 9)
        self._reaper.kill()
        self._reaper.communicate()


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    found = Family(tmp_path)
    yield found
    found.end()


def test_a_plugin_is_an_orphan_regardless_of_its_new_parent(family: Family, tmp_path: Path) -> None:
    assert list(orphans(tmp_path, tmp_path / ".engine")) == [], "its engine lives"

    family.kill_the_engine()

    assert list(orphans(tmp_path, tmp_path / ".engine")) == [(family.plugin, PLUGIN)]


def test_an_orphan_of_another_checkout_is_left_alone(family: Family, tmp_path: Path) -> None:
    family.kill_the_engine()

    assert list(orphans(tmp_path / "other", tmp_path / ".engine")) == []
    assert list(orphans(tmp_path, tmp_path / "other" / ".engine")) == []


@pytest.fixture
def family_in_pulumi_lab(tmp_path: Path) -> Iterator[Family]:
    checkout = tmp_path / "pulumi-lab"
    checkout.mkdir()
    found = Family(checkout, str(checkout / ".engine" / "bin" / "pulumi"))
    yield found
    found.end()


def test_a_live_engine_in_a_checkout_that_is_called_like_a_plugin_is_no_orphan(
    family_in_pulumi_lab: Family, tmp_path: Path
) -> None:
    checkout = tmp_path / "pulumi-lab"

    assert list(orphans(checkout, checkout / ".engine")) == [], "an engine is no plugin"

    family_in_pulumi_lab.kill_the_engine()

    assert list(orphans(checkout, checkout / ".engine")) == [(family_in_pulumi_lab.plugin, PLUGIN)]


def test_a_plugin_is_found_behind_its_interpreter_in_such_a_checkout(tmp_path: Path) -> None:
    checkout = tmp_path / "pulumi-lab"
    script = checkout / "engine" / "host.py"
    script.parent.mkdir(parents=True)
    script.write_text("read -r _\n")
    command = [checkout / ".venv" / "bin" / "python", script, checkout / ".engine" / "bin" / "pulumi-language-python"]

    with subprocess.Popen(command, executable="/bin/sh", cwd=checkout, stdin=subprocess.PIPE) as host:
        until_it_is(host.pid, command[0])
        found = list(orphans(checkout, checkout / ".engine"))
        host.communicate(b"\n")

    assert found == [(host.pid, "pulumi-language-python")]


def test_recovery_ends_an_orphan_and_says_so(
    family: Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family.kill_the_engine()

    assert recover("lab", tmp_path, tmp_path / "state") == 0

    assert family.says() == f"{family.plugin} 15"
    assert f"ended orphaned {PLUGIN} ({family.plugin})" in capsys.readouterr().out

"""Command sim: its help, its refusals, its tables."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from simulator import cli, logs, tables
from simulator.part import SimulatorError, Status
from simulator.switch.client import PortState
from simulator.switch.ports import PortConfig
from tests.messages import lines_naming, stating

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "verb", ["", "up", "status", "reset", "down", "build", "ssh", "logs", "switch", "switch pull", "switch set"]
)
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        cli.main([*verb.split(), "--help"])

    assert ended.value.code == 0
    assert "usage: sim" in capsys.readouterr().out


def test_the_help_shows_how_to_force_an_accelerator(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    assert "ROCELAB_ACCEL=kvm|tcg" in capsys.readouterr().out


def test_a_stack_that_does_not_exist_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["status", "--stack", "nowhere"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: Pulumi.nowhere.yaml")


def test_a_part_that_does_not_exist_is_refused_with_those_that_do(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["up", "nods"]) == 1
    assert lines_naming(capsys.readouterr().err, "nods", "switch, nodes, plane")


def test_a_node_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["ssh", "gpu77", "true"]) == 1
    assert lines_naming(capsys.readouterr().err, "gpu77", "gpu01, gpu02")


@pytest.mark.sim
def test_two_commands_at_once_wait_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The second says so; and the lock of a killed command holds nobody up, since the kernel lets go of it."""
    monkeypatch.setattr(cli, "STATE", tmp_path)
    script = "import sys; from simulator import cli; from pathlib import Path; cli.STATE = Path(sys.argv[1])\n"
    script += "with cli._alone(): print('mine', flush=True)"
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen([sys.executable, "-c", script, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert second.stdout is not None
        assert lines_naming(second.stdout.readline(), "waiting", "another sim command")
        time.sleep(0.1)
        assert second.poll() is None
    assert second.communicate(timeout=20)[0] == "mine\n"


@pytest.mark.sim
def test_a_reader_that_goes_away_ends_the_command_without_a_complaint():
    script = "import sys; sys.argv = ['sim', 'status', '--help']; import runpy; runpy.run_module('simulator.cli', "
    script += "run_name='__main__')"
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody_reads:
        ended = subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, stdout=nobody_reads, stderr=subprocess.PIPE, check=False
        )

    assert ended.returncode == -signal.SIGPIPE
    assert ended.stderr == b""


@pytest.mark.sim
def test_a_part_that_hangs_up_is_an_error_with_words_and_no_sudden_end():
    script = "import sys, socket, runpy; from simulator import lab\n"
    script += "def hung_up(*_):\n ours, theirs = socket.socketpair(); theirs.close(); ours.send(b'x')\n"
    script += "lab.simulator_of = hung_up; sys.argv = ['sim', 'status']; "
    script += "runpy.run_module('simulator.cli', run_name='__main__')"
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert ended.stderr.startswith("error: ")
    assert "Broken pipe" in ended.stderr


def test_a_caller_keeps_its_own_way_with_readers_that_go_away(capsys: pytest.CaptureFixture[str]):
    """Otherwise a closed connection anywhere in this process would end it."""
    before = signal.getsignal(signal.SIGPIPE)

    assert cli.main(["status", "--stack", "nowhere"]) == 1

    assert signal.getsignal(signal.SIGPIPE) == before
    assert capsys.readouterr().err


def test_a_table_shows_the_last_words_of_what_died_below_its_line():
    text = tables.of_states(
        [
            Status("gpu01", "127.0.12.1:2222", "died", "  qemu.log: out of memory\n  console.log: panic"),
            Status("gpu02", "127.0.12.2:2222", "running", "", 4711),
        ]
    )

    assert text.splitlines() == [
        "NAME   ADDRESS          PID   STATE",
        "gpu01  127.0.12.1:2222  -     died",
        "  qemu.log: out of memory",
        "  console.log: panic",
        "gpu02  127.0.12.2:2222  4711  running",
    ]


def test_a_ports_line_shows_what_it_dropped_and_why():
    config = PortConfig(4094, frozenset({111}), mtu_bytes=1500, plugged=False, loss_percent=2.5)
    state = PortState("gpu01", "enp5s0", config, True, {"in_frames": 5, "dropped_mtu": 3}, ())

    line = tables.of_ports([state]).splitlines()[1]

    assert line.split() == ["gpu01", "enp5s0", "PULLED", "4094", "111", "1500", "2.5", "0", "5", "0", "mtu", "3"]


def test_logs_are_found_by_node_and_by_process(tmp_path: Path):
    for path, text in (
        ("nodes/gpu01/console.log", "a\nb\nc"),
        ("nodes/gpu01/qemu.log", "q"),
        ("switch/switch.log", "s"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    assert logs.names(tmp_path).split() == ["gpu01", "switch"]
    assert logs.read(tmp_path, "gpu01", 2).splitlines()[1:3] == ["b", "c"]
    with pytest.raises(SimulatorError, check=stating("etcd")) as refused:
        logs.read(tmp_path, "etcd", 2)
    assert str(refused.value).split()[-2:] == ["gpu01", "switch"]


class Recorded:
    """A part that writes down what it is made to do."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self.name, self._calls = name, calls

    def down(self, _: object) -> None:
        self._calls.append(f"{self.name} down")

    def reset(self, _: object) -> None:
        self._calls.append(f"{self.name} reset")


def test_a_reset_ends_the_cluster_before_kubelets_start_with_their_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    nodes, plane = (Recorded(name, calls) for name in ("nodes", "plane"))
    monkeypatch.setattr(cli, "STATE", tmp_path)

    cli.reset(SimpleNamespace(chosen=lambda _: [nodes, plane], plane=plane), SimpleNamespace(parts=[]))  # type: ignore[arg-type]

    assert calls == ["plane down", "nodes reset", "plane reset"]

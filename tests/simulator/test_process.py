"""Processes that are suspended, and waits that say what they wait for."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator import part
from simulator.part import SimulatorError, Wait, announced
from simulator.process import Daemon
from tests.messages import lines_naming, stating


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Daemon]:
    """A process that ends by itself after a minute."""
    daemon = Daemon("sleeper", tmp_path)
    daemon.start([sys.executable, "-c", "import time; time.sleep(60)"])
    yield daemon
    daemon.stop()


def suspend(daemon: Daemon) -> None:
    pid = daemon.pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 10
    while not daemon.is_suspended:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_suspended_process_is_seen_and_continues(sleeper: Daemon) -> None:
    assert not sleeper.resume(), "it runs"

    suspend(sleeper)

    assert sleeper.pid() is not None
    assert sleeper.resume()
    deadline = time.monotonic() + 10
    while sleeper.is_suspended:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_process_that_never_ran_is_not_suspended(tmp_path: Path) -> None:
    daemon = Daemon("nobody", tmp_path)

    assert not daemon.is_suspended
    assert not daemon.resume()


def test_a_suspended_process_ends_when_it_is_asked_to(sleeper: Daemon) -> None:
    suspend(sleeper)

    begun_s = time.monotonic()
    sleeper.stop()

    assert sleeper.pid() is None
    assert time.monotonic() - begun_s < 5, "it was killed after all patience instead"


def test_a_wait_says_what_it_waits_for_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "REPORT_EVERY_S", 0.02)
    said: list[str] = []
    wait = Wait("two nodes", 0.2, said.append, pause_s=0.01)

    while wait.continues(" (last answer: none)"):
        assert len(said) < 50

    assert len(said) >= 2
    assert all(lines_naming(line, "waiting", "two nodes", "(last answer: none)") for line in said)


def test_a_process_that_does_not_answer_is_named_while_it_is_waited_for(
    sleeper: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "REPORT_EVERY_S", 0.05)
    said: list[str] = []

    with pytest.raises(SimulatorError, check=stating("sleeper:", "greeting", "0 s")):
        sleeper.wait_until(lambda: False, 0.3, "greeting", said.append)

    assert said
    assert "sleeper: greeting" in said[0]


def test_one_long_call_is_announced_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "REPORT_EVERY_S", 0.02)
    said: list[str] = []

    with announced("making the image", said.append):
        deadline = time.monotonic() + 10
        while len(said) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    before = len(said)
    time.sleep(0.1)

    assert len(said) == before
    assert said[0].startswith("making the image: ")


def test_a_short_call_is_not_announced() -> None:
    said: list[str] = []

    with announced("making the image", said.append):
        pass

    assert said == []


def test_a_process_that_ended_by_itself_has_died_and_one_that_was_stopped_has_not(tmp_path: Path) -> None:
    daemon = Daemon("short", tmp_path)
    assert not daemon.has_died

    daemon.start([sys.executable, "-c", ""])
    deadline = time.monotonic() + 10
    while daemon.pid() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)

    assert daemon.has_died
    daemon.stop()
    assert not daemon.has_died

"""Makes lanes fast, reports what a test run leaves out, and starts no further test after a deadline.

`make test-unit`, `make test` and `make test-all` choose tests by the markers `sim` and `whole` (pyproject.toml).
"""

import atexit
import gc
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

UNTIL = "ROCELAB_TESTS_UNTIL"
"""Deadline in seconds since the epoch; after it, no further simulator test starts."""

MEMORY, MEMORY_BYTES = Path("/dev/shm"), 2**29  # pytest makes a folder there that only its user can read
"""Where unit tests write their 100,000 files. On a disk, they would take a fifth of the lane's CPU time."""

GARBAGE = 100_000
"""So many new objects may be garbage before the collector looks at them: some ten MB."""

_LANE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_LATE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_REASON = "no time left for it"
SIMULATOR = "simulator"
USES_SIMULATOR = re.compile(r"[(,] *(simulator|lab_stack): |conftest import (\w+, )*sim\b")
"""Matches a file that uses the one simulator or the `sim` command."""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LANE], config.stash[_LATE] = Counter(), Counter()
    atexit.register(gc.freeze)  # else each process takes a second more to look for garbage among what ends with it
    if "not sim" in config.option.markexpr and _holds_temporary_files(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _holds_temporary_files(folder: Path) -> bool:
    """Whether a test can write and run files there. Containers often mount a small `/dev/shm` without execution."""
    if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        return False
    return not os.statvfs(folder).f_flag & os.ST_NOEXEC and shutil.disk_usage(folder).free >= MEMORY_BYTES


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage: what 400 test files and their imports make stays until the end of the run.

    Afterwards seldom: Python's own threshold of 700 objects takes a tenth of the lane's CPU time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()


class Sequences(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types for it
    """The tests of a file run in sequence, and so do all tests that use the one simulator."""

    def _split_scope(self, nodeid: str) -> str:
        return _sequence(nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Sequences | None:
    """For `--dist loadscope`. xdist's own groups (loadgroup) rely on test names that pytest 9.2 no longer has."""
    return Sequences(config, log) if config.getoption("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts the longest sequence first, so that short ones fill the other worker."""
    items.sort(key=lambda item: _sequence(_file(item)) != SIMULATOR)


@cache
def _sequence(file: str) -> str:
    if file.startswith(("tests/components/", "tests/simulator/")):
        return "planes"
    path = Path(__file__).parent.parent / file
    return SIMULATOR if path.is_file() and USES_SIMULATOR.search(path.read_text()) else file


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Does not count unit tests: `make` has run them before every other lane."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("sim", "whole")):
            item.config.stash[_LANE][_file(item)] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips before any fixture starts. A file that has begun still tears its fixtures down in order."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until) and item.get_closest_marker("sim"):
        item.config.stash[_LATE][_file(item)] += 1
        pytest.skip(_REASON)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hands the counts of a pytest-xdist worker to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["lane"] = dict(session.config.stash[_LANE])
        session.config.workeroutput["late"] = dict(session.config.stash[_LATE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[_LANE] |= Counter(output.get("lane", {}))  # each worker deselects the same tests
    node.config.stash[_LATE] += Counter(output.get("late", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Lists what did not run, because a green lane proves only that lane."""
    for why, files in (("not in this lane", config.stash[_LANE]), (_REASON, config.stash[_LATE])):
        if files:
            terminalreporter.section(f"left out: {files.total()} tests, {why}")
            terminalreporter.write_line(", ".join(f"{name} ({count})" for name, count in sorted(files.items())))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]

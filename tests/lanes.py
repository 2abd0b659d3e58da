"""Makes lanes fast, reports what a test run leaves out, and starts no further test after a deadline.

The lanes of the Makefile choose tests by the markers `sim`, `whole` and `kills` (pyproject.toml).
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

PART = "ROCELAB_TESTS_PART"
"""`2/4`: of the files with tests that only `make test-all` runs, every fourth from the third on."""

MEMORY, MEMORY_BYTES = Path("/dev/shm"), 2**29  # pytest makes a folder there that only its user can read
"""Where unit tests write their 100,000 files. On a disk, they would take a fifth of the lane's CPU time."""

GARBAGE = 100_000
"""So many new objects may be garbage before the collector looks at them: some ten MB."""

_LANE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_OTHERS: pytest.StashKey[Counter[str]] = pytest.StashKey()
_LATE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_NOT_IN_LANE, _ANOTHER_PART, _REASON = "not in this lane", "not in this part", "no time left for it"
SIMULATOR = "simulator"
USES_SIMULATOR = re.compile(r"[(,] *(simulator|lab_stack): |conftest import (\w+, )*sim\b")
"""Matches a file that uses the one simulator or the `sim` command."""


def pytest_configure(config: pytest.Config) -> None:
    for counts in (_LANE, _OTHERS, _LATE):
        config.stash[counts] = Counter()
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


@pytest.hookimpl(trylast=True)  # after the lane's marker expression
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Starts the longest sequence first, so that short ones fill the other worker."""
    items.sort(key=lambda item: _sequence(_file(item)) != SIMULATOR)
    if part := os.environ.get(PART):
        number, _, parts = part.partition("/")
        files = sorted({_file(item) for item in items if item.get_closest_marker("whole")})
        chosen = files[int(number) :: int(parts)]
        for item in items:
            if _file(item) in files and _file(item) not in chosen:
                config.stash[_OTHERS][_file(item)] += 1
        items[:] = [item for item in items if _file(item) not in files or _file(item) in chosen]


@cache
def _sequence(file: str) -> str:
    if file.startswith(("tests/components/", "tests/simulator/")):
        return "planes"
    path = Path(__file__).parent.parent / file
    return SIMULATOR if path.is_file() and USES_SIMULATOR.search(path.read_text()) else file


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Does not count unit tests: `make` has run them before every other lane."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("sim", "whole", "kills")):
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
        session.config.workeroutput["others"] = dict(session.config.stash[_OTHERS])
        session.config.workeroutput["late"] = dict(session.config.stash[_LATE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    # each worker deselects the same tests
    node.config.stash[_LANE] |= Counter(output.get("lane", {}))
    node.config.stash[_OTHERS] |= Counter(output.get("others", {}))
    node.config.stash[_LATE] += Counter(output.get("late", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Lists what did not run, because a green lane proves only that lane."""
    for why, counts in ((_NOT_IN_LANE, _LANE), (_ANOTHER_PART, _OTHERS), (_REASON, _LATE)):
        if files := config.stash[counts]:
            terminalreporter.section(f"left out: {files.total()} tests, {why}")
            terminalreporter.write_line(", ".join(f"{name} ({count})" for name, count in sorted(files.items())))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]

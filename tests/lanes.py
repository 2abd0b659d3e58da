"""What a run of the tests leaves out, said at its end, and the hour at which it stops starting more.

`make test-unit`, `make test` and `make test-all` choose tests by the markers `sim` and `whole` (pyproject.toml).
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

UNTIL = "ROCELAB_TESTS_UNTIL"
"""Seconds since the epoch after which no further test on the simulator starts: for a machine with a time limit."""

_LANE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_LATE: pytest.StashKey[Counter[str]] = pytest.StashKey()
_REASON = "no time left for it"


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LANE], config.stash[_LATE] = Counter(), Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups for `--dist loadgroup`: a file is a sequence, and whatever shares processes or addresses is one too."""
    sim = [item for item in items if item.get_closest_marker("sim")]
    for item in sim:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    # the longest sequence first, so that the short ones fill the other worker
    sim.sort(key=lambda item: _group(item) != SIMULATOR)
    items[:] = [item for item in items if not item.get_closest_marker("sim")] + sim


SIMULATOR = "simulator"


def _group(item: pytest.Item) -> str:
    if SIMULATOR in getattr(item, "fixturenames", ()):
        return SIMULATOR
    file = _file(item)
    return "planes" if file.startswith(("tests/components/", "tests/simulator/")) else file


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Fast tests are part of every lane, so they are never left out: make has run them before."""
    for item in items:
        if any(item.get_closest_marker(name) for name in ("sim", "whole")):
            item.config.stash[_LANE][_file(item)] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips before any fixture starts; the fixtures of a file that has begun still end in their order."""
    until = os.environ.get(UNTIL)
    if until and time.time() > float(until) and item.get_closest_marker("sim"):
        item.config.stash[_LATE][_file(item)] += 1
        pytest.skip(_REASON)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands its counts to the process that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["lane"] = dict(session.config.stash[_LANE])
        session.config.workeroutput["late"] = dict(session.config.stash[_LATE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    output = getattr(node, "workeroutput", {})
    node.config.stash[_LANE] |= Counter(output.get("lane", {}))  # each worker deselects the same tests
    node.config.stash[_LATE] += Counter(output.get("late", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Says loudly what did not run: a green lane is a statement about that lane alone."""
    for why, files in (("not in this lane", config.stash[_LANE]), (_REASON, config.stash[_LATE])):
        if files:
            terminalreporter.section(f"left out: {files.total()} tests, {why}")
            terminalreporter.write_line(", ".join(f"{name} ({count})" for name, count in sorted(files.items())))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]

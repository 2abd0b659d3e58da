"""What many tests need: the reference lab and the recording engine."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.engine import Engine
from tests.process import Process

pytest_plugins = ("tests.lanes",)

ROOT = Path(__file__).parent.parent
PLUGINS = {"providers": [{"name": "rocelab", "path": str(ROOT / "components" / "provider")}]}
"""For the Pulumi.yaml of a project outside the checkout."""

for name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):
    os.environ.pop(name, None)  # the caller's shell must not influence results
sys.dont_write_bytecode = False  # else every worker rewrites and compiles all test files in every run
os.umask(0o022)  # files of a fake host get the permissions that a real host gives them

# The same examples in every run, and no more than a fast lane can afford. Without a deadline: the machine may be busy.
settings.register_profile("same", derandomize=True, database=None, deadline=None, max_examples=50)
settings.load_profile("same")
# Hypothesis also tries numbers of the modules that are imported by then, which differ with the order of the tests.
providers.is_local_module_file = lambda _path: False


@pytest.fixture(autouse=True)
def _the_process_stays_as_it_was() -> Iterator[None]:
    """Tests must not depend on the order in which they run."""
    before = Process()
    yield
    changed = before.restore()
    assert not changed, f"the test changed the whole process and did not restore it: {', '.join(changed)}"


@pytest.fixture(autouse=True)
def _disks_are_not_waited_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """No unit test cuts the power, and 8,000 writes to files of fake hosts would wait for the disk."""
    if request.node.get_closest_marker("sim"):
        yield
        return
    waits, os.fsync = os.fsync, _returns_at_once
    yield
    os.fsync = waits


def _returns_at_once(_file: int) -> None:
    """In place of `os.fsync`, without `mock.patch`: that takes a second for thousands of tests."""


@pytest.fixture(scope="session")
def lab() -> Lab:
    """The reference lab: the DeepOps RoCE guide's topology on the simulator, without switch and quality of service.

    Those affect every port and every host, so only the tests about them add them.
    """
    return read_stack_file(ROOT / "Pulumi.lab.yaml").model_copy(update={"switches": (), "qos": None})


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="session")
def prometheus() -> Path:
    """The folder of `promtool`, `prometheus` and `prometheus-node-exporter` of Debian, unpacked into the cache."""
    from simulator.nodes.debian import fetched  # noqa: PLC0415  # only few tests need it

    return fetched(("prometheus", "prometheus-node-exporter"), print) / "usr/bin"

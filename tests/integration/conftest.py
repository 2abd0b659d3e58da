"""A running simulator and a stack on it; skipped loudly where either cannot be had, except where CI must have them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.integration.stack import Stack, environment, on_node, wait_for
from tests.integration.watched import Scrapes

ENGINE = ROOT / ".engine" / "bin"


def missing() -> str | None:
    """Why the real engine cannot run here."""
    for name in ("pulumi", "sim"):
        if not (ENGINE / name).exists():
            return f".engine/bin/{name} is missing: run make setup"
    return None


def require_engine() -> None:
    """Where the engine cannot run nothing is tested: CI, which must have it, fails, and people are told."""
    if reason := missing():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(f"SIM LANE NOT RUN: {reason}")


@pytest.fixture
def scrapes() -> Iterator[Scrapes]:
    """What a Prometheus reads of both nodes of the reference lab, over one connection to each."""
    with tempfile.TemporaryDirectory() as sockets:
        yield Scrapes(("gpu01", "gpu02"), sockets)


@pytest.fixture(scope="session")
def simulator() -> Iterator[Path]:
    """The simulator, up and clean; afterwards as it was found, running or not."""
    require_engine()
    env = environment("lab")
    was_running = sim(env, "status").returncode == 0
    start_clean("lab")
    yield ROOT / ".sim"
    if not was_running:
        sim(env, "down")


def sim(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """One `sim` command of this checkout."""
    return subprocess.run(
        ["sim", *arguments],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
        check=False,
    )


def start_clean(lab: str) -> None:
    """The simulator of a lab, up and as after its first start."""
    for verb in ("up", "reset"):
        done = sim(environment(lab), verb, "--stack", lab)
        assert done.returncode == 0, done.stdout


@contextmanager
def unplugged(node: str, interface: str) -> Iterator[None]:
    """A cable that is out: the node sees no carrier within the block, and one after it."""
    env = environment("lab")
    assert sim(env, "switch", "pull", node, interface).returncode == 0
    carrier = f"/sys/class/net/{interface}/carrier"
    try:
        wait_for(node, f"cat {carrier}", "0")
        yield
    finally:
        assert sim(env, "switch", "plug", node, interface).returncode == 0
        wait_for(node, f"cat {carrier}", "1")
        # igb negotiates pause frames with each new link, and the gate would be right to say so
        on_node(node, f"sudo ethtool -A {interface} autoneg off rx off tx off")


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Stack:
    """A fresh stack of the reference lab; the checkout's own state stays as it is."""
    return Stack.make(simulator / "tests")

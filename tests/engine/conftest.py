"""Fixtures of the engine's tests: hosts on loopback, and the command plugin in each build that is here."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from plugin_client import Plugin
from ssh_host import SshHost
from tiny_part import SOURCE

from engine import gobuild, installed, release, store
from engine.errors import EngineError
from engine.parts import PARTS
from engine.places import ROOT

COMMAND = next(part for part in PARTS if part.name == "command")


def program(build: str) -> Path:
    """The plugin of a build, or a skip that says what is missing."""
    name = COMMAND.binaries[0]
    if build == "ours":
        path = store.built_folder(COMMAND) / name
        if not path.exists():
            pytest.skip("our command plugin is not built as its sources are now: run make setup")
        return path
    official = store.official_folder(COMMAND) / name
    if official.exists():
        return official
    try:
        return installed.find(COMMAND) / name
    except EngineError as error:
        pytest.skip(f"no official command plugin {COMMAND.version} here ({error})")


def started(build: str, folder: Path) -> Plugin:
    # Without the developer's agent, whose keys would be offered in front of those of a test.
    env = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
    return Plugin(program(build), folder, env)


@pytest.fixture(params=["ours", "official"])
def plugin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plugin]:
    """For what both builds must do."""
    running = started(request.param, tmp_path)
    yield running
    running.close()


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Plugin]:
    """For what the official build of this version is known to do worse."""
    running = started("ours", tmp_path)
    yield running
    running.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[SshHost]:
    folder = tmp_path / "host"
    folder.mkdir()
    running = SshHost(folder).start()
    yield running
    running.stop()


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A cache, a module and logs of the test's own."""
    sources = tmp_path / "sources"
    (sources / "tiny").mkdir(parents=True)
    (sources / "tiny" / "go.mod").write_text("module tiny\n\ngo 1.21\n")
    (sources / "tiny" / "main.go").write_text(SOURCE)
    (sources / "go/plane").mkdir(parents=True)
    shutil.copy(ROOT / "engine/go/go.mod", sources / "go")
    shutil.copy(ROOT / "engine/go/plane/plane.sh", sources / "go/plane")
    # Go keeps its own cache under the same variable; an empty one would compile the standard library per test.
    if shutil.which("go"):
        gocache = subprocess.run(["go", "env", "GOCACHE"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        monkeypatch.setenv("GOCACHE", gocache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for module in (gobuild, release, store):
        monkeypatch.setattr(module, "SOURCES", sources)
    monkeypatch.setattr(gobuild, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(installed, "MEMORY", tmp_path / "versions.json")
    return SimpleNamespace(tiny=sources / "tiny", cache=tmp_path / "cache/rocelab/engine", logs=tmp_path / "logs")

"""`make setup` in a clean copy of the sources, as after a clone: with what the cache of this machine already has."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.environment import environment
from engine.parts import PULUMI
from engine.places import LOGS
from tests.conftest import ROOT

pytestmark = [pytest.mark.sim, pytest.mark.whole]

SETUP_S = 1200
NO_NETWORK = "NewConnectionError"
"""What pip logs when it reaches no package index."""


def must(folder: Path, *words: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SETUP_S,
        check=False,
    )
    log = folder / LOGS.relative_to(ROOT) / "python.log"
    if done.returncode and log.exists() and NO_NETWORK in log.read_text():
        pytest.skip("MAKE SETUP NOT RUN: pip reaches no package index here")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.row("A 111-121")
def test_a_clean_copy_gets_its_python_its_engine_and_its_plugins(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    ours = environment("lab")
    env = {name: value for name, value in os.environ.items() if name not in ours or name == "PATH"}

    must(copy, "make", "setup", env=env)
    made = (copy / ".venv/.rocelab.json").stat().st_mtime_ns
    must(copy, "make", "setup", env=env)

    assert (copy / ".venv/.rocelab.json").stat().st_mtime_ns == made, "a second setup installs nothing"
    env["PULUMI_HOME"] = str(copy / ".engine/home")
    pulumi = str(copy / ".engine/bin/pulumi")
    assert must(copy, pulumi, "version", env=env).strip() == f"v{PULUMI}"
    listed = json.loads(must(copy, pulumi, "plugin", "ls", "--json", env=env))
    plugins = {plugin["name"]: plugin["version"] for plugin in listed}
    locked = (copy / "requirements.txt").read_text()
    assert "kubernetes" in plugins
    assert [name for name, version in plugins.items() if f"pulumi-{name}=={version}" not in locked] == []
    look = must(copy, str(copy / ".venv/bin/python"), "-m", "components.cli", "look", "--help", env=env)
    assert "--config-file" in look
    shutil.rmtree(copy)  # pytest would keep half a gigabyte

"""The first route: your own installation of exactly the required version."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from engine.errors import EngineError
from engine.parts import Part
from engine.places import ENGINE, ROOT, VENV, cache

MEMORY = ENGINE / "versions.json"
"""Version per program, keyed by path, size and time of change. Running a program for its version takes a second."""

ASKING_TIMEOUT_S = 20.0
NOTHING = "none installed"


def find(part: Part) -> Path:
    """The folder that holds the part's binaries.

    Raises:
        EngineError: naming what is installed instead.
    """
    if part.name == "pulumi":
        return _find_cli(part)
    if part.is_of_the_simulator:
        raise EngineError("not used: the simulator has its own")
    return _find_plugin(part)


def _find_cli(part: Part) -> Path:
    seen: list[str] = []
    for program in _on_path(part.binaries[0]):
        version = _version(program, [str(program), "version"]).removeprefix("v")
        if version != part.version:
            seen.append(f"{program} is {version or 'broken'}")
            continue
        folder = program.resolve().parent
        missing = [name for name in part.binaries if not (folder / name).exists()]
        if not missing:
            return folder
        seen.append(f"{program} has no {', '.join(missing)} beside it")
    raise EngineError("; ".join(seen) or NOTHING)


def _find_plugin(part: Part) -> Path:
    name = part.binaries[0]
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
    installed = home / "plugins" / f"resource-{part.name}-v{part.version}"
    # in a shell with `make env`, PULUMI_HOME is ours and links to what is being installed
    if os.access(installed / name, os.X_OK) and not _ours(installed / name):
        return installed
    seen: list[str] = []
    for program in _on_path(name):
        python = VENV / "bin" / "python"
        version = _version(program, [str(python), str(ROOT / "engine" / "plugin_version.py"), str(program)])
        if version.removeprefix("v") == part.version:
            return program.resolve().parent
        seen.append(f"{program} is {version or 'broken'}")
    raise EngineError("; ".join(seen) or NOTHING)


def _on_path(name: str) -> Iterator[Path]:
    """Programs of this name that belong to no checkout of rocelab and not to its cache."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = Path(folder) / name
        if not folder or not os.access(program, os.X_OK):
            continue
        if not _ours(program):
            yield program


def _ours(program: Path) -> bool:
    real = program.resolve()
    return ENGINE.name in real.parts or any(real.is_relative_to(own) for own in (cache(), ROOT))


def _version(program: Path, command: list[str]) -> str:
    """The version that the program reports, remembered until it changes; empty if it does not run."""
    facts = program.stat()
    key = f"{program} {facts.st_size} {facts.st_mtime_ns}"
    try:
        memory = json.loads(MEMORY.read_text())
    except (OSError, ValueError):
        memory = {}
    if key not in memory:
        env = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=ASKING_TIMEOUT_S, env=env
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        memory[key] = done.stdout.strip() if done.returncode == 0 else ""
        MEMORY.parent.mkdir(parents=True, exist_ok=True)
        MEMORY.write_text(json.dumps(memory, indent=1) + "\n")
    return str(memory[key])

"""The Python environment `.venv`, made from the lock files only."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine.errors import EngineError
from engine.places import LOGS, ROOT, VENV
from engine.programs import Programs
from engine.progress import Progress

STAMP = VENV / ".rocelab.json"
LOCKS = {"runtime": ROOT / "requirements.txt", "dev": ROOT / "requirements-dev.txt"}


def lock_hashes(dev: bool, installed: dict[str, str]) -> dict[str, str]:
    """Hash per lock file. Packages for development, once installed, are kept up to date."""
    names = ["runtime", "dev"] if dev or "dev" in installed else ["runtime"]
    return {name: hashlib.sha256(LOCKS[name].read_bytes()).hexdigest() for name in names}


def is_current() -> bool:
    """Whether the packages are installed that the lock files list."""
    installed = installed_locks()
    return installed == lock_hashes(dev=False, installed=installed)


def ensure(dev: bool, programs: Programs, progress: Progress) -> None:
    """Installs what the lock files list, unless it is installed already.

    Raises:
        EngineError: if the environment cannot be made.
    """
    installed = installed_locks()
    locks = lock_hashes(dev, installed)
    if installed == locks:
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / "python.log"
    log.write_text("")
    if not _runs(VENV / "bin" / "python", "-m", "pip", "--version"):
        progress.doing("python", "making .venv")
        _make(programs, log)
    progress.doing("python", "installing packages")
    files = [word for name in locks for word in ("-r", str(LOCKS[name]))]
    flags = ["--require-hashes", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]
    programs.run(
        [VENV / "bin" / "python", "-m", "pip", "install", *flags, *files],
        cwd=ROOT,
        env=dict(os.environ),
        log=log,
        # of "Collecting <package> (from -r <file>)" only the package is of interest
        on_line=lambda line: (
            progress.doing("python", " ".join(line.split()[:2])) if line[:10] == "Collecting" else None
        ),
    )
    STAMP.write_text(json.dumps(locks, indent=1) + "\n")
    progress.done("python", "packages installed as locked")


def installed_locks() -> dict[str, str]:
    """Hash per installed lock file; empty if unknown, or if the environment has no Python."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and (VENV / "bin" / "python").exists() else {}


def _runs(python: Path, *arguments: str) -> bool:
    """Whether a Python starts and succeeds: its base may have been removed."""
    if not python.exists():
        return False
    return subprocess.run([python, *arguments], capture_output=True, check=False).returncode == 0


def _make(programs: Programs, log: Path) -> None:
    """Makes the environment, or adds pip to one that lacks it."""
    if not _runs(VENV / "bin" / "python", "-c", ""):
        shutil.rmtree(VENV, ignore_errors=True)
    # In another environment, its Python would become the base and vanish with it.
    base = getattr(sys, "_base_executable", None) or sys.executable
    try:
        programs.run([base, "-m", "venv", VENV], cwd=ROOT, env=dict(os.environ), log=log)
    except EngineError as error:
        raise EngineError(f"{error}\nOn Debian and Ubuntu, install the package python3-venv") from None

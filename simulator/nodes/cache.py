"""A cache of files that are made once per recipe and shared by all checkouts."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from simulator.part import Report, SimulatorError, announced

LAST_LINES = 10


def cache_folder() -> Path:
    """The cache, outside the checkout, so that a second clone starts warm."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocelab" / "nodes"


def digest(*texts: str) -> str:
    """A short hash of a list of texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def run(*command: str, env: Mapping[str, str] | None = None, pass_fds: tuple[int, ...] = ()) -> str:
    """Runs a program and returns its output.

    Raises:
        SimulatorError: if it fails, with the last lines of its output.
    """
    done = subprocess.run(
        command,
        env=env,
        pass_fds=pass_fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        end = "\n".join(f"  {line}" for line in done.stdout.splitlines()[-LAST_LINES:])
        raise SimulatorError(f"{Path(command[0]).name} failed with status {done.returncode}:\n{end}")
    return done.stdout


def made_once(kind: str, recipe: str, make: Callable[[Path], None], report: Report) -> Path:
    """The folder that `make` fills for this recipe. It gets its name only when complete.

    One lock per folder, because making one may need another. A second checkout waits for the first one's build.
    """
    folder = cache_folder() / f"{kind}-{digest(recipe)}"
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting = f"{folder.name}: waiting for another command that makes it"
            report(waiting)
            with announced(waiting, report):
                fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            begin = time.monotonic()
            partial = folder.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            report(f"{folder.name}: making it")
            with announced(f"{folder.name}: making it", report):
                make(partial)
            partial.rename(folder)
            report(f"{folder.name}: made in {time.monotonic() - begin:.0f} s")
    return folder


def need_space(folder: Path, needed_bytes: int, what: str) -> None:
    """Refuses to start without enough disk space.

    Raises:
        SimulatorError: naming the folder, its free space and the required space.
    """
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free_bytes = shutil.disk_usage(there).free
    if free_bytes < needed_bytes:
        raise SimulatorError(
            f"no disk space for {what}: {folder} has {free_bytes >> 20} MiB free, needs {needed_bytes >> 20} MiB.\n"
            "  Free some space there, or set another folder: XDG_CACHE_HOME for the cache, TMPDIR for building."
        )


def need_programs(packages: Mapping[str, str], purpose: str) -> None:
    """Refuses to start without the programs that `purpose` needs; `packages` maps each to its Debian package.

    Raises:
        SimulatorError: naming the missing programs and their packages.
    """
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if missing := [name for name in packages if shutil.which(name, path=path) is None]:
        named = ", ".join(f"{name} (package {packages[name]})" for name in missing)
        raise SimulatorError(
            f"{purpose} needs programs that are not on PATH: {named}.\n"
            f"  On Debian or Ubuntu: sudo apt-get install {' '.join(sorted({packages[name] for name in missing}))}"
        )

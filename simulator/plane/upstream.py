"""Files of pinned upstream releases, from Go modules with checksums in the engine's go.sum."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from simulator.part import SimulatorError

ENGINE = Path(__file__).parents[2] / "engine"


def cache_root() -> Path:
    """The cache, which all checkouts share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocelab"


def pinned(build: Path, module: str) -> tuple[str, str]:
    """Version and checksum of a module as the Go module in folder `build` pins them.

    Raises:
        SimulatorError: if go.mod or go.sum has no line for it.
    """
    try:
        requirements, sums = (build / "go.mod").read_text(), (build / "go.sum").read_text()
    except OSError as error:
        raise SimulatorError(f"{error.filename}: {error.strerror}; the checkout is incomplete") from None
    version = re.search(rf"^(?:require\s+|\s+){re.escape(module)}\s+(v\S+)", requirements, re.MULTILINE)
    found = version and re.search(rf"^{re.escape(module)} {re.escape(version[1])} (h1:\S+)$", sums, re.MULTILINE)
    if not version or not found:
        raise SimulatorError(f"{build.name}/go.mod and go.sum do not pin {module}; restore them from the repository")
    return version[1], found[1]


def files_of(module: str, build: Path, files: Sequence[str]) -> dict[str, Path]:
    """Paths of files of a module, copied once to the cache, so that later starts need no Go.

    Raises:
        SimulatorError: if the module is not available or lacks a file.
    """
    version, checksum = pinned(build, module)
    pinned_files = "\n".join([checksum, *files])
    name = f"{module.rpartition('/')[2]}-{version}-{hashlib.sha256(pinned_files.encode()).hexdigest()[:12]}"
    folder = cache_root() / "store" / name
    if not folder.exists():
        source = _download(module, version, build)
        partial = folder.with_name(f"{name}.partial-{os.getpid()}")
        try:
            for file in files:
                (partial / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / file, partial / file)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise SimulatorError(
                f"{error.filename or folder}: {error.strerror}; it is one of the files of {module} {version}"
            ) from None
        try:
            partial.rename(folder)
        except OSError:
            # another `sim up` has written the same content
            shutil.rmtree(partial)
    return {file: folder / file for file in files}


def _download(module: str, version: str, build: Path) -> Path:
    """The module's folder, after go has compared it with go.sum."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    try:
        done = subprocess.run(command, cwd=build, capture_output=True, text=True, timeout=300, check=False)
    except FileNotFoundError:
        raise SimulatorError(
            f"go is not on PATH, but has to fetch {module} {version} once. Install Go, then run sim up"
        ) from None
    except subprocess.TimeoutExpired:
        raise SimulatorError(f"{' '.join(command)}: no answer after 300 s; see go env GOPROXY") from None
    answer = json.loads(done.stdout) if done.stdout.strip() else {}
    if done.returncode != 0 or "Dir" not in answer:
        reason = answer.get("Error") or done.stderr.strip()[-500:]
        raise SimulatorError(f"{' '.join(command)} failed: {reason}\n  See go env GOPROXY GOFLAGS.")
    return Path(answer["Dir"])

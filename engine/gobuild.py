"""The third route: building a part from its pinned Go module."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from engine.errors import EngineError
from engine.parts import COMPILER_FLAGS, SDK_MODULE, Part
from engine.places import LOGS, ROOT, SOURCES
from engine.programs import Programs
from engine.store import sources
from stacks.words import plural

Report = Callable[[str], None]
"""Receives what is being done for a part."""


def environment(part: Part) -> dict[str, str]:
    """Environment of a build: your proxies and checksum database, but our settings for all that changes the bytes."""
    return {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-trimpath",
        "GOWORK": "off",
        "GOOS": "linux",
        "GOARCH": "amd64",
        "PART_VERSION": part.version,
        "PYTHONPATH": str(ROOT),  # a prepare script imports engine.upstream
    }


def what_go_lacks() -> str:
    """Why this machine cannot build; empty if it can."""
    if shutil.which("go") is None:
        version = "".join(line for line in (SOURCES / "go" / "go.mod").read_text().splitlines() if line[:3] == "go ")
        return f"no `go` on PATH; unpack {version} or newer anywhere, no root needed"
    # Run inside a module: an older go either fetches the toolchain that go.mod names, or says why it may not.
    done = subprocess.run(
        ["go", "env", "GOVERSION"],
        cwd=SOURCES / "go",
        env={**os.environ, "GOWORK": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def what_disk_lacks(parts: list[Part]) -> str:
    """Which of Go's folders is too small for these parts; empty if none is."""
    needed_mb = sum(part.build.disk_mb for part in parts)
    done = subprocess.run(["go", "env", "GOCACHE", "GOMODCACHE"], capture_output=True, text=True, check=True)
    for folder in map(Path, done.stdout.split()):
        existing = next(path for path in [folder, *folder.parents] if path.exists())
        free_mb = shutil.disk_usage(existing).free // 2**20
        if free_mb < needed_mb:
            names = ", ".join(part.name for part in parts)
            return f"{free_mb} MB free under {folder}, but building {names} needs up to {needed_mb} MB"
    return ""


def build(part: Part, target: Path, programs: Programs, report: Report) -> None:
    """Builds the part into the folder `target`.

    Raises:
        EngineError: with the last lines of go's output.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{part.name}.log"
    log.write_text("")
    scratch = target / "scratch"
    _copy_sources(part, scratch)
    env = environment(part)
    fetched = 0
    compiled = 0

    def on_line(line: str) -> None:
        nonlocal fetched, compiled
        if line.startswith("go: downloading"):
            fetched += 1
            report(f"fetching modules ({fetched})")
        elif line and not line.startswith("go: "):
            compiled += 1
            report(f"compiling ({plural(compiled, 'package')})")

    report("fetching modules")
    if part.build.prepare:
        programs.run([sys.executable, part.build.prepare], cwd=scratch, env=env, log=log, on_line=on_line)
    report("compiling")
    programs.run(_go_build(part, target), cwd=scratch, env=env, log=log, on_line=on_line)
    _copy_module_files(part, scratch, target)
    shutil.rmtree(scratch)


def _go_build(part: Part, target: Path) -> list[str | Path]:
    link = "-s -w"
    if part.build.version_variable:
        link += f" -X {part.build.version_variable}={part.build.version}"
    compiler = [f"-gcflags={flags}" for flags in COMPILER_FLAGS]
    flags = ["-v", "-buildvcs=false", *part.build.flags, *compiler, "-ldflags", link]
    packages = part.build.package.split()
    output = f"{target}/" if len(packages) > 1 else target / part.binaries[0]
    return ["go", "build", *flags, "-o", output, *packages]


def _copy_sources(part: Part, scratch: Path) -> None:
    """Copies the sources, because the prepare script writes files and go may write go.mod."""
    for path in sources(part):
        copy = scratch / path.relative_to(SOURCES / part.build.module)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def _copy_module_files(part: Part, scratch: Path, target: Path) -> None:
    if not part.build.module_files:
        return
    done = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", SDK_MODULE], cwd=scratch, env=environment(part), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise EngineError(f"go list {SDK_MODULE}: {done.stderr.strip()}")
    for name in part.build.module_files:
        copy = target / Path(name).name
        shutil.copyfile(Path(done.stdout.strip()) / name, copy)
        copy.chmod(0o755)

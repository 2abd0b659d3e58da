"""docker, podman or buildah: whichever is there builds and pushes, with a line of progress a step."""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stacks.base import LabError

TOOLS = ("docker", "podman", "buildah")
LAST_LINES = 12
_STEP = re.compile(r"^(?:STEP|Step|#\d+ \[[^\]]*?)\s*(\d+/\d+)\]?:? ?(.*)$")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Say = Callable[[str], None]


def find_tool(wanted: str | None = None) -> str:
    """The tool's name.

    Raises:
        LabError: when none is installed.
    """
    for name in (wanted,) if wanted else TOOLS:
        if name and shutil.which(name):
            return name
    missing = wanted or ", ".join(TOOLS)
    raise LabError(
        f"{missing}: not on PATH, so no image can be built here. Install one, or take the text of "
        "`rocelab image show` to a machine that has it"
    )


def build(tool: str, dockerfile: str, tag: str, say: Say) -> None:
    """Builds the image under its tag.

    Raises:
        LabError: with the last lines of the tool.
    """
    with tempfile.TemporaryDirectory(prefix="rocelab-image-") as folder:
        path = Path(folder) / "Dockerfile"
        path.write_text(dockerfile)
        # SHELL exists in docker's image format only, and the other two default to OCI's
        form = [] if tool == "docker" else ["--format", "docker"]
        _run([tool, "build", *form, "--tag", tag, "--file", str(path), folder], f"building {tag}", say)


def push(tool: str, tag: str, say: Say) -> str:
    """Pushes the image; returns the digest that the registry has it under.

    Raises:
        LabError: with the last lines of the tool, or when it tells no digest.
    """
    if tool == "docker":
        told = _run([tool, "push", tag], f"pushing {tag}", say)
    else:
        with tempfile.TemporaryDirectory(prefix="rocelab-image-") as folder:
            file = Path(folder) / "digest"
            _run([tool, "push", "--digestfile", str(file), tag], f"pushing {tag}", say)
            told = file.read_text() if file.is_file() else ""
    found = _DIGEST.findall(told)
    if not found:
        raise LabError(f"{tool} pushed {tag} and told no digest: look it up in the registry")
    return str(found[-1])


def built_from(tool: str, base: str) -> str | None:
    """The digest that the base's tag stood for in this build; None where the tool does not tell."""
    if "@sha256:" in base:
        return base.partition("@")[2]
    if tool == "buildah":
        return None
    done = subprocess.run(
        [tool, "image", "inspect", "--format", "{{json .RepoDigests}}", base],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        digests = json.loads(done.stdout or "[]")
    except ValueError:
        return None
    found = _DIGEST.search(" ".join(map(str, digests or [])))
    return found[0] if found else None


def _run(words: list[str], what: str, say: Say) -> str:
    """Runs the tool with a line for each of its steps; returns all that it said."""
    begun = time.monotonic()
    say(what)
    lines: list[str] = []
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if step := _STEP.match(lines[-1]):
                say(f"{time.monotonic() - begun:6.1f} s  {step[1]} {step[2][:90]}")
    if process.returncode:
        shown = "\n".join(f"  {line[:200]}" for line in lines[-LAST_LINES:])
        raise LabError(f"{what} failed: {' '.join(words[:2])} ended with {process.returncode}\n{shown}")
    say(f"{time.monotonic() - begun:6.1f} s  done")
    return "\n".join(lines)

"""A lab's benchmark images: build and push with docker, podman or buildah, and record the
result.
"""

import json
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from components.jobs.image.recipe import (
    benchmark_dockerfile,
    mpi_dockerfile,
    recipe_digest,
    training_dockerfile,
)
from stacks.base import LabError
from stacks.files import write_file
from stacks.frozen import frozen
from stacks.images import MPI_BASE, Images
from stacks.lab import Lab

TOOLS = ("docker", "podman", "buildah")
LAST_LINES = 12
_STEP = re.compile(r"^(?:STEP|Step|#\d+ \[[^\]]*?)\s*(\d+/\d+)\]?:? ?(.*)$")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Say = Callable[[str], None]


def find_tool(chosen: str | None = None) -> str:
    """The tool's name; docker only if its daemon answers, or if there is no other.

    Raises:
        LabError: when none is installed.
    """
    names = (chosen,) if chosen else TOOLS
    installed = [name for name in names if shutil.which(name)]
    if len(installed) > 1 and installed[0] == "docker" and not _docker_answers():
        return installed[1]
    if installed:
        return installed[0]
    missing = ", ".join(names)
    raise LabError(
        f"{missing}: not on PATH, so no image can be built here. Install one, or build the "
        "output of `rocelab image show` on a machine that has one"
    )


def _docker_answers() -> bool:
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


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
        _run(
            [tool, "build", *form, "--tag", tag, "--file", str(path), folder],
            f"building {tag}",
            say,
        )


def push(tool: str, tag: str, say: Say) -> str:
    """Pushes the image; returns the digest that the registry has it under.

    Raises:
        LabError: with the last lines of the tool, or when it reports no digest.
    """
    if tool == "docker":
        output = _run([tool, "push", tag], f"pushing {tag}", say)
    else:
        with tempfile.TemporaryDirectory(prefix="rocelab-image-") as folder:
            file = Path(folder) / "digest"
            _run([tool, "push", "--digestfile", str(file), tag], f"pushing {tag}", say)
            output = file.read_text() if file.is_file() else ""
    digests = _DIGEST.findall(output)
    if not digests:
        raise LabError(f"{tool} pushed {tag} but reported no digest; look it up in the registry")
    return str(digests[-1])


def built_from(tool: str, base: str) -> str | None:
    """The digest of the base's tag in this build; None when the tool does not report it."""
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
    digest = _DIGEST.search(" ".join(map(str, digests or [])))
    return digest[0] if digest else None


def _run(words: list[str], what: str, say: Say) -> str:
    """Runs the tool with a line per step; returns its output."""
    begun = time.monotonic()
    say(what)
    lines: list[str] = []
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if step := _STEP.match(lines[-1]):
                say(f"{time.monotonic() - begun:6.1f} s  {step[1]} {step[2][:90]}")
    if process.returncode:
        shown = "\n".join(f"  {line[:200]}" for line in lines[-LAST_LINES:])
        raise LabError(
            f"{what} failed: {' '.join(words[:2])} ended with {process.returncode}\n{shown}"
        )
    say(f"{time.monotonic() - begun:6.1f} s  done")
    return "\n".join(lines)


RESULTS = Path(".images")
"""Folder of the checkout for the results of pushes; git ignores it."""


@frozen
class Target:
    """An image to build: its Dockerfile, its name, and the field of the lab file that has
    the name.
    """

    dockerfile: str
    base: str
    tag: str
    field: str


def target_of(lab: Lab, which: str, to: str | None = None) -> Target:
    """What is built for a lab.

    Raises:
        LabError: when the lab has no name for the image.
    """
    images = lab.images or Images()
    if to and "@" in to:
        raise LabError(f"--to {to}: a push computes the digest; name a tag, or only the repository")
    name: str | None
    if which == "training":
        field, made = "images.training", images.training
        name, text, base = None, "", ""
        if made:
            name, text, base = made.image, training_dockerfile(made), made.base
    elif which == "mpi":
        mpi = lab.benchmarks.mpi if lab.benchmarks else None
        field, name = "benchmarks.mpi", mpi.image if mpi else None
        text, base = mpi_dockerfile(), MPI_BASE
    else:
        nccl = lab.benchmarks.nccl if lab.benchmarks else None
        field, name = "benchmarks.nccl", nccl.image if nccl else None
        text, base = benchmark_dockerfile(images.benchmark), images.benchmark.base
    if not text or not (to or name):
        raise LabError(
            f"{field}.image: missing; it is where the finished image is pushed"
            f"{', or use --to' if text else ''}"
        )
    tag = _tag(to or name or "", text)
    return Target(dockerfile=text, base=base, tag=tag, field=f"{field}.image")


def _tag(image: str, dockerfile: str) -> str:
    """A name to push, with the recipe's digest as tag: only the push yields the image's digest."""
    name = image.partition("@")[0]
    if ":" in name.rpartition("/")[2]:
        return name
    return f"{name}:recipe-{recipe_digest(dockerfile)}"


def pushed(tool: str, target: Target, file: Path, say: Say) -> dict[str, str | None]:
    """Pushes a built image, and writes the result into a file.

    Raises:
        LabError: when the push fails, or reports no digest.
    """
    digest = push(tool, target.tag, say)
    repository = target.tag.rpartition(":")[0]
    pinned = f"{repository}@{digest}"
    file.parent.mkdir(exist_ok=True)
    result = {
        "image": pinned,
        "tag": target.tag,
        "recipe": recipe_digest(target.dockerfile),
        "base": target.base,
        "base_digest": built_from(tool, target.base),
        "tool": tool,
    }
    write_file(file, json.dumps(result, indent=2) + "\n")
    say(
        f"written to {file}; in the stack: pulumi config set --path 'rocelab:lab.{target.field}' "
        f"{pinned}"
    )
    return result

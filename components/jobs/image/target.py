"""The benchmark images: `python -m components.jobs.image show|build|push [--which training]`."""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from components.jobs.image.recipe import benchmark_dockerfile, recipe_digest, training_dockerfile
from components.jobs.image.tool import TOOLS, Say, build, built_from, find_tool, push
from components.stack_cli import add_stack_options, lab_of
from stacks.base import LabError
from stacks.images import Images
from stacks.lab import Lab

RESULTS = Path(".images")
"""Folder of the checkout where the results of pushes lie; git does not look at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """An image to be: from what, under which name, and which field of the lab file names it."""

    dockerfile: str
    base: str
    tag: str
    field: str


def main(arguments: list[str] | None = None) -> int:
    """Shows, builds, or builds and pushes."""
    parser = argparse.ArgumentParser(prog="python -m components.jobs.image", description=__doc__)
    parser.add_argument(
        "command", choices=("show", "build", "push"), help="print the Dockerfile; build it; build and push it"
    )
    add_stack_options(parser)
    parser.add_argument(
        "--which", choices=("benchmark", "training"), default="benchmark", help="which image (default: %(default)s)"
    )
    parser.add_argument("--to", metavar="IMAGE", help="another name than the lab's")
    parser.add_argument("--tool", choices=TOOLS, help="default: the first of them on PATH")
    asked = parser.parse_args(arguments)
    try:
        lab = lab_of(asked)
        target = target_of(lab, asked.which, asked.to)
        if asked.command == "show":
            sys.stdout.write(target.dockerfile)
            return 0
        tool = find_tool(asked.tool)
        build(tool, target.dockerfile, target.tag, _say)
        if asked.command == "push":
            _push(tool, target, RESULTS / f"{lab.name}-{asked.which}.json", _say)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def target_of(lab: Lab, which: str, to: str | None = None) -> Target:
    """What is built for a lab.

    Raises:
        LabError: when the lab has no name for the image.
    """
    images = lab.images or Images()
    if to and "@" in to:
        raise LabError(f"--to {to}: a digest is what comes out of a push; name a tag, or nothing behind the name")
    if which == "training":
        if images.training is None:
            raise LabError("images.training: missing; give it an image, which is where the finished one is pushed")
        text, base, name = training_dockerfile(images.training), images.training.base, images.training.image
        return Target(dockerfile=text, base=base, tag=_tag(to or name, text), field="images.training.image")
    nccl = lab.benchmarks.nccl if lab.benchmarks else None
    if nccl is None and to is None:
        raise LabError("benchmarks.nccl.image: missing; it is where the finished image is pushed, or use --to")
    text = benchmark_dockerfile(images.benchmark)
    tag = _tag(to or (nccl.image if nccl else ""), text)
    return Target(dockerfile=text, base=images.benchmark.base, tag=tag, field="benchmarks.nccl.image")


def _tag(image: str, dockerfile: str) -> str:
    """A name that can be pushed: a digest is what comes out of it, so the recipe's own digest stands in its place."""
    name = image.partition("@")[0]
    return name if ":" in name.rpartition("/")[2] else f"{name}:recipe-{recipe_digest(dockerfile)}"


def _push(tool: str, target: Target, file: Path, say: Say) -> None:
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
    file.write_text(json.dumps(result, indent=2) + "\n")
    say(f"written to {file}; in the stack: pulumi config set --path 'rocelab:lab.{target.field}' {pinned}")
    sys.stdout.write(f"{pinned}\n")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())

"""A lab's benchmark images: what each is built from, and what its push writes down."""

import json
from dataclasses import dataclass
from pathlib import Path

from components.jobs.image.recipe import benchmark_dockerfile, recipe_digest, training_dockerfile
from components.jobs.image.tool import Say, built_from, push
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


def pushed(tool: str, target: Target, file: Path, say: Say) -> dict[str, str | None]:
    """Pushes an image that was built, and writes what came of it into a file.

    Raises:
        LabError: when the push fails, or tells no digest.
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
    file.write_text(json.dumps(result, indent=2) + "\n")
    say(f"written to {file}; in the stack: pulumi config set --path 'rocelab:lab.{target.field}' {pinned}")
    return result

"""Every image that a lab pulls, for who has to mirror them."""

from collections.abc import Iterator

from pydantic import JsonValue

from components.cluster.manifests import Manifest
from components.cluster.profiles import policies, programs
from stacks.bill import Registry
from stacks.lab import Lab


def images_of(lab: Lab) -> tuple[str, ...]:
    """Images by the names that their publishers gave them, each once, sorted.

    What is rendered is read, and not the bill: so nothing is mirrored that no node would pull. Operators that are
    installed already, and drivers that they build names for, bring more: their releases list them.
    """
    if lab.cluster is None:
        return ()
    # mirrors aside: the left column is what has to be copied
    cluster = lab.cluster.model_copy(update={"registry": Registry()})
    rendered = [manifest for program in programs(lab, cluster).values() for manifest in program.runs.values()]
    found = {image for manifest in [*rendered, *policies(lab, cluster).values()] for image in _images(manifest)}
    if lab.benchmarks is not None and lab.benchmarks.nccl is not None:
        found.add(lab.benchmarks.nccl.image)
    if lab.images is not None and lab.images.training is not None:
        found.add(lab.images.training.image)
    return tuple(sorted(found))


def _images(part: JsonValue | Manifest) -> Iterator[str]:
    """Images of containers, and those that operators put together from repository, image and version."""
    if isinstance(part, dict):
        image = part.get("image")
        if isinstance(image, str):
            version = str(part.get("version", ""))
            joint = "@" if version.startswith("sha256:") else ":"
            yield f"{part['repository']}/{image}{joint}{version}" if "repository" in part else image
        for inner in part.values():
            yield from _images(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _images(inner)

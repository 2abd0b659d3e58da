"""Digests of a lab's images, as its stack file takes them.

A tag can be moved by whoever may push; a digest names the content. Only a registry knows it, so it stands in no table
of this program, and is asked for where the lab itself pulls.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from components.cluster.images import images_of
from components.jobs.registry import Found
from stacks.bill import Registry
from stacks.lab import Lab

NAMED_BY_OPERATORS = ("cluster.bill.doca_driver", "cluster.bill.gpu_driver")
"""Their operators put a node's system, and its kernel, behind the tag: there is one image for each of them."""


@dataclass
class Pins:
    """What came of asking."""

    content: dict[str, JsonValue] = field(default_factory=dict)
    """The part of the lab with digests, nested as in its file."""
    lacking: list[str] = field(default_factory=list)
    """Images that keep their tag, and why."""
    unknown: list[str] = field(default_factory=list)
    """Images whose registry could not be asked, and why."""

    def add(self, place: str, image: str) -> None:
        """Notes the image at its dotted place."""
        *above, last = place.split(".")
        within = self.content
        for key in above:
            inner = within.setdefault(key, {})
            if not isinstance(inner, dict):
                raise TypeError(f"{place} lies inside a value")
            within = inner
        within[last] = image


def pins_of(lab: Lab, ask: Callable[[str], Found]) -> Pins:
    """The lab's images with their digests; each is asked for once, where the lab pulls it from."""
    found = Pins()
    registry = lab.cluster.registry if lab.cluster else Registry()
    for place, image in _named(lab):
        if "@" in image:
            continue
        if place in NAMED_BY_OPERATORS:
            found.lacking.append(f"{place}: {image} keeps its tag, behind which its operator puts each node's system")
            continue
        pulled = registry.resolve(image)
        told = ask(pulled)
        if told.digest:
            found.add(place, f"{image}@{told.digest}")
        elif told.outcome == "unknown":
            found.unknown.append(f"{place}: {told.why}")
        else:
            why = f"{pulled} is not there" if told.outcome == "missing" else "its registry tells no digest"
            found.lacking.append(f"{place}: {why}")
    return found


def _named(lab: Lab) -> Iterator[tuple[str, str]]:
    """Place and name of each image that the lab pulls."""
    pulled = images_of(lab)
    if lab.cluster is not None:
        for name in type(lab.cluster.bill).model_fields:
            image = str(getattr(lab.cluster.bill, name))
            if image in pulled:
                yield f"cluster.bill.{name}", image
    if lab.benchmarks is not None and lab.benchmarks.nccl is not None:
        yield "benchmarks.nccl.image", lab.benchmarks.nccl.image
    if lab.images is not None and lab.images.training is not None:
        yield "images.training.image", lab.images.training.image

"""A job while it is being converted: its new form, and what has been said about the old one."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import JsonValue

from components.jobs.convert.lines import Document, Path, show

Map = dict[str, JsonValue]


@dataclass(frozen=True, order=True, slots=True)
class Note:
    """One thing that the converter did, or that a person has to know."""

    line: int
    path: Path
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {show(self.path)}: {self.text}"


@dataclass
class Work:
    """One document."""

    document: Document
    device_resource: str | None = None
    """Replaces privileged containers and the host's /dev/infiniband, when somebody names it."""
    notes: list[Note] = field(default_factory=list)
    job: Map = field(init=False)
    """The new form."""

    def __post_init__(self) -> None:
        self.job = copy.deepcopy(as_map(self.document.value))

    def note(self, path: Path, text: str) -> None:
        """Says something about a place of the old file."""
        self.notes.append(Note(self.document.line(path), path, text))

    def spec(self) -> Map:
        """The job's specification."""
        return made(self.job, "spec")

    def replicas(self) -> Iterator[tuple[str, Path, Map]]:
        """Role, path and specification of each replica type."""
        specs = as_map(self.spec().get("mpiReplicaSpecs"))
        for role, replica in specs.items():
            if isinstance(replica, dict):
                yield role, ("spec", "mpiReplicaSpecs", role), replica

    def containers(self, role: str) -> Iterator[tuple[Path, Map]]:
        """The containers of a role."""
        for name, path, replica in self.replicas():
            if name == role:
                pod = made(made(replica, "template"), "spec")
                for position, container in enumerate(as_list(pod.get("containers"))):
                    if isinstance(container, dict):
                        yield (*path, "template", "spec", "containers", position), container


def as_map(value: JsonValue) -> Map:
    """The map that stands there, or an empty one of nobody."""
    return value if isinstance(value, dict) else {}


def as_list(value: JsonValue) -> list[JsonValue]:
    """The list that stands there, or an empty one of nobody."""
    return value if isinstance(value, list) else []


def made(parent: Map, key: str) -> Map:
    """The map under a key; made when it is missing, and left alone when it is something else."""
    if parent.get(key) is None:
        parent[key] = {}
    return as_map(parent[key])

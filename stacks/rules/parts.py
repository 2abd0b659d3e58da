"""What a rule sees, and what it says: the valid sections of a lab file, and faults with a path."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from stacks.cluster import Cluster
from stacks.nodes import Node, Pf, VsphereVm, routed_rails
from stacks.rails import PodSide, Rail

T = TypeVar("T")

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a lab file: where, and what with the remedy."""

    path: Path
    text: str
    also: Path | None = None
    """A second place that the text names, as `show` writes it."""


class BrokenRulesError(ValueError):
    """Every broken rule of a lab whose sections are valid by themselves."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.text for fault in faults))


@dataclass(frozen=True)
class Parts:
    """The sections that are valid; rails and nodes by their position in the file."""

    rails: Mapping[int, Rail]
    nodes: Mapping[int, Node]
    sections: Mapping[str, object]
    """Every key of the file; None for a section that the file does not have, or not a valid one."""
    all_rails_valid: bool = True

    def section(self, key: str, kind: type[T]) -> T | None:
        """A section that a rule can do without; other rules name theirs as parameters."""
        section = self.sections.get(key)
        return section if isinstance(section, kind) else None

    def has(self, key: str) -> bool:
        return self.sections.get(key) is not None

    @property
    def kind(self) -> str | None:
        return self.section("kind", str)

    @property
    def cluster(self) -> Cluster | None:
        return self.section("cluster", Cluster)

    @property
    def rails_by_name(self) -> Mapping[str, Rail]:
        return {rail.name: rail for rail in self.rails.values()}

    @property
    def nodes_by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes.values()}

    @property
    def routed_rails(self) -> frozenset[str]:
        """Rails whose PFs reach each other through routers."""
        return routed_rails(self.rails.values(), self.nodes.values())

    @property
    def split_rails(self) -> frozenset[str]:
        """Rails of several subnets, where each PF has a gateway of its own."""
        return frozenset(pf.rail for _, _, pf in self.pfs() if pf.gateway is not None)

    def pod_rails(self) -> Iterator[tuple[int, Rail, PodSide]]:
        """Each rail that pods use, with its position in the file."""
        for i, rail in self.rails.items():
            if rail.pod is not None:
                yield i, rail, rail.pod

    def vms(self) -> Iterator[tuple[int, VsphereVm]]:
        """Each VM of a node that is not absent, with its position in the file."""
        for i, node in self.nodes.items():
            if isinstance(node, VsphereVm) and node.state != "absent":
                yield i, node

    def pfs(self) -> Iterator[tuple[Path, Node, Pf]]:
        """Each PF of each node that is to be configured, with its path."""
        for i, node in self.nodes.items():
            for j, pf in enumerate(node.pfs):
                yield ("nodes", i, "pfs", j), node, pf


def twice(what: str, values: Iterable[tuple[Path, Hashable]], why: str) -> Iterator[Fault]:
    """A fault for each value after the first of its kind."""
    places_of: dict[Hashable, list[Path]] = defaultdict(list)
    for path, value in values:
        places_of[value].append(path)
    for value, paths in places_of.items():
        for path in paths[1:]:
            yield Fault(
                path, f"{what} {value} is also that of {show(paths[0])}; {why}", also=paths[0]
            )


def show(path: Path) -> str:
    """A path as people write it: `rails[0].pod.vlan_id`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(
        "."
    )

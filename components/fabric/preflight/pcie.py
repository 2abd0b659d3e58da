"""Where a host's cards are plugged in, and how near one is to another: pure, of what the host tells."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

ONE_ROOT = "below its root port"
ONE_NODE = "on its NUMA node"
ACROSS = "on another NUMA node"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pcie:
    """A host's PCIe devices by address, such as `0000:3b:00.0`. What is not told is not guessed."""

    bridges: Mapping[str, str] = field(default_factory=dict)
    """The bridge above a device; one that stands at the root has none."""
    numa_nodes: Mapping[str, int] = field(default_factory=dict)

    def above(self, address: str) -> list[str]:
        """All bridges above a device, the root port last."""
        found: list[str] = []
        while (address := self.bridges.get(address, "")) and address not in found:  # a loop would be nonsense
            found.append(address)
        return found

    def way(self, one: str, other: str) -> str:
        """Where the second stands, seen from the first; empty where the host does not tell enough."""
        if set(self.above(one)) & set(self.above(other)):
            return ONE_ROOT
        nodes = [self.numa_nodes.get(address) for address in (one, other)]
        if None in nodes:
            return ""
        return ONE_NODE if nodes[0] == nodes[1] else ACROSS

    def ways(self, one: str, others: Iterable[str]) -> str:
        """All others, seen from the first, such as `2 on its NUMA node, 2 on another NUMA node`."""
        counted = Counter(way for other in others if (way := self.way(one, other)))
        return ", ".join(f"{counted[way]} {way}" for way in (ONE_ROOT, ONE_NODE, ACROSS) if counted[way])

"""Rails of /31 and /30 links: which address range is which rail's, when each cable is a network of its own."""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from components.discovery.ports import RailPort


@dataclass(frozen=True, slots=True)
class Layout:
    """How links are counted. node: each rail has a range. rail: one range, the first node's rails first."""

    order: Literal["node", "rail"]
    labels: Mapping[RailPort, str]


def link_labels(ports: Sequence[RailPort]) -> dict[RailPort, str]:
    """A name per range of links that one rail has; nothing when they follow neither order."""
    layout = layout_of(ports)
    return dict(layout.labels) if layout else {}


def layout_of(ports: Sequence[RailPort]) -> Layout | None:
    """The order of links, if they have one: NVIDIA cuts a range per rail, Juniper goes through a server's leaves."""
    by_node: dict[str, list[tuple[int, RailPort]]] = defaultdict(list)
    for port in ports:
        if port.address:
            network = port.address.network
            by_node[port.node].append((int(network.network_address) // network.num_addresses, port))
    for links in by_node.values():
        links.sort(key=lambda link: link[0])
    most = max((len(links) for links in by_node.values()), default=0)
    whole = [links for links in by_node.values() if len(links) == most]
    if len(whole) < 2:
        return None
    ranges = [(min(links[n][0] for links in whole), max(links[n][0] for links in whole)) for n in range(most)]
    if all(before[1] < after[0] for before, after in itertools.pairwise(ranges)):
        return _by_range(by_node, ranges)
    first = ranges[0][0]
    if all((number - first) % most == n for links in whole for n, (number, _) in enumerate(links)):
        return _by_turn(by_node, first, most)
    return None


def _by_range(by_node: Mapping[str, list[tuple[int, RailPort]]], ranges: list[tuple[int, int]]) -> Layout:
    labels = {}
    for links in by_node.values():
        for number, port in links:
            for place, (low, high) in enumerate(ranges, 1):
                if low <= number <= high:
                    labels[port] = f"links of range {place}"
    return Layout("node", labels)


def _by_turn(by_node: Mapping[str, list[tuple[int, RailPort]]], first: int, rails: int) -> Layout:
    labels = {
        port: f"links of turn {(number - first) % rails + 1}" for links in by_node.values() for number, port in links
    }
    return Layout("rail", labels)

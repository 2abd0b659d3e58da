"""Rails of /31 and /30 links: which address range is which rail's, when each cable is a network of its own."""

import itertools
from collections import defaultdict
from collections.abc import Sequence

from components.discovery.ports import RailPort


def link_labels(ports: Sequence[RailPort]) -> dict[RailPort, str]:
    """A name per range of links that one rail has; nothing when they follow no known order.

    NVIDIA cuts a range per rail, Juniper goes through a server's leaves.
    """
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
        return {}
    ranges = [(min(links[n][0] for links in whole), max(links[n][0] for links in whole)) for n in range(most)]
    if all(before[1] < after[0] for before, after in itertools.pairwise(ranges)):
        return {
            port: f"links of range {place}"
            for links in by_node.values()
            for number, port in links
            for place, (low, high) in enumerate(ranges, 1)
            if low <= number <= high
        }
    first = ranges[0][0]
    if all((number - first) % most == n for links in whole for n, (number, _) in enumerate(links)):
        return {
            port: f"links of turn {(number - first) % most + 1}" for links in by_node.values() for number, port in links
        }
    return {}

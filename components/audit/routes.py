"""Where Linux would send a packet, from the rules and routes of a host. IPv4 only. Pure."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, ip_network

from components.inventory.model import Route, Rule

MAIN = (32766, "main")
"""The kernel's rule for the table that `ip route` shows; its two others find nothing here."""


def interface_to(
    routes: Sequence[Route], rules: Iterable[Rule], source: IPv4Address, target: IPv4Address
) -> str:
    """The interface by which a packet with this source leaves; empty without a route."""
    order = []
    for rule in rules:
        if _concerns(rule, source, target):
            order.append((rule.priority, rule.table))
    for _, table in sorted([*order, MAIN]):
        best: Route | None = None
        longest = -1
        for route in routes:
            if route.table != table or route.family != 4:
                continue
            network = _network(route.destination)
            if network is None or target not in network or network.prefixlen < longest:
                continue
            if best is None or network.prefixlen > longest or route.metric < best.metric:
                best, longest = route, network.prefixlen
        if best is not None:
            return best.interface
    return ""


def _concerns(rule: Rule, source: IPv4Address, target: IPv4Address) -> bool:
    if rule.interface or not rule.table:
        return False  # of packets that come in, or no look-up
    return _holds(rule.source, source) and _holds(rule.destination, target)


def _holds(text: str, address: IPv4Address) -> bool:
    network = _network(text)
    return text == "all" or (network is not None and address in network)


@lru_cache(maxsize=65_536)
def _network(text: str) -> IPv4Network | None:
    """None for a text of IPv6, and for what is no network."""
    if text == "default":
        text = "0.0.0.0/0"
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv4Network):
        return network
    return None

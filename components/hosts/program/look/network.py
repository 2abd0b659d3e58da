"""Links, addresses, routes, and the interfaces that carry SSH, the default route and storage."""

from typing import Dict, Iterable, List

from ..carriers import ROUTES, default_routes, session_address, storage_routes
from ..host import addresses_of
from .leaves import Json, Leaf, UnknownError, printed_json
from .read_only import ReadOnly

LINKS = ("ip", "-j", "-d", "link", "show")
ADDRESSES = ("ip", "-j", "addr", "show")
RULES = (("ip", "-j", "-4", "rule", "show"), ("ip", "-j", "-6", "rule", "show"))
PEERS = ("ip", "-j", "neigh", "show")
CONF = "/proc/sys/net/ipv4/conf"
SETTINGS = ("arp_ignore", "arp_announce", "rp_filter")
PODS_OWN = ("veth", "dummy", "ifb", "gre", "sit", "ip6tnl", "tunl", "ipip")
"""Kinds of link that pod networks and the kernel create in numbers, irrelevant to rails."""
FIRST_PRIORITY, LAST_PRIORITIES = 0, (32766, 32767)
"""Of the rules that every kernel starts with."""
MOST_ROUTES, MOST_PEERS = 2000, 2000


def links(machine: ReadOnly) -> Dict[str, Json]:
    """All links of the first namespace by name."""
    listed = printed_json(machine.once(*LINKS))
    return {str(link["ifname"]): link for link in listed if link.get("ifname")}


def addresses(machine: ReadOnly) -> Dict[str, List[str]]:
    """Addresses with prefix length of each link, without link-local ones."""
    listed = printed_json(machine.once(*ADDRESSES))
    return {str(link["ifname"]): addresses_of(link) for link in listed if link.get("ifname")}


def other_links(machine: ReadOnly, physical: Iterable[str]) -> List[Json]:
    """Bonds, VLANs, bridges and other virtual links, without those of pods."""
    others, known, given = [], set(physical), addresses(machine)
    for name, link in links(machine).items():
        kind = str(link.get("linkinfo", {}).get("info_kind", ""))
        if (
            name in known
            or not kind
            or kind in PODS_OWN
            or machine.exists(f"/sys/class/net/{name}/device")
        ):
            continue
        others.append(
            {
                "name": name,
                "kind": kind,
                "mac": str(link.get("address", "")),
                "mtu_bytes": int(link.get("mtu", 0)),
                "master": str(link.get("master", "")),
                "lower": str(link.get("link") or ""),
                "vlan_id": (
                    int(link["linkinfo"].get("info_data", {}).get("id", 0)) if kind == "vlan" else 0
                ),
                "up": "UP" in link.get("flags", []),
                "addresses": given.get(name, []),
            }
        )
    return others


def routes(machine: ReadOnly) -> List[Json]:
    """Unicast routes of all tables, without those that Calico's BIRD adds per node."""
    unicast = []
    for family, words in ROUTES.items():
        for route in printed_json(machine.once(*words)):
            if _leads_out(route):
                unicast += [_route(route, hop, family) for hop in route.get("nexthops") or [{}]]
    if len(unicast) > MOST_ROUTES:
        raise UnknownError(
            f"{len(unicast)} routes: more than {MOST_ROUTES}; not a host's own routes"
        )
    return unicast


def _leads_out(route: Json) -> bool:
    local = (
        route.get("type", "unicast") != "unicast"
        or route.get("table") == "local"
        or route.get("dev") == "lo"
    )
    return (
        not local
        and route.get("protocol") != "bird"
        and not str(route.get("dst", "")).startswith(("fe80:", "ff00:"))
    )


def _route(route: Json, hop: Json, family: int) -> Json:
    gateway = hop.get("gateway") or route.get("gateway") or route.get("via", {}).get("host", "")
    return {
        "destination": _prefixed(str(route.get("dst", "")), family),
        "gateway": str(gateway),
        "interface": str(hop.get("dev") or route.get("dev") or ""),
        "source": str(route.get("prefsrc", "")),
        "table": str(route.get("table", "main")),
        "metric": int(route.get("metric", 0)),
        "family": family,
    }


def _prefixed(destination: str, family: int) -> str:
    """`ip` omits the prefix length of a route to a single address."""
    return (
        destination
        if destination == "default" or "/" in destination
        else f"{destination}/{32 if family == 4 else 128}"
    )


def rules(machine: ReadOnly) -> List[Json]:
    """Policy routing rules beyond the kernel's own."""
    own_rules = []
    for words in RULES:
        for rule in printed_json(machine.once(*words)):
            priority = int(rule.get("priority", 0))
            if priority == FIRST_PRIORITY or priority in LAST_PRIORITIES:
                continue
            own_rules.append(
                {
                    "priority": priority,
                    "source": _network(rule, "src"),
                    "destination": _network(rule, "dst"),
                    "interface": str(rule.get("iif") or rule.get("oif") or ""),
                    "table": str(rule.get("table", "")),
                }
            )
    return own_rules


def _network(rule: Json, side: str) -> str:
    length = rule.get(f"{side}len")
    return str(rule.get(side, "all")) + (f"/{length}" if length is not None else "")


def peers(machine: ReadOnly, physical: Iterable[str]) -> List[Json]:
    """Entries of the neighbour table that NICs received."""
    known = set(physical)
    neighbours = []
    for entry in printed_json(machine.once(*PEERS)):
        if entry.get("dev") in known and entry.get("lladdr"):
            neighbours.append(
                {
                    "address": str(entry["dst"]),
                    "interface": str(entry["dev"]),
                    "mac": str(entry["lladdr"]),
                    "state": " ".join(entry.get("state", [])),
                }
            )
    if len(neighbours) > MOST_PEERS:
        raise UnknownError(f"{len(neighbours)} neighbors: more than the {MOST_PEERS} that are kept")
    return neighbours


def sysctls(machine: ReadOnly, physical: Iterable[str]) -> Dict[str, int]:
    values = {}
    for name in ("all", "default", *physical):
        for setting in SETTINGS:
            text = machine.read(f"{CONF}/{name}/{setting}")
            if text.isdigit():
                values[f"net.ipv4.conf.{name}.{setting}"] = int(text)
    if not values:
        raise UnknownError("none could be read")
    return values


def leaves(machine: ReadOnly, physical: List[str]) -> List[Leaf]:
    """What belongs to no single NIC; `physical` are the names of all NICs' interfaces."""
    return [
        Leaf("links", " ".join(LINKS), lambda: other_links(machine, physical)),
        Leaf("routes", " ".join(ROUTES[4]), lambda: routes(machine)),
        Leaf("rules", " ".join(RULES[0]), lambda: rules(machine)),
        Leaf("peers", " ".join(PEERS), lambda: peers(machine, physical)),
        Leaf("sysctls", CONF, lambda: sysctls(machine, physical)),
    ]


def carrier_leaves(machine: ReadOnly) -> List[Leaf]:
    """The interfaces that carry SSH, the default route and storage."""
    return [
        Leaf("ssh", "SSH_CONNECTION", lambda: _of_the_session(machine)),
        Leaf("default_route", " ".join(ROUTES[4]), lambda: default_routes(machine)),
        Leaf("storage", "/proc/mounts", lambda: storage(machine)),
    ]


def _of_the_session(machine: ReadOnly) -> List[str]:
    address = session_address(machine)
    if not address:
        raise UnknownError("this is not an SSH session")
    interfaces = []
    for name, given in addresses(machine).items():
        if address in [prefixed.split("/")[0] for prefixed in given]:
            interfaces.append(name)
    if not interfaces:
        raise UnknownError(f"{address} is not an address of this host")
    return interfaces


def storage(machine: ReadOnly) -> Dict[str, str]:
    """What is mounted or connected over which interface; filesystems are not accessed."""
    machine.text("/proc/mounts")
    storage_by_interface: Dict[str, str] = {}
    for address, interface, what in storage_routes(machine):
        if not interface:
            raise UnknownError(f"there is no route to {address}")
        storage_by_interface.setdefault(interface, what)
    return storage_by_interface

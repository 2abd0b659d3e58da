"""Groups for a flat lab: the other way round of `stacks/expand.py`. What does not fold stays as it is."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, TypeVar

from components.discovery.fold_switches import fold_switches
from components.discovery.notation import LEAST, MOST_STEPS, one_set, plain, progression
from components.discovery.plan import Entry
from stacks.sets import folded, names_of

H = TypeVar("H", bound=Hashable)
OF_NODES = ("management_interface", "ssh_port", "gpus")
"""Fields of a node that its class has."""
OF_PFS = ("pci", "interface", "driver", "vfs", "rdma_device")


def fold(lab: Mapping[str, Any], servers: Mapping[str, str]) -> Entry:
    """The same lab with groups.

    Args:
        lab: rails, nodes and switches one by one.
        servers: server class by node.
    """
    rails = _Rails(lab["rails"], lab["nodes"])
    nodes, classes = _NodeGroups(rails, servers).fold(lab["nodes"])
    switches = fold_switches(lab.get("switches", []), lab["nodes"])
    found: Entry = {}
    for key, value in lab.items():
        if key == "nodes":
            found |= {"node_classes": classes} if classes else {}
        found[key] = {"rails": rails.folded, "nodes": nodes, "switches": switches}.get(key, value)
    return found


# rails


@dataclass(frozen=True, slots=True)
class _Way:
    """How a rail's nodes get their addresses."""

    kind: str
    """`host`, `links` or `segments`."""
    subnet: IPv4Network
    place: int = 0
    rails: int = 1
    """Of links that are counted rail by rail."""

    def number_of(self, address: IPv4Interface) -> int | None:
        """What `rail_host` has to be for an address."""
        offset = int(address.ip) - int(self.subnet.network_address)
        if self.kind == "host":
            return offset
        whole, place = divmod(offset // 2, self.rails)
        return whole if place == self.place else None


class _Rails:
    """The rails of a lab, as a group where they differ by numbers only."""

    def __init__(self, rails: Sequence[Entry], nodes: Sequence[Entry]) -> None:
        self._rails = rails
        self._pfs: dict[str, list[tuple[str, Entry]]] = defaultdict(list)
        for node in nodes:
            for pf in node["pfs"]:
                self._pfs[pf["rail"]].append((node["name"], pf))
        self.ways: dict[str, _Way] = {}
        self.folded: list[Entry] = self._group() or list(rails)
        if not self.ways:
            self.ways = {
                rail["name"]: _Way("host", IPv4Network(rail["host_subnet"])) for rail in rails if not self._routed(rail)
            }

    def _routed(self, rail: Entry) -> bool:
        return any("gateway" in pf for _, pf in self._pfs[rail["name"]])

    def _group(self) -> list[Entry] | None:
        names = one_set([rail["name"] for rail in self._rails])
        subnets = progression([IPv4Network(rail["host_subnet"]) for rail in self._rails])
        mtus = {rail["mtu_bytes"] for rail in self._rails}
        pods = self._pods()
        routed = {self._routed(rail) for rail in self._rails}
        few = len(self._rails) < LEAST and routed != {True}  # routers of many nodes are written in groups only
        if few or not names or subnets is None or len(mtus) > 1 or pods is None or len(routed) > 1:
            return None
        host_side = self._host_side() if routed == {True} else {}
        named = self._named()
        if host_side is None or named is None:
            return None
        group = {"names": names, "mtu_bytes": mtus.pop(), "host_subnet": subnets, **host_side, **pods, **named}
        if not host_side:
            self.ways = {rail["name"]: _Way("host", IPv4Network(rail["host_subnet"])) for rail in self._rails}
        return [group]

    def _named(self) -> Entry | None:
        found: Entry = {}
        for key in ("resource_prefix", "resource_name", "network_name"):
            values = [rail.get(key) for rail in self._rails]
            if values.count(None) == len(values):
                continue
            if None in values:
                return None
            text = [str(value) for value in values]
            shared = text[0] if len(set(text)) == 1 and key == "resource_prefix" else None
            said = shared or (None if key == "resource_prefix" else one_set(text))
            if said is None:
                return None
            found[key] = said
        return found

    def _pods(self) -> Entry | None:
        pods = [rail.get("pod") for rail in self._rails]
        if not any(pods):
            return {}
        if not all(pods):
            return None
        subnets = [IPv4Network(pod["subnet"]) for pod in pods if pod]

        def offsets(key: str) -> set[int | None]:
            return {
                int(IPv4Address(pod[key])) - int(subnet.network_address) if key in pod else None
                for pod, subnet in zip(pods, subnets, strict=True)
                if pod
            }

        vlans = [pod["vlan_id"] for pod in pods if pod]
        vlan = None if None in vlans else progression(vlans)
        places = [offsets(key) for key in ("first_address", "last_address", "gateway")]
        blocks = {pod["addresses_per_node"] for pod in pods if pod}
        where = progression(subnets)
        if where is None or any(len(place) > 1 for place in (*places, blocks)) or (vlan is None and any(vlans)):
            return None
        first, last, gateway = (place.pop() for place in places)
        return {
            "pod": {
                "vlan_id": vlan,
                "subnet": where,
                "pool": [first, last],
                **({"gateway": gateway} if gateway is not None else {}),
                "addresses_per_node": blocks.pop(),
            }
        }

    def _host_side(self) -> Entry | None:
        """`links` or `segments` of routed rails."""
        prefixes = {IPv4Interface(pf["address"]).network.prefixlen for pfs in self._pfs.values() for _, pf in pfs}
        return self._links() if prefixes == {31} else self._segments()

    def _links(self) -> Entry | None:
        low = {
            int(IPv4Interface(pf["address"]).ip) < int(IPv4Address(pf["gateway"]))
            for pfs in self._pfs.values()
            for _, pf in pfs
        }
        subnets = {rail["host_subnet"] for rail in self._rails}
        by_rail = len(subnets) == 1 and len(self._rails) > 1
        if len(low) > 1:
            return None
        self.ways = {
            rail["name"]: _Way(
                "links", IPv4Network(rail["host_subnet"]), n if by_rail else 0, len(self._rails) if by_rail else 1
            )
            for n, rail in enumerate(self._rails)
        }
        return {"links": {"host": "low" if low.pop() else "high", **({"order": "rail"} if by_rail else {})}}

    def _segments(self) -> Entry | None:
        """A subnet per leaf: the same nodes in it on every rail, and the same host numbers."""
        blocks: list[dict[tuple[str, ...], tuple[IPv4Network, int, int]]] = []
        for rail in self._rails:
            by_subnet: dict[IPv4Network, list[tuple[str, Entry]]] = defaultdict(list)
            for node, pf in self._pfs[rail["name"]]:
                by_subnet[IPv4Interface(pf["address"]).network].append((node, pf))
            found = {}
            for subnet, pfs in by_subnet.items():
                numbers = [int(IPv4Interface(pf["address"]).ip) - int(subnet.network_address) for _, pf in pfs]
                routers = {int(IPv4Address(pf["gateway"])) - int(subnet.network_address) for _, pf in pfs}
                if len(routers) > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                    return None
                found[tuple(node for node, _ in pfs)] = (subnet, routers.pop(), numbers[0])
            blocks.append(found)
        if len({frozenset(block) for block in blocks}) > 1:
            return None
        segments = []
        for nodes in blocks[0]:
            subnets = progression([block[nodes][0] for block in blocks])
            rest = {block[nodes][1:] for block in blocks}
            names = one_set(nodes)
            if subnets is None or len(rest) > 1 or names is None:
                return None
            gateway, first = rest.pop()
            segments.append({"nodes": names, "subnet": subnets, "gateway": gateway, "first_host": first})
        self.ways = {rail["name"]: _Way("segments", IPv4Network(rail["host_subnet"])) for rail in self._rails}
        return {"segments": segments}


# nodes


class _NodeGroups:
    """Nodes in groups by server class."""

    def __init__(self, rails: _Rails, servers: Mapping[str, str]) -> None:
        self._ways = rails.ways
        self._servers = servers
        self._classes: dict[str, Entry] = {}

    def fold(self, nodes: Sequence[Entry]) -> tuple[list[Entry], dict[str, Entry]]:
        """Groups and single nodes, and the classes of the groups."""
        alike: dict[tuple[str, tuple[str, ...]], list[Entry]] = defaultdict(list)
        found: list[Entry] = []
        for node in nodes:
            rails = tuple(pf["rail"] for pf in node["pfs"])
            alike[self._servers.get(node["name"], ""), rails].append(node)
        for (server, rails), same in alike.items():
            if len(same) < LEAST or not set(rails) <= self._ways.keys():
                found += same
            else:
                found += self._groups(server, same)
        place = {node["name"]: n for n, node in enumerate(nodes)}
        found.sort(key=lambda entry: place[names_of(entry["names"])[0] if "names" in entry else entry["name"]])
        return found, self._classes

    def _groups(self, server: str, nodes: Sequence[Entry]) -> list[Entry]:
        name, number = server or "server", 2
        while name in self._classes:
            name, number = f"{server or 'server'}-{number}", number + 1
        common = _class_of(nodes)
        by_name = {node["name"]: node for node in nodes}
        found: list[Entry] = []
        for text in folded(by_name):
            members = [by_name[each] for each in names_of(text)]
            for chunk in self._chunks(members):
                found += self._group(name, common, chunk) or chunk
        if any("names" in entry for entry in found):
            self._classes[name] = common
        return found

    def _chunks(self, nodes: Sequence[Entry]) -> list[list[Entry]]:
        """The nodes whole where most follow one progression, else cut where it breaks."""
        addresses = [int(IPv4Address(node["address"])) for node in nodes]
        numbers = [_most(self._numbers(node).values()) or 0 for node in nodes]
        if all(_off(values) * 8 <= len(nodes) for values in (addresses, numbers)):
            return [list(nodes)]
        way_of = [_step(values) for values in (addresses, numbers)]
        offsets = [
            (address - n * way_of[0], number - n * way_of[1])
            for n, (address, number) in enumerate(zip(addresses, numbers, strict=True))
        ]
        counts = Counter(offsets)
        chunks: list[list[Entry]] = []
        last: tuple[int, int] | None = None
        for node, offset in zip(nodes, offsets, strict=True):
            if last is None or (offset != last and counts[offset] >= LEAST):
                chunks.append([])
                last = offset
            chunks[-1].append(node)  # a single one that differs is an exception
        return chunks

    def _numbers(self, node: Entry) -> dict[str, int]:
        """`rail_host` of a node by each rail that counts."""
        found = {}
        for pf in node["pfs"]:
            way = self._ways[pf["rail"]]
            number = None if way.kind == "segments" else way.number_of(IPv4Interface(pf["address"]))
            if number is not None:
                found[pf["rail"]] = number
        return found

    def _group(self, server: str, common: Entry, nodes: Sequence[Entry]) -> list[Entry]:
        """One group; empty where the nodes are too few or too different."""
        names = one_set([node["name"] for node in nodes])
        address = _fitted([int(IPv4Address(node["address"])) for node in nodes])
        counted = [_most(self._numbers(node).values()) for node in nodes]
        counts = any(self._ways[pf["rail"]].kind != "segments" for pf in nodes[0]["pfs"])
        known = [number for number in counted if number is not None]
        number = _fitted(known) if counts and len(known) == len(nodes) else None
        if len(nodes) < LEAST or names is None or address is None or (counts and number is None):
            return []
        exceptions: dict[str, Entry] = {}
        for n, node in enumerate(nodes):
            different = self._exception(node, common, address[0] + n * address[1], number and number[0] + n * number[1])
            if different:
                exceptions[node["name"]] = different
        if len(exceptions) * 2 > len(nodes):
            return []
        group: Entry = {"names": names, "class": server, "address": _as_progression(address, IPv4Address)}
        if number is not None:
            group["rail_host"] = _as_progression(number, int)
        return [{**group, **({"except": exceptions} if exceptions else {})}]

    def _exception(self, node: Entry, common: Entry, address: int, number: int | None) -> Entry:
        found: Entry = {key: node[key] for key in ("state",) if key in node}
        if int(IPv4Address(node["address"])) != address:
            found["address"] = node["address"]
        found |= {key: node.get(key, 22) for key in OF_NODES if node.get(key) != common.get(key)}
        pfs: dict[str, Entry] = {}
        for pf, usual in zip(node["pfs"], common["pfs"], strict=True):
            different = {key: pf.get(key, "mlx5_core") for key in OF_PFS if pf.get(key) != usual.get(key)}
            way = self._ways[pf["rail"]]
            if way.kind != "segments" and way.number_of(IPv4Interface(pf["address"])) != number:
                different["address"] = pf["address"]
                different |= {"gateway": pf["gateway"]} if "gateway" in pf else {}
            if different:
                pfs[pf["rail"]] = different
        return {**found, **({"pfs": pfs} if pfs else {})}


def _class_of(nodes: Sequence[Entry]) -> Entry:
    """What most of the nodes have."""
    found: Entry = {key: value for key in OF_NODES if (value := _most(node.get(key) for node in nodes)) is not None}
    pfs = []
    for place, pf in enumerate(nodes[0]["pfs"]):
        values = {key: _most(node["pfs"][place].get(key) for node in nodes) for key in OF_PFS}
        pfs.append({"rail": pf["rail"], **{key: value for key, value in values.items() if value is not None}})
    return {**found, "pfs": pfs}


def _most(values: Iterable[H]) -> H | None:
    counts = Counter(values).most_common(1)
    return counts[0][0] if counts else None


def _step(values: Sequence[int]) -> int:
    """How far apart most neighbours are."""
    return Counter(after - before for before, after in itertools.pairwise(values)).most_common(1)[0][0]


def _fitted(values: Sequence[int]) -> tuple[int, int] | None:
    """First and step of the progression that most of the values follow."""
    if len(values) < 2:
        return None
    step = _step(values)
    if not 1 <= step <= MOST_STEPS:
        return None
    first = Counter(value - n * step for n, value in enumerate(values)).most_common(1)[0][0]
    return (first, step) if first >= 0 else None


def _off(values: Sequence[int]) -> int:
    """How many values do not follow the progression of most."""
    fitted = _fitted(values)
    if fitted is None:
        return len(values)
    return sum(1 for n, value in enumerate(values) if value != fitted[0] + n * fitted[1])


def _as_progression(fitted: tuple[int, int], kind: Callable[[int], Any]) -> Entry:
    first, step = fitted
    return {"first": plain(kind(first)), **({"step": step} if step > 1 else {})}

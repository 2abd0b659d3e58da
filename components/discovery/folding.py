"""Groups for a flat lab: the other way round of `stacks/expand.py`.

Only what counts up evenly folds: nodes of the same class, rails, and switches with one rail each.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any, TypeVar

from components.discovery.questions import Entry
from stacks.sets import folded, names_of

T = TypeVar("T")
LEAST = 3
"""Entries that are a group; two are easier to read one by one."""
MOST_STEPS = 65_536
"""What a progression allows."""
OF_NODES = ("management_interface", "ssh_port", "gpus")
"""Fields of a node that its class has."""
OF_PFS = ("rail", "pci", "interface", "driver", "vfs", "rdma_device")
OF_RAILS = {"name", "mtu_bytes", "host_subnet"}
"""Fields of a rail that a group has."""


def fold(lab: Mapping[str, Any], servers: Mapping[str, str]) -> Entry:
    """The same lab with groups.

    Args:
        lab: rails, nodes and switches one by one.
        servers: server class by node.
    """
    rails, host_numbers = _fold_rails(lab["rails"], lab["nodes"])
    nodes, classes = _fold_nodes(lab["nodes"], servers, host_numbers)
    groups: Entry = {}
    for key, value in lab.items():
        if key == "nodes" and classes:
            groups["node_classes"] = classes
        groups[key] = value
    groups |= {"rails": rails, "nodes": nodes}
    if "switches" in lab:
        groups["switches"] = _fold_switches(lab["switches"], lab["nodes"])
    return groups


# sets and progressions


def one_set(names: Sequence[str]) -> str | None:
    """A set that holds these names in this order; None where there is none."""
    sets = folded(names)
    return sets[0] if len(sets) == 1 and list(names_of(sets[0])) == list(names) else None


def progression(values: Sequence[Any]) -> Any:
    """Numbers, addresses or subnets as one value, or as first and step; None for others."""
    first = _plain(values[0])
    numbers = [_number(value) for value in values]
    if len(set(values)) == 1:
        return first
    step = numbers[1] - numbers[0]
    same_size = len({value.prefixlen for value in values if isinstance(value, IPv4Network)}) < 2
    counted = [numbers[0] + step * n for n in range(len(numbers))]
    if not same_size or not 1 <= step <= MOST_STEPS or numbers != counted:
        return None
    return {"first": first, "step": step} if step > 1 else {"first": first}


def runs(items: Sequence[T], numbers: Callable[[T], tuple[int, ...]]) -> list[list[T]]:
    """The items in order, cut where their numbers no longer count up by the same steps."""
    parts: list[list[T]] = []
    last_steps: tuple[int, ...] = ()
    for item in items:
        if not parts:
            parts.append([item])
            continue
        run = parts[-1]
        pairs = zip(numbers(run[-1]), numbers(item), strict=True)
        steps = tuple(after - before for before, after in pairs)
        if len(run) == 1 or steps == last_steps:
            run.append(item)
        elif len(run) == 2:
            parts[-1:] = [run[:1], [run[1], item]]
        else:
            parts.append([item])
        last_steps = steps
    return parts


def _number(value: Any) -> int:
    if isinstance(value, IPv4Network):
        return int(value.network_address) // value.num_addresses
    return int(value)


def _plain(value: Any) -> int | str:
    return value if isinstance(value, int) else str(value)


# rails


@dataclass(frozen=True, slots=True)
class _HostNumbers:
    """How a rail counts the addresses of its nodes."""

    subnet: IPv4Network
    links: tuple[int, int] | None = None
    """Where each cable is a /31: the rail's place, and how many rails share the subnet."""

    def number_of(self, address: str) -> int | None:
        """What `rail_host` has to be for an address."""
        offset = int(IPv4Interface(address).ip) - int(self.subnet.network_address)
        if self.links is None:
            return offset
        place, rails = self.links
        number, own_place = divmod(offset // 2, rails)
        return number if own_place == place else None


def _fold_rails(
    rails: Sequence[Entry], nodes: Sequence[Entry]
) -> tuple[Sequence[Entry], dict[str, _HostNumbers]]:
    """Rails, and how those count whose nodes can fold."""
    pfs = [pf for node in nodes for pf in node["pfs"]]
    routed = {pf["rail"] for pf in pfs if "gateway" in pf}
    subnets = {rail["name"]: IPv4Network(rail["host_subnet"]) for rail in rails}
    group = _rail_group(rails)
    if group is None or routed != subnets.keys():
        bridged = {name: _HostNumbers(subnets[name]) for name in subnets if name not in routed}
        if group is None or routed or len(rails) < LEAST:
            return rails, bridged
        return [group], bridged
    links = _links(pfs)
    if links is None:
        return rails, {}
    if len(rails) == 1 or len(set(subnets.values())) > 1:
        own = {name: _HostNumbers(subnet, (0, 1)) for name, subnet in subnets.items()}
        return [{**group, "links": links}], own
    shared: dict[str, _HostNumbers] = {}
    for place, (name, subnet) in enumerate(subnets.items()):
        shared[name] = _HostNumbers(subnet, (place, len(subnets)))
    return [{**group, "links": {**links, "order": "rail"}}], shared


def _rail_group(rails: Sequence[Entry]) -> Entry | None:
    names = one_set([rail["name"] for rail in rails])
    subnets = progression([IPv4Network(rail["host_subnet"]) for rail in rails])
    mtus = {rail["mtu_bytes"] for rail in rails}
    has_pods = any(rail.keys() - OF_RAILS for rail in rails)
    if names is None or subnets is None or len(mtus) > 1 or has_pods:
        return None
    return {"names": names, "mtu_bytes": mtus.pop(), "host_subnet": subnets}


def _links(pfs: Sequence[Entry]) -> Entry | None:
    """Which end of its /31 each PF has; None where there are other subnets, or both ends."""
    ends = set()
    for pf in pfs:
        own, router = IPv4Interface(pf["address"]), IPv4Address(pf["gateway"])
        if own.network.prefixlen != 31:
            return None
        end = "low" if own.ip < router else "high"
        ends.add(end)
    return {"host": ends.pop()} if len(ends) == 1 else None


# nodes


def _fold_nodes(
    nodes: Sequence[Entry], servers: Mapping[str, str], rails: Mapping[str, _HostNumbers]
) -> tuple[list[Entry], dict[str, Entry]]:
    """Groups and single nodes, and the classes of the groups."""
    alike: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    entries: list[tuple[str, Entry]] = []
    for node in nodes:
        if "state" in node or _rail_host(node, rails) is None:
            entries.append((node["name"], node))
        else:
            alike[servers[node["name"]] or "server", json.dumps(_class_of(node))].append(node)
    classes: dict[str, Entry] = {}
    for (server, text), same in alike.items():
        others = sum(1 for name in classes if name == server or name.startswith(f"{server}-"))
        name = f"{server}-{others + 1}" if others else server
        by_name = {node["name"]: node for node in same}
        for names in folded(by_name):
            members = [by_name[member] for member in names_of(names)]
            for run in runs(members, lambda node: _numbers(node, rails)):
                group = _node_group(name, run, rails)
                if group is None:
                    entries += [(node["name"], node) for node in run]
                else:
                    classes[name] = json.loads(text)
                    entries.append((run[0]["name"], group))
    places = {node["name"]: place for place, node in enumerate(nodes)}
    entries.sort(key=lambda entry: places[entry[0]])
    return [entry for _, entry in entries], classes


def _class_of(node: Entry) -> Entry:
    own = {key: node[key] for key in OF_NODES if key in node}
    pfs = []
    for pf in node["pfs"]:
        pfs.append({key: pf[key] for key in OF_PFS if key in pf})
    return {**own, "pfs": pfs}


def _rail_host(node: Entry, rails: Mapping[str, _HostNumbers]) -> int | None:
    """The one number of a node on all its rails."""
    numbers: set[int | None] = set()
    for pf in node["pfs"]:
        if pf["rail"] not in rails:
            return None
        numbers.add(rails[pf["rail"]].number_of(pf["address"]))
    return numbers.pop() if len(numbers) == 1 else None


def _numbers(node: Entry, rails: Mapping[str, _HostNumbers]) -> tuple[int, ...]:
    number = _rail_host(node, rails) or 0
    return _last_number(node["name"]), int(IPv4Address(node["address"])), number


def _node_group(
    server: str, nodes: Sequence[Entry], rails: Mapping[str, _HostNumbers]
) -> Entry | None:
    address = progression([IPv4Address(node["address"]) for node in nodes])
    number = progression([_rail_host(node, rails) for node in nodes])
    if len(nodes) < LEAST or address is None or number is None:
        return None
    names = one_set([node["name"] for node in nodes])
    return {"names": names, "class": server, "address": address, "rail_host": number}


def _last_number(name: str) -> int:
    numbers = re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers else 0


# switches

Cable = tuple[str, str]
"""Node and switch port."""


def _fold_switches(switches: Sequence[Entry], nodes: Sequence[Entry]) -> Sequence[Entry]:
    """Switches with one rail each and the same nodes at the same ports as one group."""
    rails = {(node["name"], pf["interface"]): pf["rail"] for node in nodes for pf in node["pfs"]}
    order: list[str] = []
    tables: list[list[Cable]] = []
    for switch in switches:
        own = set()
        cables = []
        for node, ports in switch["ports"].items():
            for interface, port in ports.items():
                own.add(rails[node, interface])
                cables.append((node, port))
        order += own
        tables.append(cables)
    same = [{**switch, "name": "", "address": "", "ports": ""} for switch in switches]
    if (
        len(switches) < LEAST
        or len(order) != len(switches)
        or any(other != same[0] for other in same)
    ):
        return switches
    group = _switch_group(switches, order)
    if group is None or any(cables != tables[0] for cables in tables):
        return switches
    return [{**group, "ports": _cable_groups(tables[0], group["ports"])}]


def _switch_group(switches: Sequence[Entry], rails: Sequence[str]) -> Entry | None:
    """The group, with the set of its rails in place of its ports."""
    names = one_set([switch["name"] for switch in switches])
    address = progression([IPv4Address(switch["address"]) for switch in switches])
    rail_set = one_set(rails)
    if names is None or address is None or rail_set is None:
        return None
    group = {"names": names, **switches[0], "address": address, "ports": rail_set}
    del group["name"]
    vlans: Mapping[str, int] = group.get("native_vlans", {})
    if vlans:
        tags = progression([vlans.get(rail, 0) for rail in rails])
        if tags is None or vlans.keys() != set(rails):
            return None
        group["native_vlans"] = {rail_set: tags}
    return group


def _cable_groups(cables: Sequence[Cable], rails: str) -> list[Entry]:
    groups = []
    port_of = dict(cables)
    for text in folded(port_of):  # 99 and 100 are of two sets where numbers are padded
        members = [(node, port_of[node]) for node in names_of(text)]
        for run in runs(members, lambda cable: (_last_number(cable[0]), _last_number(cable[1]))):
            nodes, ports = one_set([node for node, _ in run]), _port_set([port for _, port in run])
            if nodes and ports:
                groups.append({"nodes": nodes, "rails": rails, "port": ports})
            else:
                groups += [{"nodes": node, "rails": rails, "port": port} for node, port in run]
    return groups


def _port_set(ports: Sequence[str]) -> str | None:
    """A set of ports in this order, also with a step: `Ethernet[0-252/4]`."""
    head = ports[0].rstrip("0123456789")
    numbers = [port.removeprefix(head) for port in ports]
    if len(ports) < 3 or not all(number.isdecimal() for number in numbers):
        return one_set(ports)
    step = int(numbers[1]) - int(numbers[0])
    text = f"{head}[{numbers[0]}-{numbers[-1]}/{step}]".replace("/1]", "]")
    try:
        return text if list(names_of(text)) == list(ports) else None
    except ValueError:
        return None

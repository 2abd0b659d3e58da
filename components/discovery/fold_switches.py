"""Groups for the switches of a flat lab: one rail per switch, or the cables of one switch in sets."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address

from components.discovery.notation import LEAST, one_set, progression
from components.discovery.plan import Entry
from stacks.sets import folded, names_of


def fold_switches(switches: Sequence[Entry], nodes: Sequence[Entry]) -> list[Entry]:
    """Switches with the ports of the same nodes in the same places as one group, one rail each."""
    rails = {(node["name"], pf["interface"]): pf["rail"] for node in nodes for pf in node["pfs"]}
    return _switch_group(switches, rails) or [_switch_alone(switch, rails) for switch in switches]


def _switch_group(switches: Sequence[Entry], rails: Mapping[tuple[str, str], str]) -> list[Entry]:
    names = one_set([switch["name"] for switch in switches]) if len(switches) >= LEAST else None
    tables = [_cables(switch, rails) for switch in switches]
    own = [{rail for rail, _ in table} for table in tables]
    if names is None or any(len(each) != 1 for each in own):
        return []
    order = [rail for each in own for rail in each]
    rail_set, addresses = one_set(order), progression([IPv4Address(switch["address"]) for switch in switches])
    plain = [{key: switch.get(key) for key in ("os", "ssh_port", "mtu_bytes")} for switch in switches]
    tags = [switch.get("native_vlans", {}) for switch in switches]
    vlans = [tags[0].get(rail) for rail in order]
    vlan = None if None in vlans else progression(vlans)
    ports = [[cable for _, cable in table] for table in tables]
    if (
        rail_set is None
        or addresses is None
        or any(each != plain[0] for each in plain)
        or (vlan is None and any(vlans))
    ):
        return []
    if any(table != ports[0] for table in ports) or any(each != tags[0] for each in tags):
        return []
    cables = _cable_groups(ports[0], rail_set)
    group = {"names": names, "os": plain[0]["os"], "address": addresses}
    group |= {"ssh_port": plain[0]["ssh_port"]} if plain[0]["ssh_port"] else {}
    group |= {"native_vlans": {rail_set: vlan}} if vlan is not None else {}
    group |= {"mtu_bytes": plain[0]["mtu_bytes"]} if plain[0]["mtu_bytes"] else {}
    return [{**group, "ports": cables}] if cables else []


def _switch_alone(switch: Entry, rails: Mapping[tuple[str, str], str]) -> Entry:
    """One switch: its cables in sets where its rails are those of many nodes."""
    table = _by_rail(_cables(switch, rails))
    if sum(len(cables) for cables in table.values()) < 2 * LEAST:
        return switch
    ports = []
    for rail, cables in table.items():
        ports += _cable_groups(cables, rail)
    same = {key: value for key, value in switch.items() if key not in ("name", "ports")}
    return {"names": switch["name"], **same, "ports": ports} if ports else switch


def _cables(switch: Entry, rails: Mapping[tuple[str, str], str]) -> list[tuple[str, tuple[str, str]]]:
    return [
        (rails[node, interface], (node, port))
        for node, ports in switch["ports"].items()
        for interface, port in ports.items()
    ]


def _by_rail(cables: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for rail, cable in cables:
        found[rail].append(cable)
    return found


def _cable_groups(cables: Sequence[tuple[str, str]], rails: str) -> list[Entry]:
    """Nodes and ports in the same order as sets: cut where the numbers of nodes or ports leap."""
    chunks: list[list[tuple[str, str]]] = []
    leap: tuple[int, int] | None = None
    for cable in cables:
        before = chunks[-1][-1] if chunks else cable
        step = (_last_number(cable[0]) - _last_number(before[0]), _last_number(cable[1]) - _last_number(before[1]))
        if chunks and (len(chunks[-1]) == 1 or step == leap):
            chunks[-1].append(cable)
        else:
            chunks.append([cable])
        leap = step
    found = []
    for chunk in chunks:
        port_of = dict(chunk)
        for text in folded(port_of):  # 99 and 100 are of two sets where numbers are padded
            nodes = names_of(text)
            ports = _port_set([port_of[node] for node in nodes])
            whole = [(text, ports)] if ports else [(node, port_of[node]) for node in nodes]
            found += [{"nodes": node, "rails": rails, "port": port} for node, port in whole]
    return found


def _last_number(name: str) -> int:
    numbers = re.findall(r"\d+", name)
    return int(numbers[-1]) if numbers else 0


def _port_set(ports: Sequence[str]) -> str | None:
    """A set of ports in this order, also with a step: `Ethernet[0-252/4]`."""
    if len(ports) > 2 and (found := _stepped(ports)):
        return found
    return one_set(ports)


def _stepped(ports: Sequence[str]) -> str | None:
    head = ports[0].rstrip("0123456789")
    digits = [port[len(head) :] for port in ports]
    if any(not port.startswith(head) or not digit.isdecimal() for port, digit in zip(ports, digits, strict=True)):
        return None
    step = int(digits[1]) - int(digits[0])
    text = f"{head}[{digits[0]}-{digits[-1]}{f'/{step}' if step > 1 else ''}]"
    try:
        return text if step >= 1 and list(names_of(text)) == list(ports) else None
    except ValueError:
        return None

"""Switches: cables, and ports that should be alike."""

from collections import Counter
from collections.abc import Collection, Hashable
from string import ascii_letters

from components.audit.checks.links import gbit, link_speed
from components.audit.checks.qos import numbers, pfc_switch
from components.audit.findings import Faults, Severity
from components.audit.fleet import AuditUplink, Port
from components.audit.registry import CUMULUS, PRACTICE, check
from components.audit.view import View, fault
from components.inventory.reading import Reading
from stacks.switches import cables

DEEPOPS = "https://github.com/NVIDIA/deepops/blob/master/docs/k8s-cluster/roce-perf-k8s.md"
LLDP = "https://github.com/scitix/sichek/pull/133"
UNHEARD = "neither LLDP nor a MAC table shows its switch"


@check(
    "cross-cabled",
    Severity.HIGH,
    title="Port is on the switch of another rail",
    why="traffic of two rails crosses at one switch, and isolated rails time out",
    source=LLDP,
    remedy="move the cable; if two ports are listed, swap their cables",
)
def cross_cabled(view: View) -> Faults:
    declared = {}
    for switch in view.lab.switches if view.lab else ():
        for node_name, interface, name in cables(switch):
            declared[node_name, interface] = (switch.name, name)
    inferred: list[tuple[Port, str]] = []
    for port in view.ports:
        node = view.fleet.node(port.host)
        expected = None
        if node and port.declared:
            expected = declared.get((node.name, port.declared.interface))
        leaf = port.leaf
        if leaf is None:
            view.skip(port.node, UNHEARD)
        elif expected is None:
            inferred.append((port, leaf.name))
        elif leaf.name != expected[0] or (leaf.port and _number(leaf.port) != _number(expected[1])):
            source = _source(port, view.fleet.uplink(port))
            yield fault(port, source, f"{leaf.name} {leaf.port}".strip(), " ".join(expected))
    yield from _on_leaves_of_others(view, inferred)


def _number(port: str) -> str:
    """A port without the word before its number: by LLDP, Onyx calls its port 1/1 Eth1/1."""
    return port.lstrip(ascii_letters)


def _on_leaves_of_others(view: View, actual: list[tuple[Port, str]]) -> Faults:
    """A leaf belongs to a rail when most hosts on it have this rail there and no other."""
    rails_on: dict[str, dict[str, set[str]]] = {}
    for port, leaf in actual:
        rails_on.setdefault(leaf, {}).setdefault(port.node, set()).add(port.rail)
    rail_of: dict[str, str] = {}
    for leaf, hosts in rails_on.items():
        rails, count = Counter(frozenset(rails) for rails in hosts.values()).most_common(1)[0]
        if len(rails) == 1 and count * 2 > len(hosts):
            rail_of[leaf] = min(rails)
    for port, leaf in actual:
        if rail_of.get(leaf, port.rail) != port.rail:
            right = sorted(name for name, rail in rail_of.items() if rail == port.rail)
            expected = " or ".join(right[:3]) or "a switch of its rail"
            yield fault(port, _source(port, view.fleet.uplink(port)), leaf, expected)


@check(
    "numa-switch",
    Severity.MEDIUM,
    title="NICs of one NUMA node share a switch",
    why="one switch carries all traffic of the GPUs there, and if it fails, they send through "
    "the other socket",
    source=DEEPOPS,
    remedy="swap cables with a NIC of the other NUMA node; if each switch serves one NUMA node "
    "by design, waive this",
)
def numa_switch(view: View) -> Faults:
    for place in view.places:
        ports_at: dict[int, list[tuple[Port, str]]] = {}
        for port in view.fleet.ports_of(place.host):
            numa_node = view.read(port.node, port.pf.numa_node)
            if port.leaf is None:
                view.skip(port.node, UNHEARD)
            elif numa_node is not None and numa_node >= 0:
                ports_at.setdefault(numa_node, []).append((port, port.leaf.name))
        leaves = {leaf for ports in ports_at.values() for _, leaf in ports}
        for numa_node, ports in ports_at.items():
            used = Counter(leaf for _, leaf in ports)
            if len(used) == min(len(ports), len(leaves)):
                continue
            for port, leaf in ports:
                if used[leaf] > 1:
                    others = f"{leaf}, with {used[leaf] - 1} more of NUMA node {numa_node}"
                    yield fault(
                        port,
                        _source(port, view.fleet.uplink(port)),
                        others,
                        "one of them on another switch",
                    )


def _source(port: Port, uplink: AuditUplink | None) -> Reading[object]:
    if port.pf.lldp.value or uplink is None:
        return port.pf.lldp
    if uplink.port.neighbours.value:
        return uplink.port.neighbours
    return uplink.switch.macs


@check(
    "switch-speed",
    Severity.HIGH,
    title="Switch port's speed differs from its peers",
    why="a collective is as slow as its slowest link",
    source=PRACTICE,
    remedy="compare the port's speed, FEC and breakout with a peer's",
)
def switch_speed(view: View) -> Faults:
    slow = view.places_of(link_speed)
    groups: dict[Hashable, list[Setting]] = {}
    for port, uplink in view.uplinks():
        speed = view.read(port.node, uplink.port.speed_mbit_s)
        if speed and (port.node, port.part) not in slow:
            setting = uplink, uplink.port.speed_mbit_s, gbit(speed)
            groups.setdefault(port.peers, []).append(setting)
    for group in groups.values():
        yield from _unlike_most(view, group)


Setting = tuple[AuditUplink, Reading[object], str]
"""A switch port, where a value of it was read, and the value for people."""


def _unlike_most(view: View, settings: Collection[Setting]) -> Faults:
    """Settings that differ from those of more than half of the ports."""
    counts = Counter(text for _, _, text in settings)
    for usual, count in counts.most_common(1):
        for uplink, reading, text in settings:
            if count * 2 > len(settings) and text != usual:
                yield view.switch_fault(uplink, reading, text, f"{usual}, as most peers")


@check(
    "switch-qos",
    Severity.HIGH,
    title="Switch port's QoS differs from its peers",
    why="one port without marking or pausing drops packets of all its traffic",
    source=CUMULUS,
    remedy="apply one QoS profile to all ports with hosts, on all switches",
)
def switch_qos(view: View) -> Faults:
    ports = {}
    for port, uplink in view.uplinks():
        ports[uplink.switch.name, uplink.port.name] = port, uplink
    one_sided = view.places_of(pfc_switch)
    trust: list[Setting] = []
    pfc: list[Setting] = []
    ecn: list[Setting] = []
    for port, uplink in ports.values():
        own = uplink.port
        if view.read(port.node, own.trust) is not None:
            trust.append((uplink, own.trust, f"trust {own.trust.value}"))
        paused = view.read(port.node, own.pfc_priorities)
        if paused is not None and (port.node, port.part) not in one_sided:  # the NIC says so too
            pfc.append((uplink, own.pfc_priorities, f"PFC {numbers(paused)}"))
        marking = view.read(port.node, own.ecn)
        if marking is not None:
            classes = []
            for tc, text in sorted(marking.items()):
                classes.append(f"{text} on class {tc}")
            ecn.append((uplink, own.ecn, f"ECN {', '.join(classes) or 'off'}"))
    for settings in (trust, pfc, ecn):
        yield from _unlike_most(view, settings)

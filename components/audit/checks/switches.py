"""Switches: cables, and ports that should be alike."""

from collections import Counter
from collections.abc import Hashable, Iterator
from string import ascii_letters

from components.audit.checks.links import link_speed
from components.audit.checks.qos import pfc_switch
from components.audit.findings import AuditFault, Severity
from components.audit.fleet import AuditUplink, Port
from components.audit.registry import PRACTICE, check
from components.audit.view import View, fault
from components.inventory.reading import Reading
from stacks.switches import cables

DEEPOPS = "https://github.com/NVIDIA/deepops/blob/master/docs/k8s-cluster/roce-perf-k8s.md"
LLDP = "https://github.com/scitix/sichek/pull/133"
CUMULUS = (
    "https://docs.nvidia.com/networking-ethernet-software/cumulus-linux-514/"
    "Layer-1-and-Switch-Ports/"
    "Quality-of-Service/RDMA-over-Converged-Ethernet-RoCE"
)
UNHEARD = "neither LLDP nor a MAC table shows its switch"


@check(
    "cross-cabled",
    Severity.HIGH,
    title="Port is on the switch of another rail",
    good="the switch port of the lab file; without it, the switch that carries this rail for "
    "other hosts",
    why="traffic of two rails crosses at one switch, and isolated rails time out",
    source=LLDP,
    remedy="swap the cables; if both ends of a pair are listed, they are each other's",
)
def cross_cabled(view: View) -> Iterator[AuditFault]:
    declared = {}
    for switch in view.lab.switches if view.lab else ():
        for node_name, interface, name in cables(switch):
            declared[node_name, interface] = (switch.name, name)
    inferred: list[tuple[Port, str]] = []
    for port in view.ports:
        node = view.fleet.node(port.host)
        expected = (
            declared.get((node.name, port.declared.interface)) if node and port.declared else None
        )
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


def _on_leaves_of_others(view: View, actual: list[tuple[Port, str]]) -> Iterator[AuditFault]:
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
    good="the NICs of a NUMA node spread over the switches that the host is cabled to",
    why="one switch carries all traffic of the GPUs there, and if it fails, they send through "
    "the other socket",
    source=DEEPOPS,
    remedy="swap the cable with a NIC of the other NUMA node; waive it if your switches carry "
    "one NUMA node each by "
    "design",
)
def numa_switch(view: View) -> Iterator[AuditFault]:
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
                        "a switch without one of them",
                    )


def _source(port: Port, uplink: AuditUplink | None) -> Reading[object]:
    if port.pf.lldp.value or uplink is None:
        return port.pf.lldp
    return uplink.port.neighbours if uplink.port.neighbours.value else uplink.switch.macs


@check(
    "switch-speed",
    Severity.HIGH,
    title="Switch port runs at another speed than its peers",
    good="the speed of most ports of this rail",
    why="a collective is as slow as its slowest link",
    source=PRACTICE,
    remedy="compare the port's speed, FEC and breakout with a peer's",
)
def switch_speed(view: View) -> Iterator[AuditFault]:
    slow = view.places_of(link_speed)
    groups: dict[Hashable, list[tuple[AuditUplink, int]]] = {}
    for port, uplink in view.uplinks():
        speed = view.read(port.node, uplink.port.speed_mbit_s)
        if speed and (port.node, port.part) not in slow:
            groups.setdefault(port.peers, []).append((uplink, speed))
    for group in groups.values():
        usual, count = Counter(speed for _, speed in group).most_common(1)[0]
        for uplink, speed in group:
            if count * 2 > len(group) and speed != usual:
                actual, expected = (
                    f"{speed / 1000:g} Gbit/s",
                    f"{usual / 1000:g} Gbit/s, as most peers",
                )
                yield view.switch_fault(uplink, uplink.port.speed_mbit_s, actual, expected)


@check(
    "switch-qos",
    Severity.HIGH,
    title="Switch port has another QoS than its peers",
    good="trust, PFC and ECN as most ports with hosts, on all switches",
    why="one port without marking or pausing drops the packets of all that pass it",
    source=CUMULUS,
    remedy="apply one QoS profile to all ports with hosts, on all switches",
)
def switch_qos(view: View) -> Iterator[AuditFault]:
    ports = {
        (uplink.switch.name, uplink.port.name): (port, uplink) for port, uplink in view.uplinks()
    }
    one_sided = view.places_of(pfc_switch)
    for what, text_of in _SETTINGS.items():
        known = []
        for port, uplink in ports.values():
            reading, text = text_of(uplink)
            if view.read(port.node, reading) is None:
                continue
            if what == "PFC" and (port.node, port.part) in one_sided:
                continue  # the NIC says so too
            known.append((uplink, reading, text))
        if not known:
            continue
        usual, count = Counter(text for _, _, text in known).most_common(1)[0]
        for uplink, reading, text in known:
            if count * 2 > len(known) and text != usual:
                yield view.switch_fault(
                    uplink, reading, f"{what} {text}", f"{what} {usual}, as most peers"
                )


def _trust(uplink: AuditUplink) -> tuple[Reading[str], str]:
    return uplink.port.trust, uplink.port.trust.or_else("")


def _pfc(uplink: AuditUplink) -> tuple[Reading[tuple[int, ...]], str]:
    on = uplink.port.pfc_priorities
    return on, " ".join(map(str, on.or_else(()))) or "none"


def _ecn(uplink: AuditUplink) -> tuple[Reading[dict[int, str]], str]:
    marking = uplink.port.ecn
    return marking, ", ".join(
        f"{text} on class {tc}" for tc, text in sorted(marking.or_else({}).items())
    ) or "off"


_SETTINGS = {"trust": _trust, "PFC": _pfc, "ECN": _ecn}

"""Rules between switches and the rest: every PF on one port, every port on one PF, and an MTU chain
that holds.
"""

from collections.abc import Iterator

from stacks.qos import Qos
from stacks.rules.parts import Fault, Parts, Path, twice
from stacks.switches import (
    DEFAULT_VLAN,
    HEADER_BYTES,
    Switches,
    cables,
    marker_of,
)
from stacks.words import some

LONGEST_MARKER = 63
"""Characters of a port's description that every system keeps."""


def refuse_names_and_addresses_given_twice(parts: Parts, switches: Switches) -> Iterator[Fault]:
    yield from twice(
        "name",
        ((("switches", i, "name"), switch.name) for i, switch in enumerate(switches)),
        "give each switch its own name",
    )
    places: list[tuple[Path, str]] = []
    for i, node in parts.nodes.items():
        if node.state != "absent":
            places.append((("nodes", i, "address"), f"{node.address} port {node.ssh_port}"))
    for i, switch in enumerate(switches):
        places.append((("switches", i, "address"), f"{switch.address} port {switch.ssh_port}"))
    # the core rules report what nodes share among themselves
    repeated = twice("address", places, "give each switch its own")
    yield from (fault for fault in repeated if fault.path[0] == "switches")


def refuse_ports_and_pfs_given_twice(switches: Switches) -> Iterator[Fault]:
    mapped: list[tuple[Path, str]] = []
    for i, switch in enumerate(switches):
        paths = []
        for node, pf, port in cables(switch):
            paths.append((("switches", i, "ports", node, pf), (node, pf), port))
        yield from twice(
            "port", ((path, port) for path, _, port in paths), "a port takes one cable"
        )
        mapped += [(path, f"{node} {pf}") for path, (node, pf), _ in paths]
    yield from twice("PF", mapped, "a PF has one cable")


def refuse_cables_to_nowhere(parts: Parts, switches: Switches) -> Iterator[Fault]:
    nodes = parts.nodes_by_name
    for i, switch in enumerate(switches):
        for name, ports in switch.ports.items():
            node = nodes.get(name)
            if node is None:
                yield Fault(
                    ("switches", i, "ports", name),
                    f"this lab has no node {name}; nodes: {some(sorted(nodes), 8)}",
                )
                continue
            known = [pf.interface for pf in node.pfs]
            for interface in ports:
                if interface not in known:
                    yield Fault(
                        ("switches", i, "ports", name, interface),
                        f"{name} has no PF {interface}; PFs: {', '.join(known)}",
                    )


def refuse_pfs_without_a_port(parts: Parts, switches: Switches) -> Iterator[Fault]:
    # a fault, not a warning: such a PF would have the MTU and VLAN of an unconfigured port, and the
    # rail would silently be slow or split
    mapped = {(node, interface) for switch in switches for node, interface, _ in cables(switch)}
    for path, node, pf in parts.pfs():
        if switches and node.state == "active" and (node.name, pf.interface) not in mapped:
            yield Fault(
                (*path, "interface"),
                f"{pf.interface} is on no switch port; add it to switches[].ports.{node.name} "
                "(with apply: false rocelab does not touch the switch)",
            )


def refuse_a_broken_mtu_chain(parts: Parts, switches: Switches) -> Iterator[Fault]:
    largest = max((rail.mtu_bytes for rail in parts.rails.values()), default=0)
    for i, switch in enumerate(switches):
        if switch.mtu_bytes < largest + HEADER_BYTES:
            yield Fault(
                ("switches", i, "mtu_bytes"),
                f"{switch.mtu_bytes} for rails of {largest}: frames are up to {HEADER_BYTES} bytes "
                f"longer and would be dropped; set at least {largest + HEADER_BYTES}, or lower "
                "the rails' mtu_bytes",
            )


def _rails_in_vlans(parts: Parts, switches: Switches) -> set[tuple[str, str]]:
    """Switch and rail, where ports of the switch carry the rail in a VLAN; routed ports are in
    none.
    """
    pfs = {(node.name, pf.interface): pf for _, node, pf in parts.pfs()}
    rails = set()
    for switch in switches:
        for node, interface, _ in cables(switch):
            pf = pfs.get((node, interface))
            if pf is not None and not pf.point_to_point:
                rails.add((switch.name, pf.rail))
    return rails


def refuse_native_vlans_that_meet_a_pods(parts: Parts, switches: Switches) -> Iterator[Fault]:
    rails = parts.rails_by_name
    pods = {pod.vlan_id: rail.name for _, rail, pod in parts.pod_rails() if pod.vlan_id is not None}
    vlans = _rails_in_vlans(parts, switches)
    for i, switch in enumerate(switches):
        for name in switch.native_vlans if parts.all_rails_valid else ():
            if name not in rails:
                yield Fault(
                    ("switches", i, "native_vlans", name),
                    f"this lab has no rail {name}; rails: {', '.join(rails)}",
                )
        for name in (
            name for name in rails if (switch.name, name) in vlans or name in switch.native_vlans
        ):
            vlan = switch.native_vlan(name)
            if vlan == DEFAULT_VLAN and not switch.HAS_DEFAULT_VLAN:
                yield Fault(
                    ("switches", i, "native_vlans"),
                    f"{name} has no entry, but {switch.os} has no VLAN {DEFAULT_VLAN} for its "
                    "untagged frames; add one",
                )
            if vlan in pods:
                yield Fault(
                    ("switches", i, "native_vlans"),
                    f"untagged frames of {name} would be in VLAN {vlan}, which pods of "
                    f"{pods[vlan]} use tagged; give the hosts their own VLAN",
                )


def refuse_what_cannot_be_applied(parts: Parts, switches: Switches) -> Iterator[Fault]:
    qos = parts.section("qos", Qos)
    lab = parts.sections.get("name")
    for i, switch in enumerate(switches):
        loopback = switch.address.is_loopback
        if parts.kind == "virtual" and switch.apply and not (loopback and switch.SIMULATED):
            yield Fault(
                ("switches", i, "apply"),
                f"{switch.os} at {switch.address}: a virtual lab configures only the simulator's "
                "switch on loopback; set apply: false, or kind: hardware",
            )
        if parts.kind == "hardware" and loopback:
            yield Fault(
                ("switches", i, "address"),
                f"{switch.address} is loopback, where only the simulator is; set kind: virtual",
            )
        if (
            switch.apply
            and qos
            and qos.mode == "lossless"
            and not switch.allow_global
            and switch.LOSSLESS_IS_GLOBAL
        ):
            yield Fault(
                ("switches", i, "allow_global"),
                f"false, but {switch.os} pauses only priorities that are lossless switch-wide; set "
                "it to true, use qos.mode: lossy, or apply: false",
            )
        for rail in parts.rails.values():
            if isinstance(lab, str) and len(marker := marker_of(lab, rail.name)) > LONGEST_MARKER:
                yield Fault(
                    ("switches", i),
                    f"ports would be marked {marker}, {len(marker)} characters of "
                    f"{LONGEST_MARKER}; shorten a name",
                )

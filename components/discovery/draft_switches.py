"""Switches of a draft: those through which every rail port runs, never applied."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Interface

from pydantic import TypeAdapter, ValidationError

from components.discovery.draft_nodes import NAME
from components.discovery.infer_rails import RailOfPorts
from components.discovery.questions import DraftPlan, Entry
from components.discovery.rail_networks import LINK_PREFIX
from components.inventory.cables import LeafPort
from components.inventory.model import Inventory, Switch, SwitchPort
from components.inventory.reading import majority
from stacks.base import LabError, members
from stacks.switches import DEFAULT_VLAN, HEADER_BYTES, port_type
from stacks.switches import Switch as SwitchModel

PORTS = {os: TypeAdapter[str](port_type(model)) for os, model in members(SwitchModel, "os").items()}
"""What a port is called, by switch OS."""
DEFAULT_MTU_BYTES = 9216
Cables = Mapping[str, Mapping[tuple[str, str], LeafPort]]
"""By switch, the other end of each PF, which is named by node and rail."""


def switches_of(inventory: Inventory, rails: Sequence[RailOfPorts], plan: DraftPlan) -> list[Entry]:
    """The switches of a flat draft; none, with a notice, when one PF's cable or VLAN is unknown."""
    if not inventory.switches:
        return []
    try:
        cables = _cables(rails, plan)
        return [_entry(switch, cables[switch.name], plan) for switch in _used(inventory, cables)]
    except LabError as error:
        text = f"switches are left out: {error}"
        plan.notice("no-switches", text)
        return []


def _cables(rails: Sequence[RailOfPorts], plan: DraftPlan) -> Cables:
    ports = {rail.name: rail.ports for rail in rails}
    hosts = {node: host for host, node in plan.names.items()}
    cables: dict[str, dict[tuple[str, str], LeafPort]] = defaultdict(dict)
    for node in plan.nodes:
        for pf in node["pfs"]:
            leaf = ports[pf["rail"]][hosts[node["name"]]].leaf
            if leaf is not None and leaf.port:
                cables[leaf.name][node["name"], pf["rail"]] = leaf
            elif "state" not in node:
                raise LabError(f"the switch port of {node['name']} {pf['interface']} is unknown")
    return cables


def _used(inventory: Inventory, cables: Cables) -> Iterator[Switch]:
    known = {}
    for switch in inventory.switches:
        if not switch.unread:
            known[switch.name] = switch
    for name in sorted(cables, key=_as_counted):
        if name not in known:
            raise LabError(f"{name} was not read; give it to rocelab look with --switch")
        os = known[name].os
        if os not in PORTS or not NAME.fullmatch(name):
            raise LabError(f"{name}: a lab file cannot contain its name or its system {os}")
        yield known[name]


def _as_counted(name: str) -> tuple[int, str]:
    return len(name), name


def _entry(switch: Switch, cables: Mapping[tuple[str, str], LeafPort], plan: DraftPlan) -> Entry:
    ports = {port.name: port for port in switch.ports.or_else(())}
    entries: dict[str, dict[str, str]] = {}
    on_rails: dict[str, list[SwitchPort]] = defaultdict(list)
    for node in plan.nodes:
        for pf in node["pfs"]:
            leaf = cables.get((node["name"], pf["rail"]))
            if leaf is None:
                continue
            entries.setdefault(node["name"], {})[pf["interface"]] = _checked(switch, leaf.port)
            if leaf.port not in ports:
                why = f"which {node['name']} received by LLDP"
                raise LabError(f"{switch.name} has no port {leaf.port}, {why}")
            if IPv4Interface(pf["address"]).network.prefixlen < LINK_PREFIX:
                on_rails[pf["rail"]].append(ports[leaf.port])
    entry: Entry = {"name": switch.name, "os": switch.os, "address": switch.address}
    if switch.ssh_port != 22:
        entry["ssh_port"] = switch.ssh_port
    if vlans := _native_vlans(switch, on_rails):
        entry["native_vlans"] = vlans
    return {**entry, **_mtu(list(ports.values()), plan), "ports": entries}


def _checked(switch: Switch, port: str) -> str:
    try:
        return PORTS[switch.os].validate_python(port)
    except ValidationError:
        raise LabError(f"{switch.name}: {port!r} is not a port name of {switch.os}") from None


def _native_vlans(switch: Switch, on_rails: Mapping[str, list[SwitchPort]]) -> dict[str, int]:
    """By rail the VLAN of the hosts' untagged frames."""
    vlans: dict[str, int] = {}
    for rail, ports in on_rails.items():
        vlan = Counter(port.native_vlan.value for port in ports).most_common(1)[0][0]
        if not vlan:
            raise LabError(f"{switch.name}: the VLAN of untagged frames on {rail} is unknown")
        if vlan != DEFAULT_VLAN:
            vlans[rail] = vlan
    return vlans


def _mtu(ports: Sequence[SwitchPort], plan: DraftPlan) -> Entry:
    """The MTU of the ports, where it is what the rails need; else the system's default."""
    mtu = majority(port.mtu_bytes for port in ports)
    largest = max(rail["mtu_bytes"] for rail in plan.rails)
    if mtu and largest + HEADER_BYTES <= mtu < DEFAULT_MTU_BYTES:
        return {"mtu_bytes": mtu}
    return {}

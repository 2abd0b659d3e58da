"""Switches of a draft: those through which every rail port runs, never applied."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pydantic import TypeAdapter, ValidationError

from components.discovery.networks import LINK_PREFIX
from components.discovery.nodes import NAME
from components.discovery.plan import DraftPlan, Entry
from components.discovery.questions import Notice
from components.discovery.rails import RailOfPorts
from components.inventory.cables import LeafPort
from components.inventory.model import Inventory, Switch, SwitchPort
from components.inventory.reading import majority
from stacks.base import LabError, members
from stacks.switches import DEFAULT_VLAN, HEADER_BYTES, port_type
from stacks.switches import Switch as SwitchModel

PORTS = {os: TypeAdapter[str](port_type(model)) for os, model in members(SwitchModel, "os").items()}
"""What a port is called, by switch OS."""
Cables = Mapping[str, Mapping[tuple[str, str], LeafPort]]
"""By switch, the other end of each PF, which is named by node and rail."""


def switches_of(inventory: Inventory, rails: Sequence[RailOfPorts], plan: DraftPlan) -> list[Entry]:
    """The switches of a flat draft; none, with a notice, when one PF's cable or VLAN is unknown."""
    if not inventory.switches:
        return []
    try:
        cables = _cables(rails, plan)
        return _with_vlans_of_all([_entry(switch, cables[switch.name], plan) for switch in _used(inventory, cables)])
    except LabError as error:
        plan.notices.append(Notice(code="no-switches", nodes=(), text=f"switches are left out: {error}"))
        return []


def _cables(rails: Sequence[RailOfPorts], plan: DraftPlan) -> Cables:
    leaves = {
        (plan.names[host], rail.name): port.leaf
        for rail in rails
        for host, port in rail.ports.items()
        if host in plan.names
    }
    found: dict[str, dict[tuple[str, str], LeafPort]] = defaultdict(dict)
    for node in plan.nodes:
        for pf in node["pfs"]:
            leaf = leaves.get((node["name"], pf["rail"]))
            if leaf is not None and leaf.port:
                found[leaf.name][node["name"], pf["rail"]] = leaf
            elif "state" not in node:
                raise LabError(f"the switch port of {node['name']} {pf['interface']} is unknown")
    return found


def _used(inventory: Inventory, cables: Cables) -> Iterator[Switch]:
    known = {switch.name: switch for switch in inventory.switches if not switch.unread}
    for name in sorted(cables, key=lambda each: (len(each), each)):
        if name not in known:
            raise LabError(f"{name} was not read; give it to rocelab look with --switch")
        if known[name].os not in PORTS or not NAME.fullmatch(name):
            raise LabError(f"{name}: a lab file cannot contain its name or its system {known[name].os}")
        yield known[name]


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
            if leaf.port in ports and not pf["address"].endswith(
                tuple(f"/{length}" for length in range(LINK_PREFIX, 33))
            ):
                on_rails[pf["rail"]].append(ports[leaf.port])
            elif leaf.port not in ports:
                raise LabError(f"{switch.name} has no port {leaf.port}, which {node['name']} received by LLDP")
    return {
        "name": switch.name,
        "os": switch.os,
        "address": switch.address,
        **({"ssh_port": switch.ssh_port} if switch.ssh_port != 22 else {}),
        "native_vlans": _native_vlans(switch, on_rails),
        **_mtu(list(ports.values()), plan),
        "ports": entries,
    }


def _checked(switch: Switch, port: str) -> str:
    try:
        return PORTS[switch.os].validate_python(port)
    except ValidationError:
        raise LabError(f"{switch.name}: {port!r} is not a port name of {switch.os}") from None


def _native_vlans(switch: Switch, on_rails: Mapping[str, list[SwitchPort]]) -> dict[str, int]:
    """By rail the VLAN of the hosts' untagged frames."""
    found: dict[str, int] = {}
    for rail, ports in on_rails.items():
        vlan = Counter(port.native_vlan.value for port in ports).most_common(1)[0][0]
        if not vlan:
            raise LabError(f"{switch.name}: the VLAN of untagged frames on {rail} is unknown")
        if vlan != DEFAULT_VLAN:
            found[rail] = vlan
    return found


def _with_vlans_of_all(switches: list[Entry]) -> list[Entry]:
    """The same, where a rail has one VLAN everywhere: then every switch names those of all rails, as a group does."""
    found: dict[str, set[int]] = defaultdict(set)
    for switch in switches:
        for rail, vlan in switch["native_vlans"].items():
            found[rail].add(vlan)
    one = all(len(vlans) == 1 for vlans in found.values())
    same = {rail: min(found[rail]) for rail in sorted(found, key=lambda each: (len(each), each))}
    for switch in switches:
        if not (vlans := same if one else switch["native_vlans"]):
            del switch["native_vlans"]
        else:
            switch["native_vlans"] = dict(vlans)
    return switches


def _mtu(ports: Sequence[SwitchPort], plan: DraftPlan) -> Entry:
    """The MTU of the ports, where it is what the rails need; else the system's default."""
    mtu, largest = majority(port.mtu_bytes for port in ports), max(rail["mtu_bytes"] for rail in plan.rails)
    return {"mtu_bytes": mtu} if mtu and mtu != 9216 and largest + HEADER_BYTES <= mtu < 9216 else {}

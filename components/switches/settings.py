"""Settings of a switch port on any system, as the lab declares or as the switch has them. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field, TypeAdapter

from stacks.base import Section
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.rails import Rail
from stacks.switches import MARKER, Switch, cables, marker_of


class Ecn(Section):
    """Marking of a queue: from `min_kbytes` on, and every packet from `max_kbytes` on (1 KB = 1000
    bytes here).
    """

    min_kbytes: int
    max_kbytes: int


KEYED = {"dscp_": "dscp_priority", "ecn_tc": "ecn", "pfc_": "pfc", "scheduling_tc": "scheduling"}
"""Fields of a port that have a value per code point, class or priority, by the prefix of each
value's own name."""


WATCHDOG = "pfc_watchdog"
"""The watchdog's name among the fields of a port."""


class PortSettings(Section):
    """Settings of a port; what is None or missing is left as it is."""

    description: str
    mode: str | None = None
    """`access`: untagged frames only. `trunk`: tagged ones too; Onyx calls that hybrid, and its own
    trunk has no untagged ones. Any other word is a port that is no member of VLANs, such as
    `routed`. None: left as it is."""
    native_vlan: int | None = None
    """VLAN of untagged frames."""
    tagged_vlans: str
    """VLANs that pass with their tag, as `111,200-210`: text, since a port may carry thousands."""
    mtu_bytes: int
    trust: str | None = None
    """What decides the priority of a packet: `dscp`, `pcp`, `both` or `none`."""
    dscp_priority: Mapping[int, int] = Field(default_factory=dict)
    """Priority of a code point."""
    ecn: Mapping[int, Ecn | None] = Field(default_factory=dict)
    """By traffic class; None: the queue is not marked."""
    pfc: Mapping[int, bool] = Field(default_factory=dict)
    """By priority: whether the port sends and obeys pause frames of it."""
    watchdog: bool | None = None
    """Whether the port ends a storm of pause frames (PFC watchdog). None: left as it is."""
    scheduling: Mapping[int, str] = Field(default_factory=dict)
    """By traffic class: `strict`, or `wrr <weight>`."""
    profiles: Mapping[str, str] = Field(default_factory=dict)
    """On systems with named profiles, those that the port refers to, by their kind; empty for
    none. Only read from switches: a restored port refers to them again, and rocelab does not
    change them."""

    @property
    def owner(self) -> str | None:
        """The lab that owns the port; None when no lab does."""
        if self.description.startswith(MARKER):
            return self.description.split(":")[1]
        return None

    def fields(self) -> dict[str, str | int]:
        """Every field under its own name, as in previews and errors; fields that are left as they
        are have none.
        """
        tagged = ""
        if self.tagged_vlans:
            tagged = f", tagged {self.tagged_vlans}"
        flat: dict[str, str | int] = {"description": self.description}
        if self.mode is not None:
            flat["vlans"] = f"{self.mode}, untagged {self.native_vlan or 'none'}{tagged}"
        flat["mtu_bytes"] = self.mtu_bytes
        if self.trust is not None:
            flat["trust"] = self.trust
        if self.watchdog is not None:
            flat[WATCHDOG] = _shown(self.watchdog)
        for prefix, name in KEYED.items():
            for key, value in getattr(self, name).items():
                flat[f"{prefix}{key}"] = _shown(value)
        return flat

    def narrowed(self, fields: frozenset[str]) -> "PortSettings":
        """The same settings with only these optional fields."""
        keyed = {}
        for prefix, name in KEYED.items():
            values = getattr(self, name)
            keyed[name] = {key: values[key] for key in values if f"{prefix}{key}" in fields}
        trust = self.trust if "trust" in fields else None
        watchdog = self.watchdog if WATCHDOG in fields else None
        return self.model_copy(update={"trust": trust, "watchdog": watchdog, **keyed})


def _shown(value: Ecn | bool | int | str | None) -> str | int:
    if isinstance(value, Ecn):
        return f"{value.min_kbytes}-{value.max_kbytes} KB"
    if value is None or isinstance(value, bool):
        return "on" if value else "off"
    return value


def ports_text(ports: Mapping[str, PortSettings]) -> str:
    """Settings by port as one JSON text, always the same for the same settings."""
    plain = {}
    for port, settings in ports.items():
        plain[port] = settings.model_dump(mode="json", exclude_defaults=True)
    return json.dumps(plain, sort_keys=True)


def ports_in(text: str) -> dict[str, PortSettings]:
    """The settings by port in such a text.

    Raises:
        ValueError: when it is another text.
    """
    return TypeAdapter(dict[str, PortSettings]).validate_json(text)


@frozen
class Cable:
    """A mapped port: the PF at its other end, and its settings in the lab."""

    port: str
    node: str
    interface: str
    rail: Rail
    settings: PortSettings


@frozen
class Announcement:
    """What one neighbor announces by LLDP; empty where it announces nothing."""

    system: str = ""
    """Name that it gives itself."""
    chassis_id: str = ""
    port_id: str = ""
    """Interface name or MAC, whatever it announces."""
    port_description: str = ""

    @property
    def port_names(self) -> frozenset[str]:
        """Every name by which the neighbor calls its port."""
        return frozenset({self.port_id, self.port_description} - {""})


@frozen
class LearnedMac:
    """One line of a switch's MAC table."""

    mac: str
    port: str
    vlan_id: int = 0


@dataclass(frozen=True, slots=True)
class PortFacts:
    """What a switch reports about a port."""

    settings: PortSettings
    faults: tuple[str, ...] = ()
    """Why it cannot get the lab's settings, each with its remedy."""
    neighbour: Announcement | None = None
    """None: the other end does not speak LLDP, or the switch refuses the question."""
    lldp_refusal: str = ""
    """How the switch refused to list its neighbors; empty: it did list them."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs from the lab."""

    field: str
    expected: str | int
    actual: str | int | None

    def __str__(self) -> str:
        return (
            f"{self.field}: expected {self.expected}, found "
            f"{'nothing' if self.actual is None else self.actual}"
        )


def cables_of(lab: Lab, switch: Switch) -> tuple[Cable, ...]:
    """The mapped ports of a switch, in the order of the file; those of nodes that left the lab are
    not among them.
    """
    pfs = {}
    for node in lab.nodes:
        if node.state != "absent":
            pfs.update({(node.name, pf.interface): pf for pf in node.pfs})
    mapped = []
    for name, interface, port in cables(switch):
        pf = pfs.get((name, interface))
        if pf is None:
            continue
        rail = lab.rail(pf.rail)
        settings = declared_settings(lab, switch, rail, routed=pf.point_to_point)
        cable = Cable(port=port, node=name, interface=interface, rail=rail, settings=settings)
        mapped.append(cable)
    return tuple(mapped)


def declared_settings(
    lab: Lab, switch: Switch, rail: Rail, *, routed: bool = False
) -> PortSettings:
    """A rail's settings of a port: hosts untagged, pods tagged, and quality of service if the lab
    has it.

    A routed port has an address of its own and is in no VLAN. Its address and routes are left as
    they are.
    """
    tagged = ""
    if rail.pod and rail.pod.vlan_id is not None and not routed:
        tagged = str(rail.pod.vlan_id)
    mode = None if routed else "trunk" if tagged else "access"
    native_vlan = None if routed else switch.native_vlan(rail.name)
    plain = PortSettings(
        description=marker_of(lab.name, rail.name),
        mode=mode,
        native_vlan=native_vlan,
        tagged_vlans=tagged,
        mtu_bytes=switch.mtu_bytes,
    )
    qos = lab.qos
    if qos is None:
        return plain
    return plain.model_copy(
        update={
            "trust": "dscp",
            "dscp_priority": {qos.dscp: qos.priority, qos.cnp_dscp: qos.cnp_priority},
            "ecn": {
                qos.priority: Ecn(min_kbytes=qos.ecn_min_kbytes, max_kbytes=qos.ecn_max_kbytes)
            },
            "pfc": {qos.priority: qos.mode == "lossless"},
            "watchdog": switch.PORT_WATCHDOG.get(qos.mode),
            "scheduling": {qos.cnp_priority: "strict"},
        }
    )


def differences(declared: PortSettings, actual: PortSettings) -> Iterator[Difference]:
    """The fields that differ from the lab."""
    there = actual.fields()
    for field, expected in declared.fields().items():
        if there.get(field) != expected:
            yield Difference(field, expected, there.get(field))


def completed(before: PortSettings | None, actual: PortSettings) -> PortSettings:
    """The settings before rocelab: as recorded at the first change, and as found for fields that
    are new.
    """
    if before is None:
        return actual
    by_name = {}
    for name in (*KEYED.values(), "profiles"):
        by_name[name] = {**getattr(actual, name), **getattr(before, name)}
    return before.model_copy(
        update={
            "trust": actual.trust if before.trust is None else before.trust,
            "watchdog": actual.watchdog if before.watchdog is None else before.watchdog,
            **by_name,
        }
    )


def wrong_cable(
    cable: Cable, neighbour: Announcement | None, lab_interfaces: Mapping[str, frozenset[str]]
) -> str | None:
    """How LLDP contradicts the map; None when it agrees, or has nothing to compare.

    Args:
        cable: as the map has it.
        neighbour: as the switch heard it.
        lab_interfaces: by node of the lab, its PFs.
    """
    if neighbour is None:
        return None
    system = neighbour.system.split(".")[0]
    announced = sorted(neighbour.port_names & lab_interfaces.get(system, frozenset()))
    # an unknown name may be a node's own host name; the name of another node means a wrong cable
    if (system in lab_interfaces and system != cable.node) or (
        announced and cable.interface not in announced
    ):
        mapped, reported = f"{cable.node} {cable.interface}", " ".join([system, *announced])
        return f"{cable.port}: switches[].ports has {mapped}, but LLDP reports {reported}"
    return None

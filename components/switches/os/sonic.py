"""SONiC: its commands, and one answer for all questions: the configuration database as JSON."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from pydantic import JsonValue

from components.switches.dialect import (
    LLDPCTL,
    ConfigSession,
    Dialect,
    Object,
    json_in,
    lldpctl_announcements,
    normal_ranges,
    number_of,
    numbered,
    numbers_in,
    object_at,
    thresholds,
    unmentioned,
)
from components.switches.settings import Announcement, Ecn, LearnedMac, PortFacts, PortSettings
from stacks.qos import Qos

DATABASE = "sonic-cfggen -d --print-data"
DEFAULT_MTU_BYTES = 9100


class Sonic(Dialect):
    title = "SONiC"
    port_list = DATABASE
    lldp_table = LLDPCTL
    mac_table = "show mac"

    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        """SONiC has no commit: rocelab reverts by sending the old values."""
        del lab, confirm_s
        return ConfigSession(
            talk="shell",
            save=("sudo config save -y",),
            notes=("SONiC has no automatic revert; the earlier configuration is in the backup.",),
        )

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        """SONiC refuses to create a VLAN that exists."""
        lines = []
        for vlan in vlans:
            exists = f"sonic-db-cli CONFIG_DB exists 'VLAN|Vlan{vlan}' | grep -q 1"
            lines.append(f"{exists} || sudo config vlan add {vlan}")
        return lines

    def port_lines(
        self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]
    ) -> list[str]:
        lines: list[str] = []
        if "description" in fields:
            lines.append(_set(f"PORT|{port}", description=settings.description))
        if "vlans" in fields:
            lines += _membership(port, settings)
        if "mtu_bytes" in fields:
            lines.append(f"sudo config interface mtu {port} {settings.mtu_bytes}")
        return lines + self._quality_lines(lab, port, settings, settings.narrowed(fields))

    def _quality_lines(
        self, lab: str, port: str, settings: PortSettings, rest: PortSettings
    ) -> list[str]:
        """Profiles, PFC and watchdog of a port; `rest` has only the fields that change."""
        lines = []
        if rest.trust or rest.dscp_priority:
            lines.append(
                _refer(
                    f"PORT_QOS_MAP|{port}",
                    "dscp_to_tc_map",
                    _name(lab, settings, "dscp_to_tc_map"),
                )
            )
        for tc in rest.ecn:
            lines.append(
                _refer(f"QUEUE|{port}|{tc}", "wred_profile", _name(lab, settings, "wred_profile"))
            )
        for priority, on in rest.pfc.items():
            state = "on" if on else "off"
            lines.append(f"sudo config interface pfc priority {port} {priority} {state}")
        if rest.watchdog:  # after PFC: pfcwd skips a port that does not pause
            lines.append(f"sudo config pfcwd start --action drop {port} 400 --restoration-time 400")
        elif rest.watchdog is not None:
            lines.append(f"sonic-db-cli CONFIG_DB del 'PFC_WD|{port}'")
        for tc in rest.scheduling:
            lines.append(
                _refer(f"QUEUE|{port}|{tc}", "scheduler", _name(lab, settings, "scheduler"))
            )
        return lines

    def shared_lines(self, lab: str, settings: Sequence[PortSettings]) -> list[str]:
        """The lab's own marking profile, map of code points and scheduler."""
        lossless = [port for port in settings if port.ecn]
        if not lossless:
            return []
        first = lossless[0]
        name = f"rocelab_{lab}"
        # a map is complete: other code points get their class selectors
        points = {}
        for point in range(64):
            points[str(point)] = str(first.dscp_priority.get(point, point >> 3))
        lines = [_set(f"DSCP_TO_TC_MAP|{name}", **points)]
        for ecn in first.ecn.values():
            if ecn:
                lines.append(_set(f"WRED_PROFILE|{name}", **_profile(ecn)))
        return [*lines, _set(f"SCHEDULER|{name}", type="STRICT")]

    def global_lines(self, qos: Qos) -> list[str]:
        """None: SONiC's own template has the maps and buffers of the whole switch."""
        del qos
        return []

    def requirements(self, qos: Qos | None) -> list[str]:
        if qos is None or qos.mode == "lossy":
            return []
        return [
            "Each port pauses and still drops unless the switch's own QoS template has given it:",
            *(f"- {need}" for need in _needs(qos.priority).values()),
        ]

    def questions(self, ports: Sequence[str]) -> list[str]:
        del ports
        return [DATABASE]

    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        database = object_at(json_in(answers, DATABASE))
        about = object_at(database, "PORT", port)
        if not about:
            raise unmentioned(f"{DATABASE}: PORT", port)
        tagged, untagged = _members(database, port)
        quality = object_at(database, "PORT_QOS_MAP", port)
        profiles = {"dscp_to_tc_map": _reference(quality.get("dscp_to_tc_map"))}
        for tc in declared.ecn:
            profiles["wred_profile"] = _reference(
                object_at(database, "QUEUE", f"{port}|{tc}").get("wred_profile")
            )
        for tc in declared.scheduling:
            profiles["scheduler"] = _reference(
                object_at(database, "QUEUE", f"{port}|{tc}").get("scheduler")
            )
        marking = _marking(database, port)
        points = object_at(database, "DSCP_TO_TC_MAP", profiles["dscp_to_tc_map"])
        paused = numbers_in(str(quality.get("pfc_enable", "")))
        strict = (
            object_at(database, "SCHEDULER", profiles.get("scheduler", "")).get("type") == "STRICT"
        )
        schedule = "strict" if strict else "wrr 0"
        trust = "dscp" if points else "pcp"
        watchdog = None if declared.watchdog is None else bool(object_at(database, "PFC_WD", port))
        settings = PortSettings(
            description=str(about.get("description", "")),
            mode=_mode(about, tagged, untagged),
            native_vlan=untagged,
            tagged_vlans=normal_ranges(tagged),
            mtu_bytes=number_of(
                about.get("mtu", DEFAULT_MTU_BYTES), f"{DATABASE}: PORT|{port} mtu"
            ),
            trust=trust,
            dscp_priority={point: _priority(points, point) for point in declared.dscp_priority},
            ecn={tc: marking.get(tc) for tc in declared.ecn},
            pfc={priority: priority in paused for priority in declared.pfc},
            scheduling=dict.fromkeys(declared.scheduling, schedule),
            watchdog=watchdog,
            profiles=profiles,
        )
        missing: list[str] = []
        for priority, on in declared.pfc.items():
            if on:
                needs = _needs(priority)
                for name in _lacks(database, port, priority):
                    missing.append(needs[name])
        if not missing:
            return PortFacts(settings)
        fault = (
            f"would pause and still drop, for lack of: {'; '.join(missing)}. Let the switch's own "
            "QoS template set these, as they depend on its platform and cables, or set qos.mode: "
            "lossy"
        )
        return PortFacts(settings, (fault,))

    def backup(self) -> str:
        return DATABASE

    def checks(self, ports: Sequence[str]) -> list[str]:
        return [
            "show lldp table",
            "show vlan brief",
            "ecnconfig -l",
            *(f"sonic-db-cli CONFIG_DB hgetall 'PORT_QOS_MAP|{port}'" for port in ports),
            "sonic-db-cli CONFIG_DB keys 'BUFFER_PG|*'",
            "show pfc counters",
            "show pfcwd config",
            "show priority-group drop counters",
            *(f"show queue wredcounters {port}" for port in ports),
        ]

    def listed_ports(self, answer: str) -> list[str]:
        return numbered(r"Ethernet\d+", json.loads(answer)["PORT"])

    def chassis_id(self, answer: str) -> str:
        with suppress(ValueError, KeyError, TypeError):
            return str(json.loads(answer)["DEVICE_METADATA"]["localhost"]["mac"]).lower()
        return ""

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        return lldpctl_announcements(answer, port)

    def learned_macs(self, answer: str) -> list[LearnedMac]:
        """Lines such as `1  111  02:00:00:00:00:01  Ethernet0  Dynamic`."""
        lines = re.findall(r"^\s*\d+\s+(\d+)\s+([0-9A-Fa-f:]{17})\s+(\S+)", answer, re.MULTILINE)
        return [
            LearnedMac(mac=mac.lower(), port=port, vlan_id=int(vlan)) for vlan, mac, port in lines
        ]

    def speed_mbit_s(self, port: str, answers: Mapping[str, str]) -> int | None:
        with suppress(ValueError, KeyError, TypeError):
            return int(json.loads(answers[DATABASE])["PORT"][port]["speed"])
        return None


def _set(key: str, **values: str) -> str:
    words = " ".join(f"{name} {shlex.quote(value)}" for name, value in values.items())
    return f"sonic-db-cli CONFIG_DB hmset {shlex.quote(key)} {words}"


def _profile(ecn: Ecn) -> dict[str, str]:
    return {
        "ecn": "ecn_green",
        "wred_green_enable": "true",
        "green_min_threshold": str(ecn.min_kbytes * 1000),
        "green_max_threshold": str(ecn.max_kbytes * 1000),
        "green_drop_probability": "100",
    }


def _refer(key: str, field: str, name: str) -> str:
    if name:
        return _set(key, **{field: name})
    return f"sonic-db-cli CONFIG_DB hdel {shlex.quote(key)} {field}"


def _name(lab: str, settings: PortSettings, field: str) -> str:
    return settings.profiles.get(field, f"rocelab_{lab}")


def _membership(port: str, settings: PortSettings) -> list[str]:
    """The port first leaves its VLANs, because SONiC refuses a second untagged one."""
    leave = (
        f"for vlan in $(sonic-db-cli CONFIG_DB keys 'VLAN_MEMBER|*|{port}' | cut -d'|' -f2 | sed "
        "s/Vlan//); "
        f'do sudo config vlan member del "$vlan" {port}; done'
    )
    # releases without `config switchport` keep no mode, and take any member
    kept = f"$(sonic-db-cli CONFIG_DB hget 'PORT|{port}' mode)"
    change = f"sudo config switchport mode {settings.mode} {port}"
    change_mode = f"case \"{kept}\" in ''|None|{settings.mode}) ;; *) {change} ;; esac"
    lines = [leave, change_mode]
    if settings.native_vlan:
        lines.append(f"sudo config vlan member add -u {settings.native_vlan} {port}")
    return lines + [
        f"sudo config vlan member add {vlan} {port}" for vlan in numbers_in(settings.tagged_vlans)
    ]


def _mode(about: Object, tagged: list[int], untagged: int | None) -> str:
    """By the port's VLANs; without any, what releases with `config switchport` keep."""
    if tagged:
        return "trunk"
    if untagged:
        return "access"
    if about.get("mode") in ("access", "trunk"):
        return str(about["mode"])
    return "routed"


def _members(database: Object, port: str) -> tuple[list[int], int | None]:
    """VLANs of a port: the tagged ones, and the untagged one."""
    tagged: list[int] = []
    untagged: int | None = None
    for key, about in object_at(database, "VLAN_MEMBER").items():
        vlan, _, member = key.removeprefix("Vlan").partition("|")
        if member == port:
            if object_at(about).get("tagging_mode") == "untagged":
                untagged = int(vlan)
            else:
                tagged.append(int(vlan))
    return tagged, untagged


def _reference(value: JsonValue) -> str:
    """Releases before 202111 write a reference as `[TABLE|NAME]`."""
    return str(value or "").strip("[]").rpartition("|")[2]


def _needs(priority: int) -> dict[str, str]:
    """What a lossless port gets from SONiC's own template, by table or field.

    sonic-buildimage, qos_config.j2.

    Traffic class and queue have the number of the priority: ECN is set on that queue.
    """
    return {
        "tc_to_pg_map": f"tc_to_pg_map with a priority group for traffic class {priority}",
        "BUFFER_PG": f"BUFFER_PG with headroom for the priority group of traffic class {priority}",
        "pfc_to_pg_map": (
            "pfc_to_pg_map, where the port has one, with the same priority group for priority "
            f"{priority}"
        ),
        "tc_to_queue_map": f"tc_to_queue_map with queue {priority} for traffic class {priority}",
        "pfc_to_queue_map": f"pfc_to_queue_map with queue {priority} for priority {priority}",
        "pfcwd_sw_enable": (
            f"pfcwd_sw_enable with priority {priority}, where the release has this field"
        ),
    }


def _lacks(database: Object, port: str, priority: int) -> Iterator[str]:
    """The keys of `_needs` that this port lacks."""
    quality = object_at(database, "PORT_QOS_MAP", port)

    def mapped(field: str, table: str) -> str:
        return str(
            object_at(database, table, _reference(quality.get(field))).get(str(priority), "")
        )

    group = mapped("tc_to_pg_map", "TC_TO_PRIORITY_GROUP_MAP")
    if not group:
        yield "tc_to_pg_map"
    elif not _headroom(
        database, port, number_of(group, f"{DATABASE}: TC_TO_PRIORITY_GROUP_MAP {priority}")
    ):
        yield "BUFFER_PG"
    # only ASICs that want it have this map
    if (
        group
        and "pfc_to_pg_map" in quality
        and mapped("pfc_to_pg_map", "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP") != group
    ):
        yield "pfc_to_pg_map"
    for field, table in (
        ("tc_to_queue_map", "TC_TO_QUEUE_MAP"),
        ("pfc_to_queue_map", "MAP_PFC_PRIORITY_TO_QUEUE"),
    ):
        if mapped(field, table) != str(priority):
            yield field
    # releases before 202205 have no such field, and watch all priorities of pfc_enable
    maps_by_port = object_at(database, "PORT_QOS_MAP")
    knows = any("pfcwd_sw_enable" in object_at(maps) for maps in maps_by_port.values())
    if knows and priority not in numbers_in(str(quality.get("pfcwd_sw_enable", ""))):
        yield "pfcwd_sw_enable"


def _headroom(database: Object, port: str, group: int) -> bool:
    """Whether a priority group has headroom after a pause; NULL: SONiC computes the profile."""
    for key, about in object_at(database, "BUFFER_PG").items():
        name, _, groups = key.partition("|")
        profile = _reference(object_at(about).get("profile"))
        if name == port and group in numbers_in(groups):
            return profile == "NULL" or "xon" in object_at(database, "BUFFER_PROFILE", profile)
    return False


def _marking(database: Object, port: str) -> dict[int, Ecn | None]:
    """Thresholds by traffic class. A key names one, or several as `Ethernet0|3-4`."""
    marking: dict[int, Ecn | None] = {}
    queues = object_at(database, "QUEUE")
    for key in sorted(queues, key=len, reverse=True):  # that of one class last: it counts
        member, _, classes = key.rpartition("|")
        name = _reference(object_at(queues, key).get("wred_profile"))
        if member == port and name:
            ecn = _thresholds(object_at(database, "WRED_PROFILE", name))
            marking |= dict.fromkeys(numbers_in(classes), ecn)
    return marking


def _thresholds(profile: Object) -> Ecn | None:
    if profile.get("ecn") in (None, "ecn_none"):
        return None
    return thresholds(profile, "green_min_threshold", "green_max_threshold", DATABASE)


def _priority(points: Mapping[str, JsonValue], point: int) -> int:
    return number_of(points.get(str(point), 0), f"{DATABASE}: DSCP_TO_TC_MAP {point}")

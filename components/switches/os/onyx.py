"""Onyx: its commands as in the DeepOps RoCE guide, and its answers from `| json-print`."""

import json
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from components.switches.dialect import (
    ConfigSession,
    Dialect,
    Object,
    json_in,
    normal_ranges,
    number_of,
    numbered,
    numbers_in,
    ranges,
    unmentioned,
)
from components.switches.settings import Announcement, Ecn, PortFacts, PortSettings
from stacks.qos import Qos

TRUST = {"dscp": "L3", "pcp": "L2", "both": "both", "none": "port"}
MODES = {"trunk": "hybrid", "access": "access", "tagged-only": "trunk"}
"""Names in Onyx, whose trunk has no untagged frames."""
ALL_SWITCHPORTS = "show interfaces switchport | json-print"
ALL_PFC = "show dcb priority-flow-control | json-print"
ALL_LLDP = "show lldp interfaces ethernet remote | json-print"


class Onyx(Dialect):
    """NVIDIA Spectrum switches that run Onyx."""

    title = "Onyx"
    port_list = ALL_SWITCHPORTS
    lldp_table = ALL_LLDP
    knows_paused_priorities = False

    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        """Onyx has no commit: each line is active at once, and rocelab reverts by sending the old
        values.
        """
        del lab, confirm_s
        return ConfigSession(
            talk="cli",
            hello=("enable", "no cli session paging enable"),
            begin=("configure terminal",),
            end=("exit",),
            cancel=("exit",),
            save=("configuration write",),
            notes=("An MTU with force takes the link down for a moment.",),
        )

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        return [line for vlan in vlans for line in (f"vlan {vlan}", "exit")]

    def port_lines(
        self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]
    ) -> list[str]:
        del lab
        at = f"interface ethernet {port}"
        lines: list[str] = []
        if "description" in fields:
            text = settings.description
            if text:
                line = f"{at} description {text}"
            else:
                line = f"{at} no description"
            lines.append(line)
        if "vlans" in fields:
            lines += _membership(at, settings)
        if "mtu_bytes" in fields:
            lines.append(f"{at} mtu {settings.mtu_bytes} force")
        rest = settings.narrowed(fields)
        if rest.trust:
            lines.append(f"{at} qos trust {TRUST[rest.trust]}")
        for point, to in rest.dscp_priority.items():
            lines.append(f"{at} qos map dscp {point} to switch-priority {to}")
        lines += [_marking(at, tc, ecn) for tc, ecn in rest.ecn.items()]
        lines += [f"{at} {_pausing(on)}" for on in rest.pfc.values()]
        lines += [f"{at} traffic-class {tc} dcb ets {how}" for tc, how in rest.scheduling.items()]
        return lines

    def usual(self, settings: PortSettings) -> frozenset[str]:
        """By default, a code point's upper three bits are its priority: 26 has priority 3, and 48
        has 6.
        """
        return frozenset(
            f"dscp_{point}" for point, to in settings.dscp_priority.items() if point >> 3 == to
        )

    def global_lines(self, qos: Qos) -> list[str]:
        """LLDP; and for lossless traffic PFC itself, and a buffer of its own."""
        if qos.mode == "lossy":
            return ["lldp"]
        return [
            "lldp",
            "dcb priority-flow-control enable force",
            f"dcb priority-flow-control priority {qos.priority} enable",
            "traffic pool roce type lossless",
            "traffic pool roce memory percent 50.00",
            f"traffic pool roce map switch-priority {qos.priority}",
        ]

    def requirements(self, qos: Qos | None) -> list[str]:
        if qos is None or qos.mode == "lossy":
            return []
        lines = [
            (
                "rocelab sets no PFC watchdog on Onyx: a stuck NIC can pause the whole fabric, so "
                "watch its pauses."
            )
        ]
        if not self.allow_global:
            lines.append(
                "Ports pause only after the switch-wide lines at the end, which also make the "
                "lossless pool."
            )
        return lines

    def questions(self, ports: Sequence[str]) -> list[str]:
        return [
            ALL_SWITCHPORTS,
            ALL_PFC,
            *(question for port in ports for question in _of_port(port).values()),
        ]

    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        key, commands = f"Eth{port}", _of_port(port)
        interface = _entry(answers, commands["interface"], key)
        member = _entry(answers, ALL_SWITCHPORTS, key, needed=False)
        trust, mapping = _quality(answers, commands["qos"], key)
        description = str(interface.get("Description", ""))
        mode = str(member.get("Mode"))
        if description in ("N\\A", "N/A"):
            description = ""
        settings = PortSettings(
            description=description,
            mode={theirs: ours for ours, theirs in MODES.items()}.get(mode, mode),
            native_vlan=next(iter(numbers_in(str(member.get("Access vlan", "")))), None),
            tagged_vlans=normal_ranges(numbers_in(str(member.get("Allowed vlans", "")))),
            mtu_bytes=number_of(interface.get("MTU"), f"{commands['interface']}: MTU"),
            trust=trust,
            dscp_priority={
                point: mapping[point] for point in declared.dscp_priority if point in mapping
            },
            ecn={tc: _thresholds(answers, commands["ecn"], tc) for tc in declared.ecn},
            pfc={priority: _paused(answers, key) for priority in declared.pfc},
            scheduling=_schedulers(answers, commands["ets"], key, declared.scheduling),
        )
        return PortFacts(settings)

    def backup(self) -> str:
        return "show running-config"

    def checks(self, ports: Sequence[str]) -> list[str]:
        """Tables instead of JSON, and the counters of an incast."""
        checks = ["show interfaces switchport", "show lldp interfaces ethernet remote"]
        for port in ports:
            shown = f"show interfaces ethernet {port}"
            checks += [shown, f"{shown} congestion-control", f"{shown} counters roce"]
        return checks

    def listed_ports(self, answer: str) -> list[str]:
        return numbered(
            r"\d+/\d+(/\d+)?", (name.removeprefix("Eth") for name in json.loads(answer))
        )

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        table = json.loads(answer)
        announcements: list[Announcement] = []
        for entry in table if isinstance(table, list) else [table]:
            for name, heard in entry.items():
                # a port in a bond is called `Eth1/1 (Po100)`
                if name.split(" ")[0] == f"Eth{port}":
                    announcements += [_announcement(row) for row in heard if isinstance(row, dict)]
        return [row for row in announcements if row != Announcement()]


def _of_port(port: str) -> dict[str, str]:
    return {
        "interface": f"show interfaces ethernet {port} | json-print",
        "ecn": f"show interfaces ethernet {port} congestion-control | json-print",
        "qos": f"show qos interface ethernet {port} | json-print",
        "ets": f"show dcb ets interface ethernet {port} | json-print",
    }


def _membership(at: str, settings: PortSettings) -> list[str]:
    mode = MODES.get(settings.mode or "", settings.mode)
    lines = [f"{at} switchport mode {mode}"]
    if settings.mode != "tagged-only" and settings.native_vlan:
        lines.append(f"{at} switchport access vlan {settings.native_vlan}")
    if settings.mode != "access":
        first, *others = ranges(settings.tagged_vlans) or ["none"]
        lines.append(f"{at} switchport {mode} allowed-vlan {first}")
        for other in others:
            lines.append(f"{at} switchport {mode} allowed-vlan add {other}")
    return lines


def _pausing(on: bool) -> str:
    # which priorities pause is a setting of the whole switch
    if on:
        return "dcb priority-flow-control mode on force"
    return "no dcb priority-flow-control mode force"


def _marking(at: str, tc: int, ecn: Ecn | None) -> str:
    if ecn is None:
        return f"{at} no traffic-class {tc} congestion-control"
    thresholds = f"minimum-absolute {ecn.min_kbytes} maximum-absolute {ecn.max_kbytes}"
    return f"{at} traffic-class {tc} congestion-control ecn {thresholds}"


def _entry(answers: Mapping[str, str], command: str, key: str, *, needed: bool = True) -> Object:
    """The object of a port: under the port's name, or in a list with the name as header."""
    entry = _find(json_in(answers, command), key)
    if entry is None and needed:
        raise unmentioned(command, key)
    return entry or {}


def _find(data: JsonValue, key: str) -> Object | None:
    if isinstance(data, list):
        merged: dict[str, JsonValue] | None = None
        for part in data:
            entry = _find(part, key)
            if entry is not None:
                merged = {**(merged or {}), **entry}
        return merged
    if isinstance(data, dict):
        # a port in a bond is called `Eth1/1 (Po100)`
        for name, value in data.items():
            if name.split(" ")[0] == key:
                return _merged(value)
        return data if data.get("header") == key else None
    return None


def _merged(value: JsonValue) -> Object:
    if isinstance(value, list):
        merged = {}
        for part in value:
            if isinstance(part, dict):
                for name, values in part.items():
                    merged[name] = values
        return merged
    return value if isinstance(value, dict) else {}


def _thresholds(answers: Mapping[str, str], command: str, tc: int) -> Ecn | None:
    queue = _find(json_in(answers, command), f"TC-{tc}") or {}
    if (
        str(queue.get("Mode")).upper() not in ("ECN", "BOTH")
        or queue.get("Threshold mode") != "absolute"
    ):
        return None
    names = ("Minimum threshold", "Maximum threshold")
    low, high = (number_of(queue.get(name), f"{command}: TC-{tc}: {name}") for name in names)
    return Ecn(min_kbytes=low, max_kbytes=high)


def _quality(
    answers: Mapping[str, str], command: str, key: str
) -> tuple[str | None, dict[int, int]]:
    """Trust, and the priority of each code point."""
    quality = _entry(answers, command, key, needed=False)
    mapping: dict[int, int] = {}
    table = _merged(quality.get("PCP(DEI); DSCP to switch-priority mapping"))
    for row in map(_merged, table.values()):
        for point in str(row.get("DSCP", "")).split():
            if point.isdigit():
                mapping[int(point)] = number_of(
                    row.get("switch-priority"), f"{command}: switch-priority"
                )
    theirs = str(quality.get("Trust mode", "")).lower()
    return next((ours for ours, name in TRUST.items() if name.lower() == theirs), None), mapping


def _paused(answers: Mapping[str, str], key: str) -> bool:
    """Whether PFC works on the port: enabled there, and not off for the whole switch."""
    state = _entry(answers, ALL_PFC, key, needed=False)
    return state.get("PFC admin") == "on" and state.get("PFC oper") == "Enabled"


def _schedulers(
    answers: Mapping[str, str], command: str, key: str, declared: Mapping[int, str]
) -> dict[int, str]:
    table = _merged(_entry(answers, command, key, needed=False).get("ETS per TC"))
    rows = {tc: _merged(table[str(tc)]) for tc in declared if str(tc) in table}
    schedulers = {}
    for tc, row in rows.items():
        schedulers[tc] = "strict" if row.get("S.Mode") == "Strict" else f"wrr {row.get('W', 0)}"
    return schedulers


def _announcement(heard: Mapping[str, str]) -> Announcement:
    def value(name: str) -> str:
        text = str(heard.get(f"Remote {name}", ""))
        return "" if text == "Not Advertised" else text

    system, chassis = value("system name"), value("chassis id")
    port, description = value("port-id"), value("port description")
    return Announcement(
        system=system, chassis_id=chassis.lower(), port_id=port, port_description=description
    )

"""Onyx's show commands: tables for people, and JSON with `| json-print`."""

import json
import re
from collections.abc import Callable

from simulator.switch.client import PortState
from simulator.switch.panel import DEFAULT_WEIGHT, TRAFFIC_CLASSES, Kept, Panel, Quality

Json = object
DEFAULT_VLAN = 1
FRAME_BYTES = 22
"""Header, tag and checksum, which Onyx adds to the MTU where it names the largest packet."""


def answer(panel: Panel, words: str) -> str:
    """The output of a show command; an error with a percent sign for an unknown one."""
    command, _, output_filter = words.partition(" | ")
    as_json = output_filter == "json-print"
    if output_filter and not as_json:
        return f'% Unrecognized command "{words}"'
    if command == "show running-config":
        return running_config(panel)
    for pattern, show in SHOWS:
        if found := re.fullmatch(pattern, command):
            number = found[1] if found.groups() else ""
            if number and number not in panel.ports():
                return f"% Invalid interface ethernet {number}"
            content = show(panel, number)
            return json.dumps(content, indent=4) if as_json else _table(content)
    return f'% Unrecognized command "{words}"'


def known_vlans(panel: Panel) -> set[int]:
    """The VLANs that were created, and those with member ports."""
    members = {vlan for port in panel.ports().values() for vlan in (port.config.native_vlan, *port.config.tagged_vlans)}
    return {DEFAULT_VLAN, *panel.kept().vlans, *members}


def running_config(panel: Panel) -> str:
    """The running configuration."""
    kept = panel.kept()
    lines = ["## simulated Onyx: VLANs and MTU work, everything else is kept and shown"]
    lines += [f"vlan {vlan}" for vlan in sorted(known_vlans(panel) - {DEFAULT_VLAN})]
    lines += [*kept.extra, *(["lldp"] if kept.lldp else [])]
    if kept.pfc_enabled:
        lines.append("dcb priority-flow-control enable force")
    lines += [f"dcb priority-flow-control priority {priority} enable" for priority in kept.pfc_priorities]
    for number, port in panel.ports().items():
        at, quality = f"interface ethernet {number}", kept.ports.get(number, Quality())
        lines += [f"{at} switchport mode {mode_of(port, quality)}", f"{at} mtu {port.config.mtu_bytes} force"]
        lines.append(f"{at} switchport access vlan {port.config.native_vlan}")
        lines += [f"{at} switchport hybrid allowed-vlan add {vlan}" for vlan in sorted(port.config.tagged_vlans)]
        lines += [f"{at} description {quality.description}"] if quality.description else []
        lines += [f"{at} qos trust {quality.trust}"]
        lines += [
            f"{at} traffic-class {tc} congestion-control ecn minimum-absolute {low} maximum-absolute {high}"
            for tc, (low, high) in sorted(quality.ecn.items())
        ]
    return "\n".join(lines)


def mode_of(port: PortState, quality: Quality) -> str:
    """The configured mode, or the one that follows from the VLANs."""
    return quality.mode or ("hybrid" if port.config.tagged_vlans else "access")


def _interface(panel: Panel, number: str) -> Json:
    port, quality = panel.ports()[number], panel.quality(number)
    counters = port.counters
    mtu = port.config.mtu_bytes
    return [
        {
            "header": f"Eth{number}",
            "Admin state": "Enabled",
            "Operational state": "Up" if port.config.plugged else "Down",
            "Description": quality.description or "N\\A",
            "MTU": f"{mtu} bytes(Maximum packet size {mtu + FRAME_BYTES} bytes)",
            "Switchport mode": mode_of(port, quality),
            "Rx": {"packets": str(counters.get("in_frames", 0)), "bytes": str(counters.get("in_bytes", 0))},
            "Tx": {"packets": str(counters.get("out_frames", 0)), "bytes": str(counters.get("out_bytes", 0))},
        }
    ]


def _switchport(panel: Panel, _: str) -> Json:
    kept = panel.kept()
    return {
        f"Eth{number}": [
            {
                "Mode": mode_of(port, kept.ports.get(number, Quality())),
                "Access vlan": str(port.config.native_vlan),
                "Allowed vlans": ",".join(map(str, sorted(port.config.tagged_vlans))),
            }
        ]
        for number, port in panel.ports().items()
    }


def _congestion(panel: Panel, number: str) -> Json:
    quality = panel.quality(number)
    content: list[dict[str, str]] = [{"Interface ethernet": number, "ECN marked packets": "0"}]
    for tc in TRAFFIC_CLASSES:
        queue = {"header": f"TC-{tc}", "Mode": "none"}
        if thresholds := quality.ecn.get(str(tc)):
            low, high = thresholds
            queue |= {"Mode": "ECN", "Threshold mode": "absolute"}
            queue |= {"Minimum threshold": f"{low} KB", "Maximum threshold": f"{high} KB"}
        content.append(queue)
    return content


def _qos(panel: Panel, number: str) -> Json:
    quality = panel.quality(number)
    points: dict[int, list[str]] = {priority: [] for priority in TRAFFIC_CLASSES}
    for point in range(64):
        points[quality.dscp.get(str(point), point >> 3)].append(str(point))
    table = {
        f"{priority}(0) {priority}(1)": [{"switch-priority": str(priority), "DSCP": " ".join(of)}]
        for priority, of in points.items()
    }
    about = [{"Trust mode": quality.trust}, {"PCP(DEI); DSCP to switch-priority mapping": [table]}]
    return [{f"Eth{number}": about}]


def _ets(panel: Panel, number: str) -> Json:
    quality = panel.quality(number)
    table = {}
    for tc in TRAFFIC_CLASSES:
        how, _, weight = quality.scheduling.get(str(tc), f"wrr {DEFAULT_WEIGHT}").partition(" ")
        table[str(tc)] = [{"S.Mode": "Strict" if how == "strict" else "WRR", "W": weight or "0"}]
    return [{f"Eth{number}": [{"ETS per TC": [table]}]}]


def _pfc(panel: Panel, _: str) -> Json:
    kept = panel.kept()
    return {f"Eth{number}": [_pausing(kept, number)] for number in panel.ports()}


def _pausing(kept: Kept, number: str) -> dict[str, str]:
    pfc = kept.ports.get(number, Quality()).pfc
    works = pfc and kept.pfc_enabled and kept.pfc_priorities
    return {"PFC admin": "on" if pfc else "off", "PFC oper": "Enabled" if works else "Disabled"}


def _lldp(panel: Panel, _: str) -> Json:
    heard = {number: port.lldp for number, port in panel.ports().items() if port.lldp and panel.kept().lldp}
    return [
        {
            f"Eth{number}": [
                {
                    "Remote chassis id": of["chassis"],
                    "Remote port-id": of["port"],
                    "Remote port description": of["port_description"] or "Not Advertised",
                    "Remote system name": of["system"] or "Not Advertised",
                }
            ]
        }
        for number, of in heard.items()
    ]


SHOWS: tuple[tuple[str, Callable[[Panel, str], Json]], ...] = (
    (r"show interfaces ethernet (\d+/\d+)", _interface),
    (r"show interfaces ethernet (\d+/\d+) congestion-control", _congestion),
    (r"show interfaces switchport", _switchport),
    (r"show qos interface ethernet (\d+/\d+)", _qos),
    (r"show dcb ets interface ethernet (\d+/\d+)", _ets),
    (r"show dcb priority-flow-control", _pfc),
    (r"show lldp interfaces ethernet remote", _lldp),
)


def _table(content: Json, indent: str = "") -> str:
    """The same for people: a line per value, with names as titles."""
    if isinstance(content, list):
        return "\n".join(_table(each, indent) for each in content)
    if not isinstance(content, dict):
        return f"{indent}{content}"
    lines = []
    for name, value in content.items():
        if isinstance(value, list | dict):
            lines += [f"{indent}{name}:", _table(value, indent + "  ")]
        else:
            lines.append(f"{indent}{name}: {value}")
    return "\n".join(lines)

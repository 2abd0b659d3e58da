"""Arista EOS: its commands and answers. Answers are read from the running configuration."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from components.switches.dialect import (
    ConfigSession,
    Dialect,
    PendingChange,
    PendingChanges,
    normal_ranges,
    numbered,
    numbers_in,
    unmentioned,
)
from components.switches.settings import Announcement, Ecn, LearnedMac, PortFacts, PortSettings
from stacks.qos import Qos
from stacks.switches import EosSwitch

TRUST = {"dscp": "dscp", "pcp": "cos"}
MAPPINGS = "show running-config | include ^qos map dscp"
QUEUES = "show running-config all | include tx-queue"
"""With `all`, EOS also prints queues without configuration, under the platform's name."""
DEFAULT_MODE = "show running-config | include ^switchport default mode"
"""EOS prints it unless ports are switch ports by default."""
EVERY_VLAN = "1-4094"
DEFAULT_MTU_BYTES = 1500


class Eos(Dialect):
    title = "Arista EOS"
    comment = "!"
    port_list = "show running-config interfaces"
    lldp_table = "show lldp neighbors detail"
    mac_table = "show mac address-table"

    def __init__(self, switch: EosSwitch) -> None:
        super().__init__(switch)
        self._queue = switch.queue_word

    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        """A configuration session, which the switch reverts unless it is confirmed in time."""
        name = f"rocelab-{lab}"
        minutes, seconds = divmod(confirm_s, 60)
        return ConfigSession(
            talk="cli",
            hello=("enable", "terminal length 0", "terminal width 500"),
            begin=(f"configure session {name}",),
            commit=(f"commit timer {minutes // 60:02}:{minutes % 60:02}:{seconds:02}",),
            confirm=(f"configure session {name} commit",),
            cancel=("abort",),
            abandon=(f"configure session {name} abort",),
            save=("write memory",),
            name=name,
            pending=PendingChanges(
                listing="show configuration sessions",
                drop="configure session {} abort",
                mark=name,
                read=read_sessions,
            ),
            notes=(
                (
                    "Where a platform has `random-detect ecn count`, only queues with it count "
                    "marked packets."
                ),
            ),
        )

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        return [line for vlan in vlans for line in (f"vlan {vlan}", "exit")]

    def port_lines(
        self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]
    ) -> list[str]:
        del lab
        lines = [f"interface {port}"]
        if "description" in fields:
            text = settings.description
            line = f"description {text}" if text else "no description"
            lines.append(line)
        if "vlans" in fields:
            lines += _membership(settings)
        if "mtu_bytes" in fields:
            lines.append(f"mtu {settings.mtu_bytes}")
        rest = settings.narrowed(fields)
        if rest.trust:
            line = f"qos trust {TRUST[rest.trust]}" if rest.trust in TRUST else "no qos trust"
            lines.append(line)
        for priority, on in rest.pfc.items():
            on_port = ["priority-flow-control on"] if on else []
            lines += [
                *on_port,
                f"{'' if on else 'no '}priority-flow-control priority {priority} no-drop",
            ]
        for tc, ecn in rest.ecn.items():
            lines += [f"{self._queue} {tc}", _marking(ecn), "exit"]
        for tc, how in rest.scheduling.items():
            lines += [
                f"{self._queue} {tc}",
                "priority strict" if how == "strict" else "no priority",
                "exit",
            ]
        return [*lines, "exit"]

    def global_lines(self, qos: Qos) -> list[str]:
        """The maps of code points, which all ports share, and the watchdog of lossless queues."""
        lines = [
            _mapping(qos.dscp, qos.priority),
            _mapping(qos.cnp_dscp, qos.cnp_priority),
        ]
        if qos.mode == "lossless":
            watchdog = "priority-flow-control pause watchdog"
            lines += [f"{watchdog} default timeout 0.4", f"{watchdog} action drop"]
        return lines

    def requirements(self, qos: Qos | None) -> list[str]:
        if qos is None or qos.mode == "lossy":
            return []
        guarantee = (
            f"Where the platform has `bandwidth guaranteed`, give queue {qos.priority} some:"
        )
        lines = [f"{guarantee} the PFC watchdog watches no other queue there."]
        if not self.allow_global:
            lines.append(
                "A stuck NIC can pause the whole fabric until the watchdog runs: the lines at the "
                "end."
            )
        return lines

    def questions(self, ports: Sequence[str]) -> list[str]:
        return [MAPPINGS, QUEUES, DEFAULT_MODE, *map(_section, ports)]

    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        """The lines of the port's section, and EOS's defaults for missing lines."""
        section = _section(port)
        words = answers.get(section, "")
        if f"interface {port}" not in words:
            raise unmentioned(section, port, words)
        routed = "mode routed" in answers.get(DEFAULT_MODE, "")
        mode, native, tagged = _read_membership(words, routed=routed)
        points = {}
        for point, tc in re.findall(
            r"^qos map dscp (\d+) to traffic-class (\d+)",
            answers.get(MAPPINGS, ""),
            re.MULTILINE,
        ):
            points[int(point)] = int(tc)
        settings = PortSettings(
            description=_word(r"^ +description (.+)$", words, ""),
            mode=mode,
            native_vlan=native,
            tagged_vlans=tagged,
            mtu_bytes=int(_word(r"^ +mtu (\d+)$", words, str(DEFAULT_MTU_BYTES))),
            trust=_trust(words),
            # what is not mapped goes by the upper three bits of the code point, the class selector
            dscp_priority={
                point: points.get(point, point >> 3) for point in declared.dscp_priority
            },
            ecn={tc: _read_marking(_queue(words, tc)) for tc in declared.ecn},
            pfc={priority: _paused(words, priority) for priority in declared.pfc},
            scheduling={tc: _schedule(_queue(words, tc)) for tc in declared.scheduling},
        )
        return PortFacts(settings, tuple(self._faults(answers, declared, settings)))

    def _faults(
        self, answers: Mapping[str, str], declared: PortSettings, settings: PortSettings
    ) -> Iterator[str]:
        queues = set(re.findall(r"^ +((?:uc-)?tx-queue) \d", answers.get(QUEUES, ""), re.MULTILINE))
        if declared.ecn and queues and self._queue not in queues:
            yield f"the switch calls its queues {queues.pop()}; set switches[].queue_word to that"
        if self.allow_global:
            return
        for point, traffic_class in declared.dscp_priority.items():
            if settings.dscp_priority[point] != traffic_class:
                yield (
                    f"the switch maps DSCP {point} to traffic class "
                    f"{settings.dscp_priority[point]} on all ports; run "
                    f"`{_mapping(point, traffic_class)}`, or set switches[].allow_global: true"
                )

    def backup(self) -> str:
        """The whole running configuration; EOS masks no secret in it."""
        return "show running-config"

    def checks(self, ports: Sequence[str]) -> list[str]:
        return [
            "show lldp neighbors",
            "show priority-flow-control counters",
            "show priority-flow-control counters watchdog",
            *(f"show {what} {port}" for port in ports for what in ("interfaces", "qos interfaces")),
            *(f"show qos interfaces {port} ecn counters queue" for port in ports),
        ]

    def listed_ports(self, answer: str) -> list[str]:
        return numbered(
            r"Ethernet\d+(/\d+)*", re.findall(r"^interface (\S+)", answer, re.MULTILINE)
        )

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        """The answer has a section for each port, and in it one for each neighbor."""
        section = re.search(
            rf"^Interface {re.escape(port)} detected.*?(?=^Interface |\Z)",
            answer,
            re.MULTILINE | re.DOTALL,
        )
        blocks = []
        if section:
            blocks = re.split(r"^ +Neighbor ", section[0], flags=re.MULTILINE)[1:]
        return [_announcement(block) for block in blocks]

    def learned_macs(self, answer: str) -> list[LearnedMac]:
        """Lines such as ` 111    0200.0000.0001    DYNAMIC     Et1/1      1       0:10:00 ago`."""
        lines = re.findall(
            r"^\s*(\d+)\s+([0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4})\s+\w+\s+Et(\S+)",
            answer,
            re.MULTILINE,
        )
        learned = []
        for vlan, mac, port in lines:
            learned.append(LearnedMac(mac=_colons(mac), port=f"Ethernet{port}", vlan_id=int(vlan)))
        return learned


def read_sessions(printed: str, name: str) -> list[PendingChange]:
    """The sessions of this name, with or without a number; others belong to other users."""
    lines = re.findall(rf"^[ *]*({re.escape(name)}(?:-\d+)?)[ \t]+(\S+)", printed, re.MULTILINE)
    return [PendingChange(name=session, state=_state(word)) for session, word in lines]


def _state(word: str) -> Literal["staged", "unconfirmed", "ended"]:
    if word.startswith("pendingCommitTimer"):
        return "unconfirmed"
    return "staged" if word.startswith("pending") else "ended"


def _section(port: str) -> str:
    return f"show running-config interfaces {port}"


def _membership(settings: PortSettings) -> list[str]:
    if settings.mode == "access":
        return ["switchport mode access", f"switchport access vlan {settings.native_vlan}"]
    # EOS also drops untagged frames if their VLAN is not allowed
    native, allowed = "no switchport trunk native vlan", numbers_in(settings.tagged_vlans)
    if settings.native_vlan is not None:
        native = f"switchport trunk native vlan {settings.native_vlan}"
        allowed.append(settings.native_vlan)
    return [
        "switchport mode trunk",
        native,
        f"switchport trunk allowed vlan {normal_ranges(allowed) or 'none'}",
    ]


def _read_membership(words: str, *, routed: bool) -> tuple[str, int | None, str]:
    """Mode, VLAN of untagged frames, and tagged VLANs.

    Args:
        words: the port's section.
        routed: whether ports are routed by default.
    """
    if re.search(r"^ +channel-group \d", words, re.MULTILINE):
        return "channel-group", None, ""  # the port channel's settings count, not the port's
    switchport = re.search(r"^ +(no )?switchport$", words, re.MULTILINE)
    if switchport:
        routed = switchport[1] is not None
    if routed:
        return "routed", None, ""
    mode = _word(r"^ +switchport mode (\S+)$", words, "access")
    if mode != "trunk":
        return mode, int(_word(r"^ +switchport access vlan (\d+)$", words, "1")), ""
    native = int(_word(r"^ +switchport trunk native vlan (\d+)$", words, "1"))
    allowed = numbers_in(_word(r"^ +switchport trunk allowed vlan (\S+)$", words, EVERY_VLAN))
    tagged = normal_ranges([vlan for vlan in allowed if vlan != native])
    # EOS drops untagged frames if their VLAN is not allowed
    if native not in allowed:
        return "trunk", None, tagged
    return "trunk", native, tagged


def _mapping(point: int, traffic_class: int) -> str:
    return f"qos map dscp {point} to traffic-class {traffic_class}"


def _marking(ecn: Ecn | None) -> str:
    if ecn is None:
        return "no random-detect ecn"
    thresholds = (
        f"minimum-threshold {ecn.min_kbytes} kbytes maximum-threshold {ecn.max_kbytes} kbytes"
    )
    return f"random-detect ecn {thresholds} max-mark-probability 100"


def _read_marking(queue: str) -> Ecn | None:
    thresholds = re.search(
        r"random-detect ecn minimum-threshold (\d+) kbytes maximum-threshold (\d+) kbytes", queue
    )
    if thresholds:
        return Ecn(min_kbytes=int(thresholds[1]), max_kbytes=int(thresholds[2]))
    return None


def _queue(words: str, tc: int) -> str:
    """The lines of a queue: those below its line that are indented deeper."""
    block = re.search(rf"^( +)(?:uc-)?tx-queue {tc}$\n((?:\1 +.*\n?)*)", words, re.MULTILINE)
    return block[2] if block else ""


def _paused(words: str, priority: int) -> bool:
    on = re.search(r"^ +priority-flow-control( mode)? on$", words, re.MULTILINE)
    return bool(
        on
        and re.search(
            rf"^ +priority-flow-control priority {priority} no-drop$", words, re.MULTILINE
        )
    )


def _trust(words: str) -> str:
    if re.search(r"^ +no qos trust$", words, re.MULTILINE):
        return "none"
    theirs = _word(r"^ +qos trust (\S+)$", words, "cos")
    for ours, name in TRUST.items():
        if name == theirs:
            return ours
    return theirs


def _schedule(queue: str) -> str:
    if re.search(r"^ +no priority$", queue, re.MULTILINE):
        return "wrr 0"
    return "strict"


def _announcement(block: str) -> Announcement:

    def value(name: str) -> str:
        return _word(rf'{name} *: "?([^"\n]+?)"?$', block, "")

    port, description = value("Port ID"), value("Port Description")
    return Announcement(
        system=value("System Name"),
        chassis_id=_colons(value("Chassis ID")),
        port_id=_colons(port),
        port_description=description,
    )


def _colons(text: str) -> str:
    """`0200.0000.0001` as other systems write it; other texts as they are."""
    if not re.fullmatch(r"[0-9a-f]{4}(\.[0-9a-f]{4}){2}", text):
        return text
    digits = text.replace(".", "")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _word(pattern: str, words: str, otherwise: str) -> str:
    match = re.search(pattern, words, re.MULTILINE)
    return match[1].strip() if match else otherwise

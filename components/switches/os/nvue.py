"""Cumulus Linux with NVUE: its commands, and its answers as JSON of the applied configuration."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from components.switches.dialect import (
    LLDPCTL,
    ConfigSession,
    Dialect,
    Object,
    PendingChange,
    PendingChanges,
    json_in,
    lldpctl_announcements,
    normal_ranges,
    number_of,
    numbered,
    numbers_in,
    object_at,
    ranges,
    thresholds,
    unmentioned,
)
from components.switches.settings import Announcement, Ecn, LearnedMac, PortFacts, PortSettings
from stacks.qos import Qos
from stacks.switches import MARKER, NvueSwitch

TRUST = {"dscp": "l3", "pcp": "l2", "both": "both", "none": "port"}
PROFILES = "nv show qos --applied -o json"
REVISIONS = "nv config revision -o json"
UNCONFIRMED = "confirm"
"""State of an active revision that is not confirmed."""
KINDS = ("mapping", "congestion-control", "pfc", "egress-scheduler")
"""The kinds of profile that a port uses."""
DEFAULT_MTU_BYTES = 9216
CLASSES = 8
HALF = 50
"""Percent of the bandwidth."""
RELEASE = "cat /etc/os-release"
FIRST_WITH_WATCHDOG = (5, 6)
AUTO_SAVE = "nv show system config auto-save --applied -o json"
AUTO_SAVE_OFF = "nv set system config auto-save state disabled"
POOLS = "nv show qos traffic-pool"
LOSSLESS_POOL = (
    "nv set qos traffic-pool default-lossless memory-percent 50",
    "nv set qos traffic-pool default-lossy memory-percent 50",
)
"""Flow Control Buffers in Cumulus Linux's Quality of Service: by default all memory belongs to
default-lossy."""


class Nvue(Dialect):
    """Spectrum switches with Cumulus Linux."""

    title = "Cumulus Linux (NVUE)"
    port_list = "nv show interface --applied -o json"
    lldp_table = LLDPCTL
    mac_table = "bridge -j fdb show"

    def __init__(self, switch: NvueSwitch) -> None:
        super().__init__(switch)
        self._bridge = switch.bridge
        self._save = switch.save

    def session(self, lab: str, confirm_s: int) -> ConfigSession:
        """A revision, which the switch reverts unless it is confirmed in time. Its message names
        the lab.
        """
        mark = MARKER + lab
        return ConfigSession(
            talk="shell",
            begin=("nv config detach",),
            commit=(f"nv config apply --confirm {confirm_s}s -m {mark} -y",),
            confirm=("nv config apply --confirm-yes",),
            cancel=("nv config detach",),
            abandon=("nv config apply --confirm-no",),
            save=("nv config save",),
            pending=PendingChanges(
                listing=REVISIONS,
                drop="nv config apply {} --confirm-no",
                mark=mark,
                read=read_revisions,
            ),
            notes=(
                (
                    "A change of PFC or buffers reloads switchd: frames are lost for a moment on "
                    "all ports."
                ),
            ),
        )

    def vlan_lines(self, vlans: Sequence[int]) -> list[str]:
        return [f"nv set bridge domain {self._bridge} vlan {vlan}" for vlan in vlans]

    def port_lines(
        self, lab: str, port: str, settings: PortSettings, fields: frozenset[str]
    ) -> list[str]:
        at = f"nv set interface {port}"
        lines: list[str] = []
        if "description" in fields:
            text = settings.description
            unset = f"nv unset interface {port} description"
            line = f"{at} description {text}" if text else unset
            lines.append(line)
        if "vlans" in fields:
            lines += self._membership(port, settings)
        if "mtu_bytes" in fields:
            lines.append(f"{at} link mtu {settings.mtu_bytes}")
        return lines + self._quality_lines(lab, port, settings, settings.narrowed(fields))

    def _quality_lines(
        self, lab: str, port: str, settings: PortSettings, rest: PortSettings
    ) -> list[str]:
        """Profiles and watchdog of a port; `rest` has only the fields that change."""
        at = f"nv set interface {port}"
        lines = []
        changes = (rest.trust or rest.dscp_priority, rest.ecn, rest.pfc, rest.scheduling)
        for kind, changed in zip(KINDS, changes, strict=True):
            if not changed:
                continue
            name = settings.profiles.get(kind, _profile(lab, settings, kind))
            if name:
                lines.append(f"{at} qos {kind} profile {name}")
            else:
                lines.append(f"nv unset interface {port} qos {kind}")
        if rest.watchdog:
            lines.append(f"{at} qos pfc-watchdog state enable")
        elif rest.watchdog is not None:
            lines.append(f"nv unset interface {port} qos pfc-watchdog")
        return lines

    def shared_lines(self, lab: str, settings: Sequence[PortSettings]) -> list[str]:
        marked = [port for port in settings if port.ecn]
        if not marked:
            return []
        port = marked[0]  # quality of service is the same on all ports of a lab
        mapping, marking, pausing, scheduler = (
            f"nv set qos {kind} {_profile(lab, port, kind)}" for kind in KINDS
        )
        lines: list[str] = []
        if port.trust:
            lines.append(f"{mapping} trust {TRUST[port.trust]}")
        for point, priority in port.dscp_priority.items():
            lines.append(f"{mapping} dscp {point} switch-priority {priority}")
        for tc, ecn in port.ecn.items():
            if ecn:
                at = f"{marking} traffic-class {tc}"
                lines.append(f"{at} ecn enable")
                lines.append(f"{at} min-threshold {ecn.min_kbytes * 1000}")
                lines.append(f"{at} max-threshold {ecn.max_kbytes * 1000}")
                lines.append(f"{at} probability 100")
        for priority, pauses in port.pfc.items():
            if pauses:
                lines += [
                    f"{pausing} switch-priority {priority}",
                    f"{pausing} tx enable",
                    f"{pausing} rx enable",
                ]
        shares = [f"{tc} mode strict" for tc in port.scheduling] + _shares(port)
        return lines + [f"{scheduler} traffic-class {share}" for share in shares]

    def global_lines(self, qos: Qos) -> list[str]:
        """NVIDIA's own preset: buffers, maps, ECN and, when lossless, PFC on every port."""
        return [f"nv set qos roce mode {qos.mode}"]

    def requirements(self, qos: Qos | None) -> list[str]:
        lines: list[str] = []
        if qos and qos.mode == "lossless":
            lines += [
                (
                    "Ports get the PFC watchdog, which needs Cumulus Linux 5.6 or newer (cat "
                    "/etc/os-release)."
                ),
                (
                    "PFC's headroom is for cables of 10 m; give its profile the cable-length of "
                    "longer ones, in meters."
                ),
            ]
            if not self.allow_global:
                lines += [
                    f"Ports pause and still drop unless a lossless pool has memory ({POOLS}).",
                    "If none has, run this, or instead the switch-wide line at the end:",
                    *(f"  {line}" for line in (*LOSSLESS_POOL, "nv config apply")),
                ]
        if not self._save:
            lines.append(
                "From 5.9 on, apply also saves, which save: false forbids; to stop that: "
                f"{AUTO_SAVE_OFF}"
            )
        return lines

    def questions(self, ports: Sequence[str]) -> list[str]:
        saved = [] if self._save else [AUTO_SAVE]
        return [PROFILES, RELEASE, *saved, *(_of_port(port) for port in ports)]

    def facts(self, port: str, answers: Mapping[str, str], declared: PortSettings) -> PortFacts:
        interface = object_at(json_in(answers, _of_port(port)))
        if not interface:
            raise unmentioned(_of_port(port), port)
        quality = object_at(interface, "qos")
        # without a profile of its own, a port has the default one
        profiles = {kind: str(object_at(quality, kind).get("profile", "")) for kind in KINDS}
        of = {}
        for kind in KINDS:
            of[kind] = object_at(
                json_in(answers, PROFILES), kind, profiles[kind] or "default-global"
            )
        member = object_at(interface, "bridge", "domain", self._bridge)
        tagged = numbers_in(",".join(object_at(member, "vlan")))
        native = member.get("untagged", member.get("access"))
        if "untagged" in member or tagged:
            mode = "trunk"
        else:
            mode = "access" if "access" in member else "routed"
        native_vlan = None
        if native is not None:
            native_vlan = number_of(native, f"{_of_port(port)}: VLAN")
        if declared.watchdog is None:
            watchdog = None
        else:
            watchdog = _enabled(object_at(quality, "pfc-watchdog"))
        marking = object_at(of["congestion-control"], "traffic-class")
        paused = object_at(of["pfc"], "switch-priority")
        schedule = of["egress-scheduler"]
        settings = PortSettings(
            description=str(interface.get("description", "")),
            mode=mode,
            native_vlan=native_vlan,
            tagged_vlans=normal_ranges([vlan for vlan in tagged if str(vlan) != str(native)]),
            mtu_bytes=number_of(
                object_at(interface, "link").get("mtu", DEFAULT_MTU_BYTES),
                f"{_of_port(port)}: mtu",
            ),
            trust=_trust(of["mapping"]),
            dscp_priority=_mapping(of["mapping"], declared),
            ecn={tc: _thresholds(object_at(marking, str(tc))) for tc in declared.ecn},
            pfc={priority: str(priority) in paused for priority in declared.pfc},
            scheduling={tc: _scheduled(schedule, tc, declared) for tc in declared.scheduling},
            watchdog=watchdog,
            profiles=profiles,
        )
        return PortFacts(settings, tuple(self._faults(answers, declared)))

    def _faults(self, answers: Mapping[str, str], declared: PortSettings) -> Iterator[str]:
        release = re.search(r"^VERSION_ID=\"?(\d+)\.(\d+)", answers.get(RELEASE, ""), re.MULTILINE)
        if (
            declared.watchdog
            and release
            and (int(release[1]), int(release[2])) < FIRST_WITH_WATCHDOG
        ):
            yield (
                f"Cumulus Linux {release[1]}.{release[2]} has no PFC watchdog, so one stuck NIC "
                "could pause the whole fabric; upgrade the switch to 5.6 or newer, or set "
                "qos.mode: lossy"
            )
        pauses = any(declared.pfc.values())
        if (
            pauses
            and not self.allow_global
            and not _has_lossless_memory(object_at(json_in(answers, PROFILES)))
        ):
            yield (
                f"would pause and still drop, because no lossless pool has memory ({POOLS}). Run "
                f"{' and '.join(f'`{line}`' for line in LOSSLESS_POOL)}, then `nv config apply`; "
                "or set switches[].allow_global: true for NVIDIA's RoCE preset, or qos.mode: "
                "lossy"
            )
        if _enabled(object_at(json_in(answers, AUTO_SAVE))):
            yield (
                "switches[].save is false, but auto save is on, and the switch would save what is "
                f"applied; run `{AUTO_SAVE_OFF}` and `nv config apply` on it, or set save: true"
            )

    def backup(self) -> str:
        return "nv config show -o commands"

    def checks(self, ports: Sequence[str]) -> list[str]:
        checks = ["nv show interface lldp", "nv show qos roce", POOLS]
        for port in ports:
            checks.append(f"nv show interface {port} qos roce counters")
            checks.append(f"nv show interface {port} qos pfc-watchdog")
        return checks

    def listed_ports(self, answer: str) -> list[str]:
        return numbered(r"swp\d+(s\d+)?", json.loads(answer))

    def announcements(self, answer: str, port: str) -> list[Announcement]:
        return lldpctl_announcements(answer, port)

    def learned_macs(self, answer: str) -> list[LearnedMac]:
        """Skips the ports' own addresses."""
        learned = []
        for entry in json.loads(answer or "[]"):
            if entry.get("state") != "permanent" and "master" in entry:
                learned.append(
                    LearnedMac(
                        mac=str(entry["mac"]),
                        port=str(entry["ifname"]),
                        vlan_id=int(entry.get("vlan", 0)),
                    )
                )
        return learned

    def _membership(self, port: str, settings: PortSettings) -> list[str]:
        at = f"interface {port} bridge domain {self._bridge}"
        lines = [f"nv unset {at}"]
        if settings.mode == "access":
            return [*lines, f"nv set {at} access {settings.native_vlan}"]
        for part in ranges(settings.tagged_vlans):
            lines.append(f"nv set {at} vlan {part}")
        if settings.native_vlan:
            return [*lines, f"nv set {at} untagged {settings.native_vlan}"]
        return lines


def read_revisions(printed: str, mark: str) -> list[PendingChange]:
    """The revisions that wait for a confirmation, of any user: a second change would mix with
    theirs.

    Staged lines are not among them: `nv config detach` sets those of the login aside before ours
    are staged.
    """
    revisions = object_at(json_in({REVISIONS: printed}, REVISIONS))
    waiting = {}
    for name in revisions:
        if (about := object_at(revisions, name)).get("state") == UNCONFIRMED:
            waiting[name] = _said(about)
    changes = []
    for name, description in waiting.items():
        changes.append(
            PendingChange(
                name=name,
                state="unconfirmed",
                ours=mark in description,
                description=", ".join(dict.fromkeys(description)),
            )
        )
    return changes


def _said(about: Object) -> list[str]:
    """User and message of a revision, which some releases nest in an object of their own."""
    plain = [
        text for key, text in about.items() if key in ("user", "message") and isinstance(text, str)
    ]
    return plain + [
        text for inner in about.values() if isinstance(inner, dict) for text in _said(inner)
    ]


def _of_port(port: str) -> str:
    return f"nv show interface {port} --applied -o json"


def _profile(lab: str, settings: PortSettings, kind: str) -> str:
    """Name of the lab's profile; a lossy port has no PFC profile."""
    if kind == "pfc" and not any(settings.pfc.values()):
        return ""
    return f"rocelab-{lab}"


def _enabled(about: Object) -> bool:
    """Older releases say `enable: on`, newer ones `state: enabled`, watchdogs `state: enable`."""
    return about.get("state", about.get("enable")) in ("on", "enable", "enabled")


def _has_lossless_memory(qos: Object) -> bool:
    """Whether the switch has a lossless buffer pool: one of its own, or that of NVIDIA's RoCE
    preset.
    """
    roce, pools = object_at(qos, "roce"), object_at(qos, "traffic-pool")
    if _enabled(roce) and str(roce.get("mode")).startswith("lossless"):
        return True
    for name in pools:
        percent = object_at(pools, name).get("memory-percent", 0)
        if "lossless" in name and number_of(percent, f"{PROFILES}: memory-percent of {name}"):
            return True
    return False


def _trust(profile: Object) -> str:
    theirs = profile.get("trust", "l2")  # the default of NVUE
    for ours, name in TRUST.items():
        if name == theirs:
            return ours
    return str(theirs)


def _mapping(profile: Object, declared: PortSettings) -> dict[int, int]:
    # what is not mapped goes by the upper three bits of the code point, the class selector
    priorities = {}
    for point in declared.dscp_priority:
        priorities[point] = object_at(profile, "dscp", str(point)).get("switch-priority")
    where = f"{PROFILES}: switch-priority"
    mapping = {}
    for point, to in priorities.items():
        mapping[point] = number_of(to, where) if to is not None else point >> 3
    return mapping


def _shares(settings: PortSettings) -> list[str]:
    """Shares of the classes that are not strict: half for the marked ones, as in NVIDIA's RoCE
    preset.

    A class without a share has a DWRR weight of 0 (Cumulus Linux 5, Quality of Service); shares add
    up to at most 100.
    """
    marked, others = normal_ranges(list(settings.ecn)), normal_ranges(_others(settings))
    shares = {marked: HALF // len(settings.ecn), others: HALF // len(_others(settings))}
    lines = []
    for classes, share in shares.items():
        lines += [f"{classes} mode dwrr", f"{classes} bw-percent {share}"]
    return lines


def _others(settings: PortSettings) -> list[int]:
    return [tc for tc in range(CLASSES) if tc not in settings.scheduling and tc not in settings.ecn]


def _scheduled(scheduler: Object, tc: int, declared: PortSettings) -> str:
    classes = {}
    for text, about in object_at(scheduler, "traffic-class").items():
        for number in numbers_in(text):
            classes[number] = object_at(about)
    if classes.get(tc, {}).get("mode") != "strict":
        return "wrr 0"
    starved = []
    for number in (*declared.ecn, *_others(declared)):
        if not classes.get(number, {}).get("bw-percent"):
            starved.append(number)
    if starved:
        return f"strict, no share for {normal_ranges(starved)}"
    return "strict"


def _thresholds(queue: Object) -> Ecn | None:
    if queue.get("ecn") not in ("enable", "enabled"):
        return None
    return thresholds(queue, "min-threshold", "max-threshold", PROFILES)

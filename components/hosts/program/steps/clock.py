"""The clock: which daemon sets it, and whether it is synchronized."""

import re
from typing import Callable, List, Set

from ..blocks import block_of, with_block
from ..distribution import PACKAGES_S, distribution, family, install, missing_packages
from ..host import Document, Host
from ..machine import Machine, StepError, first_match
from ..step import Before, Fields, Step, section_of, value_or_reason

PACKAGE = "chrony"
UNITS = {"debian": "chrony.service", "rhel": "chronyd.service"}
SETTINGS = {"debian": "/etc/chrony/chrony.conf", "rhel": "/etc/chrony.conf"}
SOURCES_FOLDER = "/etc/chrony/sources.d"
SOURCES_FILE = SOURCES_FOLDER + "/rocelab.sources"
REPLACED = ("systemd-timesyncd",)
"""Debian's and Ubuntu's small client, which conflicts with chrony. Any other daemon was chosen on
purpose and stays."""
OWN_CLOCK = "7F7F0101"
"""The source that `chronyc tracking` reports when a daemon serves its own clock."""
OUR_LINE = re.compile(r"^server \S+ iburst prefer$")
OFFSET_S = 0.1
SYNC_S = 60
IN_STEP, NOT_IN_STEP = "synchronized", "not synchronized"


class ClockStep(Step):
    """keep: only checked. chrony: installed, running, and preferring the lab's servers to the
    distribution's.
    """

    name = "clock"
    order = 220
    longest_s = PACKAGES_S + 120
    setting = "system.clock"
    effects = {"clock": "none", "clock_source": "none"}
    services = tuple(UNITS.values())
    repairs = {"clock_source": "service"}

    def target(self, document: Document) -> Fields:
        clock = document.get("clock")
        if not clock:
            return {}
        if clock["daemon"] == "keep":
            return {"clock": IN_STEP}
        return {
            "clock_source": describe(PACKAGE, source_lines(clock["servers"])),
            "clock": IN_STEP,
        }

    def takes_s(self, document: Document) -> int:
        return self.longest_s if section_of(document, "clock").get("daemon") == "chrony" else 0

    def observed(self, host: Host) -> Fields:
        if host.document["clock"]["daemon"] == "keep":
            return {"clock": state_by_systemd(host.machine)}
        return {
            "clock_source": value_or_reason(lambda: self._source(host.machine)),
            "clock": _state_by_chrony(host.machine),
        }

    def refuse(self, host: Host) -> None:
        if host.document["clock"]["daemon"] != "keep":
            family(host.machine)

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, clock = host.machine, host.document["clock"]
        if clock["daemon"] == "keep":
            raise StepError(
                f"the clock is {state_by_systemd(machine)}",
                "start the daemon that sets it (timedatectl shows it), or set system.clock.daemon: "
                "chrony",
            )
        if "clock_source" in wrong:
            if missing_packages(machine, [PACKAGE]):
                install(machine, [PACKAGE], may_go=REPLACED)
            unit = UNITS[family(machine)]
            machine.must("systemctl", "enable", "--quiet", "--no-reload", unit)
            change = _put_sources(machine, source_lines(clock["servers"]))
            machine.must("systemctl", "start", unit)
            change()
        self._wait(machine, clock["servers"])

    def files_to_write(self, host: Host) -> List[str]:
        return [
            SOURCES_FILE,
            SETTINGS[family(host.machine)],
        ]  # chrony, which may not be installed yet, decides

    def undo(self, host: Host, before: Before) -> None:
        if distribution(host.machine).family:
            # the daemon stays: without one the clock would drift
            _put_sources(host.machine, [])()

    def _source(self, machine: Machine) -> str:
        if missing_packages(machine, [PACKAGE]):
            return f"{PACKAGE} is not installed"
        words = ("systemctl", "show", "-p", "ActiveState", "-p", "UnitFileState")
        printed = machine.run(*words, UNITS[family(machine)]).out
        parts = [describe(PACKAGE, _sources(machine))]
        state = first_match(r"^ActiveState=(\w+)", printed) or "unknown"
        if state != "active":
            parts.append(f"it is {state}")
        if "UnitFileState=enabled" not in printed.split():
            parts.append("it does not start at boot")
        return ", ".join(parts)

    def _wait(self, machine: Machine, servers: List[str]) -> None:
        done = machine.run(
            "chronyc", "waitsync", str(SYNC_S), str(OFFSET_S), "0", "1", timeout_s=SYNC_S + 30
        )
        if done.code:
            sources = ", ".join(servers) or "the distribution's servers"
            raise StepError(
                f"the clock is {_state_by_chrony(machine)} after {SYNC_S} s of {sources}",
                "check that they answer on UDP port 123: chronyc sources on the host lists them",
            )


def source_lines(servers: List[str]) -> List[str]:
    """Chrony's directives for the lab's servers. The distribution's servers stay as a fallback."""
    return [f"server {server} iburst prefer" for server in servers]


def describe(daemon: str, lines: List[str]) -> str:
    """Which daemon sets the clock, as a field shows it."""
    return f"{daemon} with {', '.join(line.split()[1] for line in lines)}" if lines else daemon


def _has_folder(machine: Machine) -> bool:
    return f"sourcedir {SOURCES_FOLDER}" in machine.read(SETTINGS[family(machine)])


def _sources(machine: Machine) -> List[str]:
    """The directives of rocelab in the file; altered lines are marked."""
    place = SETTINGS[family(machine)]
    own_file = _has_folder(machine)
    file = SOURCES_FILE if own_file else place
    text = machine.content(file).decode(errors="replace")
    lines = text.splitlines() if own_file else block_of(text, place)
    good = [line for line in lines if OUR_LINE.match(line)]
    return good if len(good) == len(lines) else [*good, "server (altered)"]


def _put_sources(machine: Machine, lines: List[str]) -> Callable[[], object]:
    """Writes the directives.

    Returns what makes a running daemon read them, which is nothing if they did not change.
    """
    place = SETTINGS[family(machine)]
    if _has_folder(machine):
        text = "".join(line + "\n" for line in lines)
        if machine.content(SOURCES_FILE) == text.encode():
            return lambda: None
        if lines:
            machine.put(SOURCES_FILE, text)
        else:
            machine.remove(SOURCES_FILE)
        return lambda: machine.run("chronyc", "reload", "sources")
    before = machine.content(place).decode(errors="surrogateescape")
    after = with_block(before, lines, place)
    if after == before or (not before and not lines):
        return lambda: None
    machine.put(place, after.encode(errors="surrogateescape"))
    return lambda: machine.run("systemctl", "try-restart", UNITS[family(machine)])


def state_by_systemd(machine: Machine) -> str:
    """The kernel's state of the clock, regardless of the daemon."""
    done = machine.run("timedatectl", "show", "-p", "NTPSynchronized", "--value")
    states = {"yes": IN_STEP, "no": NOT_IN_STEP}
    return states.get(done.out.strip(), f"unknown: {(done.err or done.out).strip()[:100]}")


def _state_by_chrony(machine: Machine) -> str:
    """From `chronyc -c tracking`: the fifth value is how far off the clock is in seconds, the last
    the leap status.
    """
    done = machine.run("chronyc", "-c", "tracking")
    values = done.out.strip().split(",")
    if done.code or len(values) != 14:
        return f"unknown: {(done.err or done.out).strip()[:100]}"
    if values[13] == "Not synchronised" or values[0] == OWN_CLOCK:
        return NOT_IN_STEP
    offset_s = abs(float(values[4]))
    return IN_STEP if offset_s < OFFSET_S else f"off by {offset_s:.1f} s"

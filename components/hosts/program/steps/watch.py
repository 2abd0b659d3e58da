"""A timer that writes counters of rails and GPUs for node_exporter."""

import hashlib
import os
import re
import shutil
from typing import Dict, List, Set

from ..host import Document, Host
from ..machine import Machine, StepError
from ..places import FAST_FILE, PROGRAM_FILE, SLOW_FILE
from ..step import Before, Fields, Step

UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/timers.target.wants"
OURS = re.compile(r"rocelab-watch-[0-9a-f]{8}\.(service|timer)$")
FOLDER = re.compile(r"^ReadWritePaths=(.+)$", re.MULTILINE)
CACHE = "rocelab-watch"
SERVICE = f"""[Unit]
Description=Counters of rails and GPUs for node_exporter (rocelab)

[Service]
Type=oneshot
TimeoutStartSec=120
ExecStart=/usr/bin/env python3 -I -S {PROGRAM_FILE} watch
Nice=10
ProtectSystem=strict
ProtectHome=true
ReadWritePaths=FOLDER
CacheDirectory={CACHE}
"""
"""systemd itself keeps the program from writing anywhere else."""
TIMER = """[Unit]
Description=Counters of rails and GPUs for node_exporter (rocelab)

[Timer]
OnActiveSec=1s
OnUnitActiveSec=EVERYs
AccuracySec=1s

[Install]
WantedBy=timers.target
"""
STATE = "enabled and active"


class WatchStep(Step):
    """The units' names carry a digest of their text, so that systemd need not reload any."""

    name = "watch"
    order = 830
    effects = {"watch": "none"}
    files = (f"{UNITS}/rocelab-watch-*", f"{WANTS}/rocelab-watch-*")
    services = ("rocelab-watch-*.timer",)

    def target(self, document: Document) -> Fields:
        return {"watch": STATE} if document.get("watch") else {}

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        files = _files(host.document)
        wrong = machine.faults(files)
        for name in _installed(machine):
            if f"{UNITS}/{name}" not in files:
                wrong.append(f"{name} is no longer needed")
        timer = _timer(files)
        if not machine.exists(f"{WANTS}/{timer}"):
            wrong.append(f"{timer} not enabled")
        elif machine.run("systemctl", "is-active", timer).out.strip() != "active":
            wrong.append(f"{timer} not active")
        return {"watch": "; ".join(wrong) or STATE}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, folder = host.machine, host.document["watch"]["folder"]
        if not machine.exists(folder):
            raise StepError(
                f"{folder} does not exist, where node_exporter would read the counters",
                "install node_exporter (Debian: prometheus-node-exporter in system.packages), and "
                "name its --collector.textfile.directory in system.watch.folder",
            )
        files = _files(host.document)
        _remove(machine, keep=files)
        for path, text in files.items():
            machine.ensure(path, text)
        timer = _timer(files)
        if not machine.exists(f"{WANTS}/{timer}"):
            os.makedirs(machine.path(WANTS), exist_ok=True)
            os.symlink(f"../{timer}", machine.path(f"{WANTS}/{timer}"))
        machine.must("systemctl", "start", timer)

    def files_to_write(self, host: Host) -> List[str]:
        files = _files(host.document)
        return [path for path, text in files.items() if host.machine.faults({path: text})]

    def undo(self, host: Host, before: Before) -> None:
        _remove(host.machine, keep={})


def _files(document: Document) -> Dict[str, str]:
    watch = document["watch"]
    service = SERVICE.replace("FOLDER", watch["folder"])
    timer = TIMER.replace("EVERY", str(watch["every_s"]))
    digest = hashlib.sha256((service + timer).encode()).hexdigest()[:8]
    return {
        f"{UNITS}/rocelab-watch-{digest}.service": service,
        f"{UNITS}/rocelab-watch-{digest}.timer": timer,
    }


def _timer(files: Dict[str, str]) -> str:
    return next(os.path.basename(path) for path in files if path.endswith(".timer"))


def _installed(machine: Machine) -> List[str]:
    return [name for name in machine.names(UNITS) if OURS.match(name)]


def _remove(machine: Machine, keep: Dict[str, str]) -> None:
    """Stops and removes other units than these, with the files that they wrote."""
    old = [name for name in _installed(machine) if f"{UNITS}/{name}" not in keep]
    for name in sorted(old, reverse=True):  # the timer before its service
        machine.run("systemctl", "stop", name)
        # stopped at work, a oneshot service counts as failed
        machine.run("systemctl", "reset-failed", name)
        for folder in FOLDER.findall(machine.read(f"{UNITS}/{name}")):
            machine.remove(f"{folder}/{FAST_FILE}")
            machine.remove(f"{folder}/{SLOW_FILE}")
        machine.remove(f"{WANTS}/{name}")
        machine.remove(f"{UNITS}/{name}")
        shutil.rmtree(machine.path(f"/var/cache/{CACHE}"), ignore_errors=True)

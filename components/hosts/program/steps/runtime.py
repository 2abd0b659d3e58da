"""containerd as the lab wants it: installed, with systemd's cgroups, the pause image, and the lab's mirrors."""

import os
import re
from typing import Any, Dict, Set

from ..containers import (
    CONFIG_FILE,
    MIRRORS,
    containerd_config,
    mirror_files,
    refuse_package_scripts_under_containers,
)
from ..distribution import install
from ..host import Document, Host
from ..machine import Machine, StepError
from ..software import add_repository, same_version
from ..step import Before, Fields, Step

OURS = "as rendered"
THERE = "installed"
RESTART_S = 120


class ContainerRuntime(Step):
    """Containers outlive a restart of containerd, each under a shim of its own, so a restart is of class service."""

    name = "runtime"
    order = 360
    keeps = ("containerd",)
    at_boot = False
    effects = {"containerd": "none", "containerd_config": "none", "registry_mirrors": "none"}
    repairs = {"containerd": "service", "containerd_config": "service", "registry_mirrors": "none"}

    def wanted(self, document: Document) -> Fields:
        asked = _asked(document)
        if not asked:
            return {}
        mirrors = {"registry_mirrors": OURS} if asked["registries"] else {}
        return {"containerd": asked["version"] or THERE, "containerd_config": OURS, **mirrors}

    def observed(self, host: Host) -> Fields:
        machine, asked = host.machine, _asked(host.document)
        version = containerd_version(machine)
        if version and (not asked["version"] or same_version(version, asked["version"])):
            version = asked["version"] or THERE
        text = machine.content(CONFIG_FILE)
        state = OURS if text == self._config(host).encode() else "another" if text else "missing"
        found: Fields = {"containerd": version or "not installed", "containerd_config": state}
        if asked["registries"]:
            files = mirror_files(asked["registries"])
            wrong = [path for path in files if machine.content(path) != files[path].encode()]
            found["registry_mirrors"] = f"{', '.join(wrong)} missing or altered" if wrong else OURS
        return found

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, asked = host.machine, _asked(host.document)
        for path, text in mirror_files(asked["registries"]).items():
            if machine.content(path) != text.encode():
                machine.put(path, text)
        if "containerd" in wrong:
            self._install(machine, asked)
        text = self._config(host)
        if machine.content(CONFIG_FILE) != text.encode():
            machine.put(CONFIG_FILE, text)
            machine.must("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def before(self, host: Host) -> Before:
        text = host.machine.content(CONFIG_FILE)
        return {"config": text.decode(errors="replace") if text else None}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        for name in machine.names(MIRRORS):
            path = f"{MIRRORS}/{name}/hosts.toml"
            if machine.content(path).startswith(b"# Written by rocelab"):
                machine.remove(path)
                machine.remove(os.path.dirname(path))
        if machine.content(CONFIG_FILE).startswith(b"# Written by rocelab"):
            if before["config"] is None:
                machine.remove(CONFIG_FILE)
            else:
                machine.put(CONFIG_FILE, before["config"])
            machine.run("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def facts(self, host: Host) -> Dict[str, Any]:
        return {"containerd": containerd_version(host.machine)}

    def _config(self, host: Host) -> str:
        version = containerd_version(host.machine)
        toolkit = (host.document.get("gpu") or {}).get("toolkit") or {}
        nvidia = toolkit if toolkit.get("source") == "packaged" else {}
        return containerd_config(_asked(host.document), int((version or "2").split(".")[0]), nvidia)

    def _install(self, machine: Machine, asked: Dict[str, Any]) -> None:
        old = containerd_version(machine)
        if old and not asked["replace"]:
            raise StepError(
                f"containerd {old} is installed and {asked['version']} is wanted",
                "set runtime.containerd.replace: true to let the packages "
                f"{', '.join(asked['packages'])} replace it, or take the version out",
            )
        refuse_package_scripts_under_containers(machine, "containerd")
        if asked["repository"]:
            add_repository(machine, asked["repository"])
        install(machine, asked["packages"])


def containerd_version(machine: Machine) -> str:
    """Such as 1.7.27; empty when there is none. Some builds put a v before it, Debian's a suffix behind it."""
    found = re.match(r"^containerd \S+ v?(\d+(?:\.\d+)+)", machine.run("containerd", "--version").out)
    return found[1] if found else ""


def _asked(document: Document) -> Dict[str, Any]:
    found = (document.get("runtime") or {}).get("containerd") or {}
    return found if found.get("source") == "packaged" else {}

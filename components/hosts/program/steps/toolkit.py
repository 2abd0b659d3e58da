"""NVIDIA's container toolkit, and containerd's entry for it where containerd's configuration is not ours."""

import hashlib
import re
from typing import Any, Dict, Set

from ..containers import CONFIG_DROP_INS, CONFIG_FILE, refuse_package_scripts_under_containers
from ..distribution import install
from ..host import Document, Host
from ..machine import Machine, StepError
from ..places import STATE
from ..software import add_repository, same_version
from ..step import Before, Fields, Step

THERE = "installed"
ENTERED = "containerd"
RESTART_S = 120
MADE_FILE = STATE + "/containerd-config.sha256"
"""Digest of the configuration as nvidia-ctk made it where there was none: what somebody wrote later is not ours."""


class ContainerToolkit(Step):
    """Where containerd is ours too, its configuration names the runtime already and `nvidia-ctk` has nothing to do."""

    name = "toolkit"
    order = 370
    keeps = ("container_toolkit",)
    at_boot = False
    effects = {"container_toolkit": "none", "container_toolkit_runtime": "none"}
    repairs = {"container_toolkit": "service", "container_toolkit_runtime": "service"}

    def wanted(self, document: Document) -> Fields:
        asked = _asked(document)
        if not asked:
            return {}
        entry = {} if _containerd_is_ours(document) else {"container_toolkit_runtime": ENTERED}
        return {"container_toolkit": asked["version"] or THERE, **entry}

    def observed(self, host: Host) -> Fields:
        asked = _asked(host.document)
        version = toolkit_version(host.machine)
        if version and (not asked["version"] or same_version(version, asked["version"])):
            version = asked["version"] or THERE
        found: Fields = {"container_toolkit": version or "not installed"}
        if not _containerd_is_ours(host.document):
            found["container_toolkit_runtime"] = ENTERED if self._entered(host.machine) else "not entered"
        return found

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, asked = host.machine, _asked(host.document)
        if "container_toolkit" in wrong:
            old = toolkit_version(machine)
            if old and not asked["replace"]:
                raise StepError(
                    f"container toolkit {old} is installed and {asked['version']} is wanted",
                    "set gpu.toolkit.replace: true to let its packages replace it, or take the version out",
                )
            refuse_package_scripts_under_containers(machine, "the container toolkit")
            if asked["repository"]:
                add_repository(machine, asked["repository"])
            install(machine, asked["packages"])
        if "container_toolkit_runtime" in wrong:
            default = ["--set-as-default"] if asked["default_runtime"] else []
            absent = not machine.exists(CONFIG_FILE)
            machine.must("nvidia-ctk", "runtime", "configure", "--runtime=containerd", *default)
            if absent and machine.exists(CONFIG_FILE):
                machine.put(MADE_FILE, _digest(machine))
            machine.must("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def before(self, host: Host) -> Before:
        machine = host.machine
        text = machine.content(CONFIG_FILE).decode(errors="replace")
        return {"config": text if machine.exists(CONFIG_FILE) else None}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        changed = machine.remove(f"{CONFIG_DROP_INS}/99-nvidia.toml")  # where toolkit 1.18 and later put the entry
        text = before["config"]
        if text is None and machine.read(MADE_FILE) == _digest(machine) and not _containerd_is_ours(host.document):
            # without the file containerd has its defaults again
            changed = machine.remove(CONFIG_FILE) or changed
        machine.remove(MADE_FILE)
        if text is not None and "runtimes.nvidia" not in text and self._entered(machine):
            machine.put(CONFIG_FILE, text)
            changed = True
        if changed:
            machine.run("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def facts(self, host: Host) -> Dict[str, Any]:
        return {"container_toolkit": toolkit_version(host.machine)}

    def _entered(self, machine: Machine) -> bool:
        files = [CONFIG_FILE, *(f"{CONFIG_DROP_INS}/{name}" for name in machine.names(CONFIG_DROP_INS))]
        return any(re.search(r"^\s*\[.*runtimes\.nvidia\]", machine.read(path), re.MULTILINE) for path in files)


def toolkit_version(machine: Machine) -> str:
    """Such as 1.17.8; empty when there is none."""
    found = re.search(r"CLI version v?(\d+(?:\.\d+)+)", machine.run("nvidia-ctk", "--version").out)
    return found[1] if found else ""


def _digest(machine: Machine) -> str:
    return hashlib.sha256(machine.content(CONFIG_FILE)).hexdigest()


def _asked(document: Document) -> Dict[str, Any]:
    found = (document.get("gpu") or {}).get("toolkit") or {}
    return found if found.get("source") == "packaged" else {}


def _containerd_is_ours(document: Document) -> bool:
    return ((document.get("runtime") or {}).get("containerd") or {}).get("source") == "packaged"

"""NVIDIA's container toolkit, and its entry in a containerd that rocelab does not configure."""

import hashlib
import re
from typing import Set

from ..containers import CONFIG_DROP_INS, CONFIG_FILE, drop_ins
from ..host import Document, Host
from ..machine import Machine, first_match
from ..places import STATE
from ..software import install_packaged, version_field
from ..step import Before, Fields, Step, packaged

THERE = "installed"
ENTERED = "containerd"
RESTART_S = 120
MADE_FILE = STATE + "/containerd-config.sha256"
"""Digest of a configuration that nvidia-ctk created; an undo removes the file only if it is
unedited."""


class ContainerToolkitStep(Step):
    """A containerd that rocelab configures names the runtime itself, without `nvidia-ctk`."""

    name = "toolkit"
    order = 370
    longest_s = 600
    effects = {"container_toolkit": "none", "container_toolkit_runtime": "none"}
    files = (CONFIG_FILE, f"{CONFIG_DROP_INS}/*")
    services = ("containerd.service",)
    repairs = {"container_toolkit": "service", "container_toolkit_runtime": "service"}

    def target(self, document: Document) -> Fields:
        declared = packaged(document, "gpu", "toolkit")
        if not declared:
            return {}
        fields: Fields = {"container_toolkit": declared["version"] or THERE}
        if not packaged(document, "runtime", "containerd"):
            fields["container_toolkit_runtime"] = ENTERED
        return fields

    def observed(self, host: Host) -> Fields:
        machine, declared = host.machine, packaged(host.document, "gpu", "toolkit")
        version = version_field(toolkit_version(machine), declared["version"], THERE)
        fields: Fields = {"container_toolkit": version}
        if not packaged(host.document, "runtime", "containerd"):
            entered = self._entered(machine)
            fields["container_toolkit_runtime"] = ENTERED if entered else "not entered"
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, declared = host.machine, packaged(host.document, "gpu", "toolkit")
        if "container_toolkit" in wrong:
            install_packaged(
                machine, declared, toolkit_version(machine), "the container toolkit", "gpu.toolkit"
            )
        if "container_toolkit_runtime" in wrong:
            default = ["--set-as-default"] if declared["default_runtime"] else []
            absent = not machine.exists(CONFIG_FILE)
            machine.must("nvidia-ctk", "runtime", "configure", "--runtime=containerd", *default)
            if absent and machine.exists(CONFIG_FILE):
                machine.put(MADE_FILE, _digest(machine))
            machine.must("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def before(self, host: Host) -> Before:
        return {"config": host.machine.snapshot(CONFIG_FILE)}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        changed = machine.remove(
            f"{CONFIG_DROP_INS}/99-nvidia.toml"
        )  # where toolkit 1.18 and later put the entry
        text, ours = before["config"], packaged(host.document, "runtime", "containerd")
        if text is None and machine.read(MADE_FILE) == _digest(machine) and not ours:
            # without the file containerd has its defaults again
            changed = machine.remove(CONFIG_FILE) or changed
        machine.remove(MADE_FILE)
        if text is not None and "runtimes.nvidia" not in text and self._entered(machine):
            machine.put(CONFIG_FILE, text)
            changed = True
        if changed:
            machine.run("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def _entered(self, machine: Machine) -> bool:
        runtime = re.compile(r"^\s*\[.*runtimes\.nvidia\]", re.MULTILINE)
        files = (CONFIG_FILE, *drop_ins(machine))
        return any(runtime.search(machine.read(path)) for path in files)


def toolkit_version(machine: Machine) -> str:
    """Such as 1.17.8; empty when there is none."""
    printed = machine.run("nvidia-ctk", "--version").out
    return first_match(r"CLI version v?(\d+(?:\.\d+)+)", printed)


def _digest(machine: Machine) -> str:
    return hashlib.sha256(machine.content(CONFIG_FILE)).hexdigest()

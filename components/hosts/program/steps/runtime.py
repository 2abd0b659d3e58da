"""containerd as the lab wants it: installed, with systemd's cgroups, the pause image, and the lab's
mirrors.
"""

import os
from typing import Set

from ..containers import CONFIG_FILE, MIRRORS, containerd_config, mirror_files
from ..host import Document, Host
from ..machine import Machine, first_match
from ..places import MARK
from ..software import install_packaged, version_field
from ..step import Before, Fields, Step, packaged

OURS = "as rendered"
THERE = "installed"
RESTART_S = 120


class ContainerRuntime(Step):
    """A restart of containerd is of class service: each container has its own shim."""

    name = "runtime"
    order = 360
    longest_s = 600
    effects = {"containerd": "none", "containerd_config": "none", "registry_mirrors": "none"}
    files = (CONFIG_FILE, f"{MIRRORS}/*/hosts.toml")
    services = ("containerd.service",)
    repairs = {"containerd": "service", "containerd_config": "service"}

    def target(self, document: Document) -> Fields:
        declared = packaged(document, "runtime", "containerd")
        if not declared:
            return {}
        mirrors = {"registry_mirrors": OURS} if declared["registries"] else {}
        return {"containerd": declared["version"] or THERE, "containerd_config": OURS, **mirrors}

    def observed(self, host: Host) -> Fields:
        machine, declared = host.machine, packaged(host.document, "runtime", "containerd")
        version = version_field(containerd_version(machine), declared["version"], THERE)
        text = machine.content(CONFIG_FILE)
        state = OURS if text == self._config(host).encode() else "another" if text else "missing"
        fields: Fields = {"containerd": version, "containerd_config": state}
        if declared["registries"]:
            fields["registry_mirrors"] = (
                ", ".join(machine.faults(mirror_files(declared["registries"]))) or OURS
            )
        return fields

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine, declared = host.machine, packaged(host.document, "runtime", "containerd")
        for path, text in mirror_files(declared["registries"]).items():
            machine.ensure(path, text)
        if "containerd" in wrong:
            install_packaged(
                machine, declared, containerd_version(machine), "containerd", "runtime.containerd"
            )
        if machine.ensure(CONFIG_FILE, self._config(host)):
            machine.must("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def before(self, host: Host) -> Before:
        return {"config": host.machine.snapshot(CONFIG_FILE)}

    def undo(self, host: Host, before: Before) -> None:
        machine = host.machine
        for name in machine.names(MIRRORS):
            path = f"{MIRRORS}/{name}/hosts.toml"
            if machine.content(path).startswith(MARK.encode()):
                machine.remove(path)
                machine.remove(os.path.dirname(path))
        if machine.content(CONFIG_FILE).startswith(MARK.encode()):
            machine.restore(CONFIG_FILE, before["config"])
            machine.run("systemctl", "restart", "containerd.service", timeout_s=RESTART_S)

    def _config(self, host: Host) -> str:
        version = containerd_version(host.machine)
        declared, toolkit = (
            packaged(host.document, "runtime", "containerd"),
            packaged(host.document, "gpu", "toolkit"),
        )
        return containerd_config(declared, int((version or "2").split(".")[0]), toolkit)


def containerd_version(machine: Machine) -> str:
    """Such as 1.7.27; empty when there is none. Some builds put a v before it, Debian's a suffix
    behind it.
    """
    printed = machine.run("containerd", "--version").out
    return first_match(r"^containerd \S+ v?(\d+(?:\.\d+)+)", printed)

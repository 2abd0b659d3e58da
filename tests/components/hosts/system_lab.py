"""A lab that asks for all of the operating system, and the host program's verbs on one of its servers."""

import base64
from typing import Any

from components.hosts.document import host_document
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.system_kernel import SystemHost

KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
ALL: dict[str, Any] = {
    "packages": {"debian": ["jq", "pciutils"], "rhel": ["perf"]},
    "clock": {"daemon": "chrony", "servers": ["10.0.0.5", "time.lab.example"]},
    "kernel_arguments": {"iommu": "auto", "pci_realloc": True, "extra": ["processor.max_cstate=1"]},
    "hostname": True,
    "hosts_file": True,
    "cpu_governor": "performance",
    "watch": {"folder": "/var/lib/node-exporter", "every_s": 15},
    "users": [
        {"name": "ops", "keys": [f"ssh-ed25519 {KEY} ops@desk"], "uid": 1500, "sudo": True},
        {"name": "nvidia", "keys": [f"ssh-ed25519 {KEY} night shift"]},
    ],
}


def document_of(lab: Lab, system: dict[str, Any], *, reboot: str = "roll") -> dict[str, Any]:
    asked = {**lab.model_dump(mode="json"), "system": system, "hosts": {"reboot": reboot}}
    asked = Lab.model_validate(asked)
    return host_document(asked, asked.nodes[0])


def made(machine: SystemHost, document: dict[str, Any]) -> None:
    """A conforming, confirmed host, rebooted where it had to be."""
    result = run("apply", machine, document)
    assert result["failed"] is None, result
    if result["needs_reboot"]:
        machine.reboot()
        run("apply", machine, document)
    run("confirm", machine, document)
    assert differing(machine, document) == {}


def files(machine: SystemHost) -> dict[str, str]:
    """All that lies under /etc and in the homes, with modes where they matter."""
    found = {}
    for top in ("etc", "home"):
        for path in sorted((machine.folder / top).rglob("*")):
            if path.is_file() and not path.is_symlink():
                mode = path.stat().st_mode & 0o777
                found[f"/{path.relative_to(machine.folder)} {mode:o}"] = path.read_text()
    return found

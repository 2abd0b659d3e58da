"""Packages that the lab wants on every node."""

from typing import List, Set

from ..distribution import PACKAGES_S, family, install, missing_packages
from ..host import Document, Host
from ..step import Fields, Step, value_or_reason


class PackagesStep(Step):
    """Installed when missing, never upgraded or removed: other software may rely on them."""

    name = "packages"
    order = 210
    longest_s = PACKAGES_S
    setting = "system.packages"
    effects = {"packages": "none"}
    repairs = {
        "packages": "service"
    }  # a package's script may reload systemd, which containers with GPUs feel

    def target(self, document: Document) -> Fields:
        return {"packages": "installed"} if document.get("packages") else {}

    def observed(self, host: Host) -> Fields:
        return {"packages": value_or_reason(lambda: self._state(host))}

    def _state(self, host: Host) -> str:
        missing = missing_packages(host.machine, self._names(host))
        return f"missing: {', '.join(missing)}" if missing else "installed"

    def refuse(self, host: Host) -> None:
        family(host.machine)

    def apply(self, host: Host, wrong: Set[str]) -> None:
        install(host.machine, missing_packages(host.machine, self._names(host)))

    def _names(self, host: Host) -> List[str]:
        names = host.document["packages"].get(family(host.machine), [])
        return list(names)

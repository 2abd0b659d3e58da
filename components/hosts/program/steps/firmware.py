"""Firmware settings of the NICs: whether there may be VFs, and how many."""

from typing import Callable, Dict, List, Optional, Set

from ..firmware_settings import TOOL_S, Setting, query, tool_of
from ..host import Document, Host
from ..machine import StepError
from ..step import Before, Fields, Step, interface_of

NAMES = ("SRIOV_EN", "NUM_OF_VFS")


class Firmware(Step):
    """Set now, and read by the NIC at the next boot.

    An undo leaves it: it changes nothing until somebody makes VFs, and putting it back would cost every host that
    leaves a lab a reboot. What was there before stands in the host's baseline.
    """

    name = "firmware"
    order = 330
    at_boot = False
    effects = {"firmware": "reboot"}
    repairs = {"firmware": "reboot"}

    def wanted(self, document: Document) -> Fields:
        asked = document.get("firmware")
        if not asked:
            return {}
        return {f"{name}.firmware": _text(asked["vfs"]) for name in asked["pfs"]}

    def observed(self, host: Host) -> Fields:
        return {f"{name}.firmware": self._found(host, name) for name in host.document["firmware"]["pfs"]}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        asked = host.document["firmware"]
        for field in sorted(wrong):
            name = interface_of(field)
            reason = (
                f"{field} {self._found(host, name)} => {self.wanted(host.document)[field]}: read by the NIC at boot"
            )
            if not asked["may_reboot"]:
                host.wait_for_reboot(field, f"{reason}; nothing was set, since hosts.allow_reboot is false")
                continue
            device = self._device(host, name)
            set_parameters(host, name, device, self._changes)
            host.wait_for_reboot(field, reason)

    def before_pf(self, host: Host, pf: str) -> Before:
        if pf not in (host.document.get("firmware") or {}).get("pfs", []):
            return {}
        try:
            settings = query(host.machine, self._device(host, pf))
        except StepError:
            return {}  # apply says it better
        return {"firmware": {key: settings[key].now for key in sorted(settings) if key in NAMES}}

    def _device(self, host: Host, pf: str) -> str:
        return host.machine.target(f"/sys/class/net/{pf}/device")

    def _found(self, host: Host, pf: str) -> str:
        asked = host.document["firmware"]
        try:
            settings = query(host.machine, self._device(host, pf))
        except StepError as error:
            return error.reason
        names = [name for name in NAMES if name in settings]
        now = _normal({name: settings[name].now for name in names}, asked["vfs"])
        later = _normal({name: settings[name].next for name in names}, asked["vfs"])
        return now if now == later else f"{now}, from the next boot on {later}"

    def _changes(self, host: Host, pf: str, settings: Dict[str, Setting]) -> List[str]:
        """Words for `set`: what is not yet right from the next boot on."""
        vfs, changes = host.document["firmware"]["vfs"], []
        if _value(settings, "SRIOV_EN") != 1:
            changes.append("SRIOV_EN=1")
        if (_value(settings, "NUM_OF_VFS") or 0) < vfs:
            changes.append(f"NUM_OF_VFS={vfs}")
        return changes


def set_parameters(
    host: Host, pf: str, device: str, changes: Callable[[Host, str, Dict[str, Setting]], List[str]]
) -> None:
    """Sets what is not yet right from the next boot on, and looks whether the NIC has taken it."""
    words = changes(host, pf, query(host.machine, device))
    if not words:
        return
    host.machine.must(tool_of(host.machine), "-d", device, "-y", "set", *words, timeout_s=TOOL_S)
    if left := changes(host, pf, query(host.machine, device)):
        raise StepError(
            f"{pf} ({device}) keeps its firmware settings: {' '.join(left)} was not taken",
            "is the firmware older than the parameter, or the NIC a BlueField that its own CPU governs?",
        )


def pf_port(host: Host, pf: str) -> int:
    """Which port of its NIC a PF is: function 0 is the first."""
    return int(host.machine.target(f"/sys/class/net/{pf}/device").rpartition(".")[2] or 0) + 1


def _value(settings: Dict[str, Setting], name: str) -> Optional[int]:
    return settings[name].next if name in settings else None


def _text(vfs: int) -> str:
    return f"SRIOV_EN=1 NUM_OF_VFS={vfs}"


def _normal(values: Dict[str, int], vfs: int) -> str:
    """In the words of `_text`: more VFs than asked for are as good."""
    return f"SRIOV_EN={values.get('SRIOV_EN', 0)} NUM_OF_VFS={min(vfs, values.get('NUM_OF_VFS', 0))}"

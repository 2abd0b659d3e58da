"""Firmware settings of the NICs: whether VFs are enabled, and how many."""

import json
from typing import Callable, Dict, List, Optional, Set

from ..firmware_settings import TOOL_S, Setting, query, tool_of
from ..host import Document, Host, interface_of
from ..machine import StepError, load_json
from ..places import BOOT_ID, FIRMWARE_BOOTS_FILE
from ..step import Before, Fields, Pf, PfStep, section_of

NAMES = ("SRIOV_EN", "NUM_OF_VFS")


class FirmwareStep(PfStep):
    """Set now, and read by the NIC at the next boot.

    An undo leaves them: they change nothing until VFs are created, and restoring them would need a
    reboot of every host that leaves a lab. The host's baseline has the old values.
    """

    name = "firmware"
    order = 330
    longest_s = 240
    effects = {"firmware": "reboot"}

    def target_of(self, document: Document, pf: Pf) -> Fields:
        declared = section_of(document, "firmware")
        if pf["interface"] not in declared.get("pfs", ()):
            return {}
        return {"firmware": _text(1, declared["vfs"])}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"firmware": self._state(host, pf["interface"])}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        target = self.target(host.document)
        for field in sorted(wrong):
            change = f"{self._state(host, interface_of(field))} => {target[field]}"
            set_for_next_boot(host, field, change, self._changes)

    def before_pf(self, host: Host, pf: str) -> Optional[Before]:
        if pf not in section_of(host.document, "firmware").get("pfs", []):
            return None
        try:
            settings = nic_settings(host, pf)
        except StepError:
            return None  # apply reports the reason
        return {key: settings[key].now for key in sorted(settings) if key in NAMES}

    def _state(self, host: Host, pf: str) -> str:
        vfs = host.document["firmware"]["vfs"]
        try:
            settings = nic_settings(host, pf)
        except StepError as error:
            return error.reason
        none = Setting(0, 0)
        enabled, count = (settings.get(name, none) for name in NAMES)
        # more VFs than the lab file has also conform
        now = _text(enabled.now, min(vfs, count.now))
        later = _text(enabled.next, min(vfs, count.next))
        if now == later:
            return now
        when = "from the next boot on"
        if _outlived_a_reboot(host, f"{pf}.firmware"):
            when = "after a power cycle"
        return f"{now}, {when} {later}"

    def _changes(self, host: Host, pf: str, settings: Dict[str, Setting]) -> List[str]:
        """Arguments for `set`: the values that the next boot would not have yet."""
        vfs, changes = host.document["firmware"]["vfs"], []
        later = {name: setting.next for name, setting in settings.items()}
        if later.get("SRIOV_EN") != 1:
            changes.append("SRIOV_EN=1")
        if later.get("NUM_OF_VFS", 0) < vfs:
            changes.append(f"NUM_OF_VFS={vfs}")
        return changes


def nic_settings(host: Host, pf: str) -> Dict[str, Setting]:
    """The settings of a PF's NIC; its tool takes a second or more, so it runs once until something
    changes.
    """
    device = host.pci_address(pf)
    settings: Dict[str, Setting] = host.remembered(
        f"firmware {device}", lambda: query(host.machine, device)
    )
    return settings


def set_for_next_boot(
    host: Host,
    field: str,
    change: str,
    changes: Callable[[Host, str, Dict[str, Setting]], List[str]],
) -> None:
    """Sets what the next boot would not have yet, if the lab allows that; the field waits for it.

    A warm reboot leaves some cards' settings pending (sriov-network-operator#449), so the boot in
    which a value was set is recorded: if it is still pending in a later one, another reboot would
    change nothing either.
    """
    machine, pf = host.machine, interface_of(field)
    device, words = host.pci_address(pf), changes(host, pf, nic_settings(host, pf))
    if not words and _outlived_a_reboot(host, field):
        raise StepError(
            f"{field} {change}: set, but still pending after a reboot",
            f"drain the host, remove the VFs of {pf}, and run mlxfwreset -d {device} -y reset; or "
            "power cycle it",
        )
    reason = f"{field} {change}: read by the NIC at boot"
    if words and not host.document.get("may_stage"):
        host.wait_for_reboot(field, f"{reason}; nothing was set, since hosts.reboot is never")
        return
    if words:
        machine.must(tool_of(machine), "-d", device, "-y", "set", *words, timeout_s=TOOL_S)
        host.forget()
    if left := changes(host, pf, nic_settings(host, pf)):
        raise StepError(
            f"{pf} ({device}) keeps its firmware settings: {' '.join(left)} was not accepted",
            "the firmware may be older than the parameter, or the NIC a BlueField controlled by "
            "its own CPU",
        )
    boots = {**load_json(machine, FIRMWARE_BOOTS_FILE), field: machine.read(BOOT_ID)}
    machine.put(FIRMWARE_BOOTS_FILE, json.dumps(boots, sort_keys=True) + "\n")
    host.wait_for_reboot(field, reason)


def _outlived_a_reboot(host: Host, field: str) -> bool:
    """Whether the host was booted since the field was set."""
    now = host.machine.read(BOOT_ID)
    return bool(load_json(host.machine, FIRMWARE_BOOTS_FILE).get(field, now) != now)


def _text(enabled: int, vfs: int) -> str:
    return f"SRIOV_EN={enabled} NUM_OF_VFS={vfs}"

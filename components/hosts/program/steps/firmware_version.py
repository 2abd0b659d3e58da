"""The version of the NICs' firmware, compared where the lab file sets one."""

import re
from typing import Dict

from ..host import Document, Host
from ..machine import Machine, StepError
from ..step import Fields, Step, interface_of, section_of

UNKNOWN = "unknown"


class FirmwareVersion(Step):
    """Only checked.

    You update firmware by hand, since an interrupted update can leave a card unusable.
    """

    name = "firmware_version"
    order = 120
    at_boot = False
    effects = {"firmware_version": "none"}
    version_setting = "firmware.version"
    upgrade = (
        "kubectl drain it, flash the vendor's image for the card's PSID (mstflint -i IMAGE burn), "
        "cold boot, kubectl uncordon it"
    )

    def target(self, document: Document) -> Fields:
        declared: Dict[str, str] = section_of(document, "firmware_versions")
        return {f"{pf}.firmware_version": declared[pf] for pf in sorted(declared)}

    def versions(self, document: Document) -> Dict[str, str]:
        return {field: str(version) for field, version in self.target(document).items()}

    def observed(self, host: Host) -> Fields:
        fields: Fields = {}
        for field in self.target(host.document):
            fields[field] = running(host, interface_of(field)) or UNKNOWN
        return fields

    def refuse(self, host: Host) -> None:
        for pf, version in sorted(host.document["firmware_versions"].items()):
            installed = running(host, pf)
            if not installed:
                raise StepError(
                    f"{pf} does not report its firmware, but firmware.version is {version}",
                    f"install ethtool (system.packages); a NIC for which `ethtool -i {pf}` shows "
                    "no firmware-version cannot be compared: set firmware.version_by_rail for "
                    "the others instead",
                )
            if installed != version:
                raise StepError(
                    f"{pf} runs firmware {installed}, but firmware.version is "
                    f"{version}{_waiting(host, pf, installed)}",
                    by_hand(host, pf, version) + f"; or set firmware.version to {installed}",
                )


def running(host: Host, pf: str) -> str:
    """The version that a PF runs; empty when neither the kernel nor ethtool reports one."""
    return _of_rdma_device(host.machine, pf) or parse_driver_info(
        host.machine.run("ethtool", "-i", pf).out
    )


def parse_driver_info(printed: str) -> str:
    """The version in the output of `ethtool -i`.

    Drivers append what their cards are: `16.35.4030 (MT_0000000008)`.
    """
    version = re.search(r"^firmware-version:[ \t]*(\S+)", printed, re.MULTILINE)
    return version[1] if version and version[1] != "N/A" else ""


def parse_flashed(printed: str) -> str:
    """The version in a card's flash, by `mstflint query`; the card runs it after its next reset."""
    version = re.search(r"^FW Version:[ \t]*(\S+)", printed, re.MULTILINE)
    return version[1] if version else ""


def by_hand(host: Host, pf: str, version: str) -> str:
    """What you do by hand; rocelab never does it."""
    device = host.pci_address(pf) or "its PCI address"
    return (
        f"rocelab never updates firmware: drain this host, flash the image of {version} for the "
        f"card's PSID (mstflint -d {device} query shows it; mstflint -d {device} -i IMAGE burn), "
        "then a cold boot"
    )


def _of_rdma_device(machine: Machine, pf: str) -> str:
    device = (machine.names(f"/sys/class/net/{pf}/device/infiniband") or [""])[0]
    return machine.read(f"/sys/class/infiniband/{device}/fw_ver") if device else ""


def _waiting(host: Host, pf: str, version: str) -> str:
    """A note when the flash already has another version, so that only a cold boot is missing."""
    flashed = parse_flashed(host.machine.run("mstflint", "-d", host.pci_address(pf), "query").out)
    return (
        f"; {flashed} is in its flash and waits for a cold boot"
        if flashed not in ("", version)
        else ""
    )

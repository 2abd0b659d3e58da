"""The version of the NICs' firmware, compared where the lab file sets one."""

from typing import Dict

from ..host import Document, Host
from ..machine import Machine, StepError, first_match
from ..step import Fields, Pf, PfStep, section_of

UNKNOWN = "unknown"


class FirmwareVersion(PfStep):
    """Only checked. You update firmware by hand, since an interrupted update can leave a card
    unusable.
    """

    name = "firmware_version"
    order = 120
    effects = {"firmware_version": "none"}
    version_setting = "firmware.version"
    upgrade = (
        "kubectl drain it, flash the vendor's image for the card's PSID (mstflint -i IMAGE burn), "
        "cold boot, kubectl uncordon it"
    )

    def target_of(self, document: Document, pf: Pf) -> Fields:
        version = section_of(document, "firmware_versions").get(pf["interface"])
        return {"firmware_version": version} if version else {}

    def versions(self, document: Document) -> Dict[str, str]:
        declared: Dict[str, str] = section_of(document, "firmware_versions")
        return {f"{pf}.firmware_version": version for pf, version in declared.items()}

    def observed_of(self, host: Host, pf: Pf) -> Fields:
        return {"firmware_version": running(host, pf["interface"]) or UNKNOWN}

    def refuse(self, host: Host) -> None:
        for pf, version in sorted(host.document["firmware_versions"].items()):
            installed = running(host, pf)
            if not installed:
                raise StepError(
                    f"{pf} does not report its firmware, but firmware.version is {version}",
                    "install ethtool (system.packages), or set firmware.version_by_rail for "
                    "the other rails only",
                )
            if installed != version:
                device = host.pci_address(pf) or "its PCI address"
                raise StepError(
                    f"{pf} runs firmware {installed}, but firmware.version is "
                    f"{version}{_waiting(host, pf, installed)}",
                    "rocelab never updates firmware: drain this host, flash the image of "
                    f"{version} for the card's PSID (mstflint -d {device} query shows it; mstflint "
                    f"-d {device} -i IMAGE burn), then a cold boot; or set firmware.version to "
                    f"{installed}",
                )


def running(host: Host, pf: str) -> str:
    """The version that a PF runs; empty when neither the kernel nor ethtool reports one."""
    return _of_rdma_device(host.machine, pf) or parse_driver_info(
        host.machine.run("ethtool", "-i", pf).out
    )


def parse_driver_info(printed: str) -> str:
    """The version in the output of `ethtool -i`. Drivers append what their cards are: `16.35.4030
    (MT_0000000008)`.
    """
    version = first_match(r"^firmware-version:[ \t]*(\S+)", printed)
    return version if version != "N/A" else ""


def parse_flashed(printed: str) -> str:
    """The version in a card's flash, by `mstflint query`; the card runs it after its next reset."""
    return first_match(r"^FW Version:[ \t]*(\S+)", printed)


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

"""What a host's document says of the NICs' driver and firmware settings."""

from pydantic import JsonValue

from components.hosts.program.steps.driver_container import UNLOADS
from stacks.drivers import NicDriver
from stacks.lab import Lab
from stacks.nodes import BareMetal, Node
from stacks.software import Download

BUILD_S = 1800
"""What a run may take longer when a driver is asked for: lists, packages, and modules built on a slow core."""
FIRMWARE_S = 240
CONNECTX = "mlx5_core"
"""What drivers and firmware here are about. A guest's vmxnet3 and the simulator's igb have others, which come with the
kernel: a guest with PVRDMA has no mlx5_core at all."""


def driver_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: the cluster's operator owns the driver, or there is no NIC of that driver to look at."""
    driver = lab.driver
    in_use = any(pf.driver == CONNECTX for pf in node.pfs)
    if driver.source == "operator" or (driver.source == "keep" and not in_use):
        return None
    section: dict[str, JsonValue] = {"source": driver.source, "version": driver.version, "in_use": in_use}
    if driver.source == "keep":
        return section
    return {
        **section,
        "packages": list(driver.packages),
        "download": download_of(driver.download),
        "kernel_modules": driver.kernel_modules,
        "replace": driver.replace,
        "restart": driver.restart,
        "may_reboot": lab.hosts.allow_reboot,
    }


def driver_container_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: no driver container will replace this host's driver."""
    if lab.driver.source != "operator" or not any(pf.driver == CONNECTX for pf in node.pfs):
        return None
    unloads: list[JsonValue] = [name for name in UNLOADS if lab.driver.container_env.get(name, "").lower() == "true"]
    return {"unloads": unloads}


def firmware_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: firmware settings are nobody's business here."""
    pfs = [pf.interface for pf in node.pfs if pf.driver == CONNECTX]
    if not lab.firmware.manage or not pfs:
        return None
    return {
        "pfs": list(pfs),
        "vfs": lab.firmware.vfs_ceiling,
        "convert": [pf.interface for pf in node.pfs if pf.convert_infiniband],
        "may_reboot": lab.hosts.allow_reboot,
    }


def firmware_versions_section(lab: Lab, node: Node) -> dict[str, JsonValue] | None:
    """None: whatever the NICs run is fine, or there is no card of the node's own whose firmware it could be."""
    if not isinstance(node, BareMetal):
        return None
    versions = {pf.interface: lab.firmware.version_of(pf.rail) for pf in node.pfs}
    return {pf: version for pf, version in versions.items() if version} or None


def driver_seconds(lab: Lab) -> int:
    """How much longer than usual a run may take for driver and firmware."""
    return (BUILD_S if _installs(lab.driver) else 0) + (FIRMWARE_S if lab.firmware.manage else 0)


def download_of(download: Download | None) -> JsonValue:
    """A file of the vendor's, in the document's form."""
    return {"url": download.url, "sha256": download.sha256} if download else None


def _installs(driver: NicDriver) -> bool:
    return driver.source not in ("keep", "operator")

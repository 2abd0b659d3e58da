"""NVIDIA's driver among a host's packages. A host takes seconds to list them: what it said holds until it restarts."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyVmomi import vim, vmodl

from components.fabric.preflight.facts import Packages
from components.fabric.vcenter.esxcli import esxcli
from stacks.base import LabError

LIST = "software vib list"
NVIDIA = ("NVIDIA", "NVD")
"""The vendor as packages name it."""
SAME_START_S = 60
"""A host tells when it started by its clock, which is set right by seconds; no server starts twice in a minute."""
LONGEST = 200
"""Letters kept of a driver's name and version."""


def kept(state: object) -> dict[str, Packages]:
    """What the state has of each host; nothing of one that cannot be read."""
    found = {}
    for host, told in state.items() if isinstance(state, Mapping) else ():
        if isinstance(told, Mapping):
            texts = {key: str(told.get(key) or "") for key in ("driver", "build", "booted")}
            found[str(host)] = Packages(**texts)
    return found


def packages_of(host: vim.HostSystem, name: str, found: Mapping[str, Any], before: Packages | None) -> Packages:
    """A host's packages, as they were told before where nothing points to a change since.

    A driver comes or goes with a restart, or in maintenance mode; so a host in that mode is always asked.

    Args:
        host: which is asked.
        name: its name.
        found: its properties.
        before: what the last run has kept of it.
    """
    product, booted = found.get("config.product"), found.get("runtime.bootTime")
    now = Packages(
        driver="", build=str(product.build or "") if product else "", booted=booted.isoformat() if booted else ""
    )
    if before is not None and not found.get("runtime.inMaintenanceMode") and _unchanged(before, now):
        return before
    driver = _driver(host, name, found.get("configManager.imageConfigManager"))[:LONGEST]
    return Packages(driver=driver, build=now.build, booted=now.booted)


def _unchanged(before: Packages, now: Packages) -> bool:
    if not before.lasting or before.build != now.build or not now.booted:
        return False
    try:
        apart = datetime.fromisoformat(now.booted) - datetime.fromisoformat(before.booted)
    except (TypeError, ValueError):  # a state that somebody edited: no time, or one without its zone
        return False
    return abs(apart.total_seconds()) <= SAME_START_S


def _driver(host: vim.HostSystem, name: str, images: Any) -> str:
    """NVIDIA's host driver; the names of its packages have changed with every generation of it.

    Args:
        host: where to ask by esxcli, should the role not have Host.Config.Image.
        name: the host's name.
        images: its image manager; None: it has none.
    """
    if images is None:
        return ""
    try:
        packages = [(one.vendor, one.name, one.version) for one in images.FetchSoftwarePackages()]
    except TimeoutError:
        return ""  # a host that is too busy for this is too busy for esxcli
    except vmodl.MethodFault:
        packages = _listed(host, name)
    found = [(driver, version) for vendor, driver, version in packages if vendor in NVIDIA and "nmlx" not in driver]
    return ", ".join(f"{driver} {version}" for driver, version in sorted(found))


def _listed(host: vim.HostSystem, name: str) -> list[tuple[str, str, str]]:
    try:
        rows = esxcli(host, name, LIST)
    except LabError:
        return []
    return [(one.get("Vendor", ""), one.get("Name", ""), one.get("Version", "")) for one in rows]

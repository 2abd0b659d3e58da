"""Rules between drivers, firmware, GPUs and the rest of the lab."""

from collections.abc import Iterator

from stacks.access import Access
from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.nodes import BareMetal
from stacks.rules.parts import Fault, Parts, Path
from stacks.system import System


def refuse_operators_without_a_cluster(parts: Parts) -> Iterator[Fault]:
    if parts.has("cluster"):
        return
    driver, gpu = parts.section("driver", NicDriver), parts.section("gpu", Gpu)
    sources: tuple[tuple[Path, str], ...] = (
        (("driver", "source"), driver.source if driver else ""),
        (("gpu", "driver", "source"), gpu.driver.source if gpu else ""),
        (("gpu", "toolkit", "source"), gpu.toolkit.source if gpu else ""),
    )
    for path, source in sources:
        if source == "operator":
            yield Fault(path, "operator needs a cluster to run in; use keep, or add cluster")


def refuse_impossible_firmware_settings(parts: Parts, firmware: Firmware) -> Iterator[Fault]:
    if not firmware.manage:
        for path, _, pf in parts.pfs():
            if pf.convert_infiniband:
                yield Fault(
                    (*path, "convert_infiniband"),
                    "firmware.manage is false, so the port type would not change; set it to true",
                )
        return
    for path, _, pf in parts.pfs():
        if pf.driver != "mlx5_core":
            yield Fault(
                (*path, "driver"),
                f"{pf.driver} has no firmware settings; set firmware.manage: false",
            )
        elif pf.vfs > firmware.vfs_ceiling:
            yield Fault(
                (*path, "vfs"),
                f"{pf.vfs} exceeds firmware.vfs_ceiling {firmware.vfs_ceiling}; raise the ceiling "
                "or lower vfs",
            )


def refuse_firmware_versions_without_a_nic(parts: Parts, firmware: Firmware) -> Iterator[Fault]:
    rails = [rail.name for rail in parts.rails.values()]
    for rail in firmware.version_by_rail if parts.all_rails_valid else ():
        if rail not in rails:
            yield Fault(
                ("firmware", "version_by_rail", rail),
                f"this lab has no rail {rail}; rails: {', '.join(rails)}",
            )
    for path, node, pf in parts.pfs():
        if (
            isinstance(node, BareMetal)
            and pf.driver != "mlx5_core"
            and firmware.version_of(pf.rail)
        ):
            yield Fault(
                (*path, "driver"),
                f"{pf.driver} has no firmware; remove {pf.rail} from firmware.version_by_rail",
            )


def refuse_to_change_the_login(access: Access, system: System) -> Iterator[Fault]:
    """The account that rocelab logs in with gets keys only: a mistake would lock everyone out."""
    for i, user in enumerate(system.users):
        if user.name == access.user and (user.uid is not None or user.sudo):
            yield Fault(
                ("system", "users", i),
                f"{user.name} is access.user, the account rocelab logs in with; give it keys only, "
                "no uid and no sudo",
            )

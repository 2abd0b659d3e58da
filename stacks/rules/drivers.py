"""Rules between drivers, firmware, GPUs and the rest of the lab."""

from collections.abc import Callable, Iterator

from stacks.drivers import Firmware, NicDriver
from stacks.gpus import Gpu
from stacks.nodes import BareMetal
from stacks.rules.parts import Fault, Parts, Path


def _refuse_operators_without_a_cluster(parts: Parts) -> Iterator[Fault]:
    if parts.cluster is not None:
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


def _refuse_firmware_settings_that_cannot_be(parts: Parts) -> Iterator[Fault]:
    firmware = parts.section("firmware", Firmware)
    if firmware is None:
        return
    if not firmware.manage:
        for path, _, pf in parts.pfs():
            if pf.convert_infiniband:
                yield Fault(
                    (*path, "convert_infiniband"), "firmware.manage is false, so nothing would be set: set it true"
                )
        return
    for path, _, pf in parts.pfs():
        if pf.driver != "mlx5_core":
            yield Fault((*path, "driver"), f"{pf.driver} has no firmware settings; set firmware.manage: false")
        elif pf.vfs > firmware.vfs_ceiling:
            yield Fault(
                (*path, "vfs"),
                f"{pf.vfs} exceeds firmware.vfs_ceiling {firmware.vfs_ceiling}; raise the ceiling or lower vfs",
            )


def _refuse_firmware_versions_of_nobody(parts: Parts) -> Iterator[Fault]:
    firmware = parts.section("firmware", Firmware)
    if firmware is None:
        return
    rails = [rail.name for rail in parts.rails.values()]
    for rail in firmware.version_by_rail if parts.all_rails_valid else ():
        if rail not in rails:
            yield Fault(
                ("firmware", "version_by_rail", rail), f"this lab has no rail {rail}; rails: {', '.join(rails)}"
            )
    for path, node, pf in parts.pfs():
        if isinstance(node, BareMetal) and pf.driver != "mlx5_core" and firmware.version_of(pf.rail):
            yield Fault(
                (*path, "driver"), f"{pf.driver} has no firmware; remove {pf.rail} from firmware.version_by_rail"
            )


DRIVER_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (
    _refuse_operators_without_a_cluster,
    _refuse_firmware_settings_that_cannot_be,
    _refuse_firmware_versions_of_nobody,
)

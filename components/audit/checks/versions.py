"""Versions: firmware, drivers and kernels that should be the same, or loaded as installed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from components.audit.findings import Faults, Severity
from components.audit.fleet import Port
from components.audit.registry import OPTIMIZED, PRACTICE, check
from components.audit.view import View, fault
from components.inventory.reading import NOT_READ, Reading

CLUSTER_HEALTH = "https://github.com/imbue-ai/cluster-health"
NEXT_BOOT = "https://docs.nvidia.com/networking/display/mftv4280/examples+of+mlxconfig+usage"
FABRIC_MANAGER = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"


@check(
    "nic-firmware",
    Severity.MEDIUM,
    title="NIC firmware differs between identical NICs",
    why="versions differ in defaults and bugs, so one host behaves unlike its peers",
    source=CLUSTER_HEALTH,
    remedy="update the minority with mlxfwmanager, drained, one host at a time",
)
def nic_firmware(view: View) -> Faults:
    equal = []
    for port in _with_firmware(view):
        model = (port.pf.device_id.or_else(""), port.pf.board_id.or_else(""))
        equal.append(replace(port, peers=model))
    return view.unlike_peers(equal, lambda port: port.pf.firmware)


def _with_firmware(view: View) -> Iterator[Port]:
    """Ports without those that have soft-RoCE alone."""
    for port in view.ports:
        if not all(device.soft for device in port.pf.rdma.or_else(())):
            yield port


@check(
    "nic-model",
    Severity.MEDIUM,
    title="The slot holds a different NIC than its peers",
    why="boards differ in speed, firmware and features",
    source=CLUSTER_HEALTH,
    remedy="swap the card, or accept the difference with a waiver",
)
def nic_model(view: View) -> Faults:
    return view.unlike_peers(_with_firmware(view), lambda port: port.pf.board_id)


@check(
    "firmware-pending",
    Severity.MEDIUM,
    title="NIC firmware settings are waiting for a reboot",
    why="the next reboot, whenever that is, changes what the NIC is: its VFs, its link type, its "
    "place on PCIe",
    source=NEXT_BOOT,
    remedy="drain and cold-boot the node, or set them back with mstconfig",
)
def firmware_pending(view: View) -> Faults:
    for port, reading, pending in view.each(
        _asked_for_firmware(view), lambda port: port.pf.pending_firmware
    ):
        for value in pending:
            after = f"{value.next} from the next boot on"
            yield fault(port, reading, f"{value.name} {value.now}", after)


def _asked_for_firmware(view: View) -> tuple[Port, ...]:
    """All ports; none if the look was not to read firmware settings, which is then on record."""
    if all(port.pf.pending_firmware is NOT_READ for port in view.ports):
        view.skip("", "not requested: use rocelab look --firmware")
        return ()
    return view.ports


@check(
    "firmware-settings",
    Severity.MEDIUM,
    title="Firmware settings of the NIC differ from peers",
    why="one NIC that orders writes strictly, or handles congestion differently, slows every "
    "ring through it",
    source=OPTIMIZED,
    remedy="set the value that most peers have: with mstconfig and a cold boot, or for "
    "roce_..._en with `mlxreg "
    "--reg_name ROCE_ACCL --set`, again at each boot",
)
def firmware_settings(view: View) -> Faults:
    ports = _asked_for_firmware(view)
    yield from _unlike_in(view, ports, lambda port: port.pf.firmware_settings)
    yield from _unlike_in(view, ports, lambda port: port.pf.roce_acceleration)


def _unlike_in(
    view: View, ports: Iterable[Port], reading_of: Callable[[Port], Reading[dict[str, int]]]
) -> Faults:
    """Settings that differ from what most peers have; firmware of another version may lack some."""
    names: set[str] = set()
    for _, _, settings in view.each(ports, reading_of):
        names.update(settings)
    for name in sorted(names):
        yield from view.unlike_peers(
            ports, partial(_setting, reading_of, name), f"{name} {{}}".format
        )


def _setting(
    reading_of: Callable[[Port], Reading[dict[str, int]]], name: str, port: Port
) -> Reading[str]:
    return reading_of(port).map(lambda settings: str(settings.get(name, "absent")))


@check(
    "kernel-version",
    Severity.MEDIUM,
    title="Kernel differs from peers",
    why="each kernel has its own drivers, bugs and defaults",
    source=CLUSTER_HEALTH,
    remedy="upgrade the minority and hold the kernel package",
)
def kernel_version(view: View) -> Faults:
    return view.unlike_peers(view.places, lambda place: place.host.system.kernel)


@check(
    "driver-not-loaded",
    Severity.MEDIUM,
    title="The installed driver is not the loaded one",
    why="an upgrade is half done: the next reboot or driver restart loads another driver",
    source=PRACTICE,
    remedy="drain the node and reboot it",
)
def driver_not_loaded(view: View) -> Faults:
    for place, _, drivers in view.each(view.places, lambda place: place.host.system.drivers):
        for driver in drivers:
            if not driver.loaded.or_else(""):
                continue
            loaded, on_disk = driver.loaded, driver.on_disk
            if loaded.value == on_disk.value or not on_disk.value:
                # builds of one version differ in the checksum of their sources
                loaded, on_disk = driver.loaded_srcversion, driver.on_disk_srcversion
            if not loaded.value or not on_disk.value:
                view.skip(
                    place.node, on_disk.unknown or loaded.unknown or "the module has no version"
                )
            elif loaded.value != on_disk.value:
                yield fault(place, loaded, loaded.value, on_disk.value, part=driver.module)


@check(
    "reboot-pending",
    Severity.MEDIUM,
    title="The host waits for a reboot",
    why="upgrades take effect only at the next reboot",
    source=PRACTICE,
    remedy="drain the node and reboot it",
)
def reboot_pending(view: View) -> Faults:
    words = {True: "reboot required", False: "no reboot required"}
    return view.unlike(
        view.places, lambda place: place.host.system.reboot_required, False, words.__getitem__
    )


@check(
    "fabric-manager",
    Severity.CRITICAL,
    title="Fabric Manager does not fit the GPU driver",
    why="Fabric Manager refuses other driver versions, and without it CUDA does not start on "
    "NVSwitch systems",
    source=FABRIC_MANAGER,
    remedy="install the Fabric Manager of the driver's version and restart nvidia-fabricmanager",
)
def fabric_manager(view: View) -> Faults:
    for place, _, driver in view.each(view.places, lambda place: place.host.system.gpu_driver):
        reading = place.host.system.fabric_manager
        version = view.read(place.node, reading) if driver else None
        if version and version != driver:
            yield fault(place, reading, version, driver)


@check(
    "fabric-manager-missing",
    Severity.CRITICAL,
    title="Fabric Manager is missing",
    why="without it CUDA does not start on NVSwitch systems",
    source=FABRIC_MANAGER,
    remedy="install nvidia-fabricmanager in the version of the GPU driver, and enable it",
)
def fabric_manager_missing(view: View) -> Faults:
    with_driver = (place for place in view.places if place.host.system.gpu_driver.value)
    return view.lacking(
        with_driver,
        lambda place: place.host.system.fabric_manager.map(bool),
        "installed",
        "not installed",
    )

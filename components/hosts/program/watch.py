"""Counters of rails and GPUs in Prometheus' text format, for node_exporter's textfile collector.

Only ports of the document are read, each by its PCI address: an unused port has no series, and a
renamed device keeps its own. What cannot be read is not reported as gone: it counts as unread.
"""

import errno
import json
import os
import re
import sys
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from .look.read_only import ReadOnly
from .machine import first_match, load_json
from .places import DOCUMENT_FILE, FAST_FILE, NICS_FILE, SLOW_FILE

SLOW_S = 120
"""Programs run only this often: nvidia-smi alone takes 65 ms of processor time for a GPU."""
NICENESS = 10
DEVICES, RDMA = "/sys/bus/pci/devices", "/sys/class/infiniband"
Sample = Tuple[str, float, Dict[str, str]]
"""Metric, value, and the labels besides lab, node and rail."""
METRICS = {
    "rocelab_watch_timestamp_seconds": ("gauge", "When the file was written."),
    "rocelab_boot_time_seconds": ("gauge", "When the host booted."),
    "rocelab_port_unread": ("gauge", "Whether a port of the lab file could not be read."),
    "rocelab_port_present": ("gauge", "Whether the NIC of the lab file has its network device."),
    "rocelab_port_up": ("gauge", "Whether it has a link."),
    "rocelab_port_rdma_active": ("gauge", "Whether it has an RDMA device in state ACTIVE."),
    "rocelab_port_carrier_down_total": ("counter", "How often the link went down."),
    "rocelab_port_speed_bytes": ("gauge", "Speed of the link, per second."),
    "rocelab_port_events_total": (
        "counter",
        "A counter of the NIC, by the name that its driver gives it.",
    ),
    "rocelab_module_temperature_celsius": ("gauge", "Temperature of the optical module."),
    "rocelab_module_power_dbm": ("gauge", "Optical power by direction and lane."),
    "rocelab_gpus": ("gauge", "GPUs that the driver lists."),
    "rocelab_gpu_state": (
        "gauge",
        "Whether a GPU on PCI is lost, throttled, waits for a reset or has damaged memory.",
    ),
    "rocelab_gpu_errors_total": ("counter", "Errors of a GPU since its driver was loaded."),
    "rocelab_gpu_temperature_celsius": ("gauge", "Temperature of a GPU."),
    "rocelab_gpu_xids_total": ("counter", "Xids since boot by code."),
}
"""Type and description of everything that is written."""
POWER = re.compile(
    r"^\s*(Laser output|Transmit avg optical|Rcvr signal avg optical"
    r"|Receiver signal average optical) power"
    r"\s*(?:\(Channel (\d+)\))?\s*: [\d.]+ mW / (-?(?:[\d.]+|inf)) dBm",
    re.MULTILINE,
)
TEMPERATURE = re.compile(r"^\s*Module temperature\s*: (-?[\d.]+) degrees C", re.MULTILINE)
FEC = re.compile(r"^\s*(corrected_blocks|uncorrectable_blocks|corrected_bits): (\d+)", re.MULTILINE)


class Samples:
    """Samples by metric, each with its labels."""

    def __init__(self, lab: str, node: str) -> None:
        self._common = {"lab": lab, "node": node}
        self._lines: Dict[str, List[str]] = {}

    def add(self, metric: str, value: float, **labels: str) -> None:
        pairs = {**self._common, **labels}
        written = ",".join(
            f"{name}={json.dumps(text, ensure_ascii=False)}" for name, text in pairs.items()
        )
        self._lines.setdefault(metric, []).append(f"{metric}{{{written}}} {value:.15g}")

    def text(self) -> str:
        lines = []
        for metric, samples in self._lines.items():
            kind, description = METRICS[metric]
            lines += [f"# HELP {metric} {description}", f"# TYPE {metric} {kind}", *samples]
        return "".join(f"{line}\n" for line in lines)


def watch_around() -> int:
    """The verb: it takes no lock, changes nothing but its two files, and runs at a low priority."""
    os.nice(NICENESS)
    machine = ReadOnly()
    document = load_json(machine, DOCUMENT_FILE)
    if not document.get("watch"):
        sys.stderr.write(f"{DOCUMENT_FILE} has no section watch: nothing is written\n")
        return 0
    write(machine, document, time.time())
    return 0


def write(machine: ReadOnly, document: Dict[str, Any], now_s: float) -> None:
    """Writes the fast file, and the slow one if it is due."""
    folder = machine.path(document["watch"]["folder"])
    _replace(f"{folder}/{FAST_FILE}", fast(machine, document, now_s).text())
    try:
        age_s = now_s - os.stat(f"{folder}/{SLOW_FILE}").st_mtime
    except OSError:
        age_s = SLOW_S
    if not 0 <= age_s < SLOW_S:
        _replace(f"{folder}/{SLOW_FILE}", slow(machine, document).text())


def _replace(path: str, text: str) -> None:
    """node_exporter sees the old file or the new one, and never a part."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o644)
    os.replace(path + ".new", path)


def fast(machine: ReadOnly, document: Dict[str, Any], now_s: float) -> Samples:
    """What the kernel's files hold: links, and the counters of RDMA devices."""
    samples = Samples(document["lab"], document["host"])
    samples.add("rocelab_watch_timestamp_seconds", now_s)
    booted = first_match(r"^btime (\d+)$", machine.read("/proc/stat"))
    if booted:
        samples.add("rocelab_boot_time_seconds", float(booted))
    for port in ports(machine, document):
        try:
            readings = port_samples(machine, port)
        except OSError as error:
            readings = [("rocelab_port_unread", 1, {})]
            sys.stderr.write(f"{port.rail}: {error}\n")
        for metric, value, labels in readings:
            samples.add(metric, value, rail=port.rail, **labels)
    return samples


class WatchedPort(NamedTuple):
    """A port of the document."""

    rail: str
    interface: str
    """As the lab file names it."""
    folder: str
    """Of its PCI function; empty for a NIC that was never seen."""
    mac: str


def ports(machine: ReadOnly, document: Dict[str, Any]) -> List[WatchedPort]:
    """PCI addresses and MACs are those of the first touch: names may change with a driver."""
    known = load_json(machine, NICS_FILE).get("pfs", {})
    watched = []
    for pf in document["pfs"]:
        name = pf["interface"]
        address, mac = known.get(name, ("", ""))
        address = pf.get("pci") or address
        folder = f"{DEVICES}/{address}" if address else ""
        watched.append(WatchedPort(document["watch"]["rails"][name], name, folder, mac))
    return watched


def port_samples(machine: ReadOnly, port: WatchedPort) -> List[Sample]:
    """The fast samples of a port; an error of a file that is there is raised."""
    interface = netdev_of(machine, port)
    present: List[Sample] = [
        ("rocelab_port_unread", 0, {}),
        ("rocelab_port_present", int(bool(interface)), {}),
    ]
    if not interface:
        return present
    net = f"/sys/class/net/{interface}"
    up = _has_carrier(machine, f"{net}/carrier")
    samples = [*present, ("rocelab_port_up", int(up), {})]
    if machine.exists(f"{net}/carrier_down_count"):
        samples.append(
            ("rocelab_port_carrier_down_total", int(machine.text(f"{net}/carrier_down_count")), {})
        )
    speed_mbit_s = int(machine.text(f"{net}/speed")) if up else 0
    if speed_mbit_s > 0:  # a virtual port has none
        samples.append(("rocelab_port_speed_bytes", speed_mbit_s * 1e6 / 8, {}))
    devices = rdma_devices(machine, port, interface)
    active = [
        device for device in devices if "ACTIVE" in machine.text(f"{RDMA}/{device}/ports/1/state")
    ]
    samples.append(("rocelab_port_rdma_active", int(bool(active)), {}))
    for device in devices[:1]:
        for folder in ("hw_counters", "counters"):
            samples += _counters(machine, f"{RDMA}/{device}/ports/1/{folder}")
    return samples


def netdev_of(machine: ReadOnly, port: WatchedPort) -> str:
    """What the NIC's network device is called now; empty when it has none."""
    if not port.folder:
        return port.interface if machine.exists(f"/sys/class/net/{port.interface}") else ""
    names = [f"{port.folder}/net/{name}" for name in _names(machine, f"{port.folder}/net")]
    for entry in _names(machine, port.folder):
        if re.match(r"virtio\d+$", entry):
            folder = f"{port.folder}/{entry}/net"
            names += [f"{folder}/{name}" for name in _names(machine, folder)]
    own = [path for path in names if os.path.basename(path) == port.interface]
    same = [path for path in names if machine.read(f"{path}/address") == port.mac]
    return os.path.basename((own or same or names or [""])[0])


def rdma_devices(machine: ReadOnly, port: WatchedPort, interface: str) -> List[str]:
    """Its own devices, that of PVRDMA's second function, or soft-RoCE over its network device."""
    own = _names(machine, f"{port.folder}/infiniband") if port.folder else []
    if port.folder.endswith(".0"):
        own = own or _names(machine, f"{port.folder[:-1]}1/infiniband")
    if own:
        return own
    return [
        name for name in _names(machine, RDMA) if machine.read(f"{RDMA}/{name}/parent") == interface
    ]


def _names(machine: ReadOnly, folder: str) -> List[str]:
    """What a folder holds; nothing where there is none, and an error where it cannot be read."""
    try:
        return sorted(os.listdir(machine.path(folder)))
    except FileNotFoundError:
        return []


def _has_carrier(machine: ReadOnly, path: str) -> bool:
    try:
        return machine.text(path) == "1"
    except OSError as error:
        if error.errno == errno.EINVAL:  # an interface that is set down has none
            return False
        raise


def _counters(machine: ReadOnly, folder: str) -> Iterator[Sample]:
    for name in _names(machine, folder):
        text = machine.read(f"{folder}/{name}")
        if text.isdigit() and name != "lifespan":
            yield "rocelab_port_events_total", int(text), {"counter": name}


def slow(machine: ReadOnly, document: Dict[str, Any]) -> Samples:
    """What only programs know: counters by priority, FEC, optical modules, GPUs."""
    samples = Samples(document["lab"], document["host"])
    for port in ports(machine, document):
        interface = netdev_of(machine, port)
        for metric, value, labels in program_samples(machine, interface) if interface else []:
            samples.add(metric, value, rail=port.rail, **labels)
    for metric, value, labels in gpu_samples(machine):
        samples.add(metric, value, **labels)
    return samples


def program_samples(machine: ReadOnly, interface: str) -> Iterator[Sample]:
    from .look.nic import counters  # noqa: PLC0415  # the fast file does not need it

    for name, value in counters(machine.run("ethtool", "-S", interface).out).items():
        yield "rocelab_port_events_total", value, {"counter": name}
    for name, text in FEC.findall(machine.run("ethtool", "-I", "--show-fec", interface).out):
        yield "rocelab_port_events_total", int(text), {"counter": f"fec_{name}"}
    module = machine.run("ethtool", "-m", interface).out
    for degrees in TEMPERATURE.findall(module)[:1]:
        yield "rocelab_module_temperature_celsius", float(degrees), {}
    for name, lane, dbm in POWER.findall(module):
        direction = "rx" if name.startswith(("Rcvr", "Receiver")) else "tx"
        yield "rocelab_module_power_dbm", float(dbm), {"direction": direction, "lane": lane or "1"}


def gpu_samples(machine: ReadOnly) -> Iterator[Sample]:
    """The GPUs of NVIDIA's driver; nothing where it is not loaded or does not answer."""
    from .look import gpu, leaves, pci, system  # noqa: PLC0415

    try:
        reported = gpu.reports(machine)
    except leaves.UnknownError as error:
        if machine.exists(gpu.NVIDIA):
            sys.stderr.write(f"GPUs: {error}\n")
        return
    log = machine.run(*system.KERNEL_LOG).out
    yield "rocelab_gpus", len(reported), {}
    for address in pci.gpu_addresses(machine):
        if address in reported:
            yield from _of_gpu(address, gpu.health(reported[address]))
        else:
            yield "rocelab_gpu_state", 1, {"gpu": address, "state": "lost"}
    for xid in gpu.xids(log):
        labels = {"gpu": xid["pci"], "xid": str(xid["code"])}
        yield "rocelab_gpu_xids_total", xid["count"], labels


def _of_gpu(address: str, health: Dict[str, Any]) -> Iterator[Sample]:
    states = {
        "lost": False,
        "throttled": bool(health["throttled"]),
        "reset": health["remap_pending"] or health["recovery_action"] not in ("", "None"),
        "damaged": health["remap_failed"] or health["sram_threshold_exceeded"],
    }
    for state, is_true in states.items():
        yield "rocelab_gpu_state", int(bool(is_true)), {"gpu": address, "state": state}
    for counter in ("ecc_uncorrected", "ecc_corrected", "pcie_replays"):
        if health[counter] is not None:
            labels = {"gpu": address, "counter": counter}
            yield "rocelab_gpu_errors_total", health[counter], labels
    if health["temperature_c"] is not None:
        yield "rocelab_gpu_temperature_celsius", health["temperature_c"], {"gpu": address}

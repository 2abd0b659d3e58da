"""One network function of PCI: the port, its link, its RDMA device, its VFs, its quality of
service, its counters.
"""

import re
from functools import partial
from typing import Any, Callable, Dict, List, Tuple

from ..firmware_settings import Setting, query
from ..host import Host, virtual_functions
from ..machine import MISSING, StepError
from ..qos import MLNX_QOS, cnp_files, map_of, pause_aspect, port_aspects, traffic_class
from . import lldp, network, pci
from .config_files import SOURCE, config_files
from .leaves import (
    Json,
    Leaf,
    UnknownError,
    file_leaves,
    matched,
    number,
    printed,
    program_leaf,
    read,
)
from .read_only import ReadOnly
from .system import uptime_s

UP = 1
"""IFF_UP of an interface's flags."""
UNSUPPORTED = ("Operation not supported",)
FIRMWARE_DRIVERS = ("mlx5_core", "mlx4_core")
TUNING = re.compile(r"ROCE_|(ATS_ENABLED|MAX_ACC_OUT_READ|PCI_WR_ORDERING)$")
"""Firmware settings on which the bandwidth of a NIC depends: PCIe, congestion control."""
REGISTER_TOOLS = ("mstreg", "mlxreg")
PRIORITIES = range(8)
SPEED = re.compile(r"(\d+)base\w*/")
COUNTER = re.compile(
    r"(_phy|_pause\w*|_pci_\w+|module_\w+|out_of_buffer|crc\w*|symbol\w*|discard\w*|dropped\w*"
    r"|errors|_err\w*|ecn\w*|cnp\w*|xoff\w*|xon\w*|storm\w*|link_down\w*|flaps?)$"
)
OF_A_QUEUE = re.compile(r"^(rx|tx|ch|queue|ptp)_?(queue_)?\d+_|^\[\d+\]")
MOST_COUNTERS = 1000


class NicReader:
    """One network function, read once."""

    def __init__(self, machine: ReadOnly, address: str, interface: str = "") -> None:
        self.machine, self.address = machine, address
        self.device = f"{pci.DEVICES}/{address}"
        self.interfaces = [interface] if interface else self._interfaces()
        self.name = self.interfaces[0] if self.interfaces else ""
        self.net = f"/sys/class/net/{self.name}"
        self.host = Host(machine, {"pfs": []}, b"")
        self._firmware: Dict[str, Setting] = {}

    def _interfaces(self) -> List[str]:
        """Its own interfaces, or those of the virtio device on it."""
        own = self.machine.names(f"{self.device}/net")
        virtio = [name for name in self.machine.names(self.device) if re.match(r"virtio\d+$", name)]
        return own or [
            name for device in virtio for name in self.machine.names(f"{self.device}/{device}/net")
        ]

    def leaves(self, firmware: bool) -> List[Leaf]:
        """All leaves; those that run a program come last, since a program may hang where a file
        does not.
        """
        of_firmware = self._of_firmware() if firmware else []
        return [*self.pci_leaves(), *self.port_leaves(), *self._of_programs(), *of_firmware]

    def _of_firmware(self) -> List[Leaf]:
        """Only NVIDIA's tools read them, and only on NVIDIA's NICs."""
        query_source = f"mstconfig -d {self.address} -e query"
        register_source = f"mstreg -d {self.address} --reg_name ROCE_ACCL --get"
        return [
            Leaf("pending_firmware", query_source, self._pending_firmware),
            Leaf("firmware_settings", query_source, self._firmware_settings),
            Leaf("roce_acceleration", register_source, self._roce_acceleration),
        ]

    def qos_leaves(self) -> List[Leaf]:
        """What the port does with marked packets."""
        source = f"dcb show dev {self.name}"
        if self._has_mlnx_qos():
            source = f"{MLNX_QOS} -i {self.name}"
        ecn, pause = f"{self.net}/ecn", f"ethtool -a {self.name}"
        dscp, priority = cnp_files(self.host, self.name)
        files = {"cnp_dscp": (dscp, number), "cnp_priority": (priority, number)}
        return [
            Leaf("trust", source, lambda: self._aspect("trust")),
            Leaf("pfc_priorities", source, lambda: _numbers(self._aspect("pfc"))),
            Leaf("dscp_priority", source, lambda: map_of(self._aspect("dscp_map"))),
            Leaf("dcbx_mode", source, lambda: self._aspect("dcbx")),
            Leaf("pause_rx", pause, lambda: "rx" in self._pause()),
            Leaf("pause_tx", pause, lambda: "tx" in self._pause()),
            Leaf("ecn_np_priorities", f"{ecn}/roce_np/enable", lambda: self._ecn("np")),
            Leaf("ecn_rp_priorities", f"{ecn}/roce_rp/enable", lambda: self._ecn("rp")),
            *file_leaves(self.machine, files),
        ]

    def _aspect(self, aspect: str) -> str:
        self._needs_interface()
        _, aspects = self.host.remembered("port", lambda: port_aspects(self.host, self.name))
        text = str(aspects.get(aspect, "unknown"))
        if text.startswith(("unknown", "not supported")):
            raise UnknownError(aspects.get(aspect) or "the driver does not report it")
        return text

    def pci_leaves(self) -> List[Leaf]:
        machine, device = self.machine, self.device
        return [
            Leaf("interfaces", f"{device}/net", lambda: self.interfaces),
            Leaf("driver", f"{device}/driver", lambda: machine.target(f"{device}/driver")),
            *file_leaves(
                machine,
                {
                    "vendor_id": (f"{device}/vendor", pci.hexadecimal),
                    "device_id": (f"{device}/device", pci.hexadecimal),
                    "numa_node": (f"{device}/numa_node", number),
                    "pcie_speed_gt_s": (f"{device}/current_link_speed", pci.link_speed),
                    "pcie_max_speed_gt_s": (f"{device}/max_link_speed", pci.link_speed),
                    "pcie_width": (f"{device}/current_link_width", pci.link_width),
                    "pcie_max_width": (f"{device}/max_link_width", pci.link_width),
                    "max_read_request_bytes": (f"{device}/config", pci.read_request),
                    "relaxed_ordering": (f"{device}/config", pci.relaxed_ordering),
                    "ats": (f"{device}/config", pci.ats),
                    "vfs_num": (f"{device}/sriov_numvfs", _number_if_any),
                },
            ),
            Leaf("bridges", device, lambda: pci.bridges(machine, self.address)),
            Leaf("nearest_gpus", pci.DEVICES, lambda: pci.nearest_gpus(machine, self.address)),
            Leaf(
                "iommu_group_type",
                f"{device}/iommu_group/type",
                lambda: pci.iommu_type(machine, self.address),
            ),
        ]

    def port_leaves(self) -> List[Leaf]:
        net = self.net
        files: Dict[str, Tuple[str, Callable[[ReadOnly, str], Any]]] = {
            "up": (f"{net}/flags", lambda machine, path: bool(number(machine, path) & UP)),
            "carrier": (f"{net}/carrier", _carrier),
            "carrier_changes": (f"{net}/carrier_changes", number),
            "speed_mbit_s": (f"{net}/speed", _speed),
            "mtu_bytes": (f"{net}/mtu", number),
        }
        leaves = file_leaves(self.machine, {"mac": (self._mac_file(), _mac), **files})
        return [self._with_interface(leaf) for leaf in leaves]

    def _of_programs(self) -> List[Leaf]:
        machine, name = self.machine, self.name
        words = f"devlink -j dev eswitch show pci/{self.address}"
        of_the_interface = [
            Leaf("master", f"{self.net}/master", lambda: machine.target(f"{self.net}/master")),
            Leaf("addresses", " ".join(network.ADDRESSES), self._addresses),
            Leaf("lldp", " ".join(lldp.LLDPCTL), lambda: lldp.neighbours(machine, name)),
            program_leaf(machine, "supported_speeds_mbit_s", f"ethtool {name}", supported_speeds),
            program_leaf(machine, "fec", f"ethtool --show-fec {name}", active_fec),
            Leaf("counters", f"ethtool -S {name}, statistics, hw_counters", self._counters),
        ]
        return [
            *self._rdma_leaves(),
            Leaf("vfs", f"{self.device}/virtfn*", self._vfs),
            Leaf(
                "config_files",
                SOURCE,
                lambda: config_files(machine, name, self._mac(), self.address),
            ),
            *map(self._with_interface, of_the_interface),
            Leaf("eswitch_mode", words, lambda: pci.eswitch_mode(machine, self.address)),
        ]

    def _rdma_leaves(self) -> List[Leaf]:
        own = self.machine.names(f"{self.device}/infiniband")
        source = f"{self.device}/infiniband"
        devices = Leaf("rdma", source, lambda: [self._rdma(*rdma) for rdma in self._rdma_devices()])
        if own:
            folder = f"/sys/class/infiniband/{own[0]}"
            names = {"firmware": "fw_ver", "board_id": "board_id"}
            files = {name: (f"{folder}/{file}", ReadOnly.text) for name, file in names.items()}
            return [devices, *file_leaves(self.machine, files)]
        # without an RDMA device the driver reports both in one line: `28.39.1002 (MT_0000000838)`
        words = f"ethtool -i {self.name}"
        of_driver = [
            program_leaf(self.machine, "firmware", words, lambda text: firmware_of(text)[0]),
            program_leaf(self.machine, "board_id", words, lambda text: firmware_of(text)[1]),
        ]
        return [
            devices,
            *map(self._with_interface, of_driver),
        ]

    def _rdma_devices(self) -> List[Tuple[str, bool]]:
        """RDMA devices of the NIC, and soft-RoCE devices over its interface (True)."""
        own = self.machine.names(f"{self.device}/infiniband")
        devices = [(name, False) for name in own]
        if self.name:
            others = set(self.host.rdma_devices(self.name)).difference(own)
            devices += [(name, True) for name in sorted(others)]
        return devices

    def _rdma(self, device: str, soft: bool) -> Json:
        machine, root = self.machine, f"/sys/class/infiniband/{device}"
        at = f"{root}/ports/1"
        leaves = [
            *file_leaves(
                machine,
                {
                    "link_layer": (f"{at}/link_layer", ReadOnly.text),
                    "state": (f"{at}/state", _state),
                    "traffic_class": (f"{root}/tc/1/traffic_class", _traffic_class),
                },
            ),
            Leaf("gids", f"{at}/gids", lambda: gids(machine, at)),
            program_leaf(machine, "active_mtu_bytes", f"ibv_devinfo -d {device}", active_mtu),
        ]
        return {"device": device, "soft": soft, **read(leaves)}

    def _vfs(self) -> List[Json]:
        vfs = []
        for vf in virtual_functions(self.machine, self.device):
            take = partial(_vf_mtu, self.machine, vf.interfaces)
            mtu = Leaf("mtu_bytes", f"{vf.path}/net", take)
            known = {"number": vf.number, "pci": vf.pci_address, "interfaces": vf.interfaces}
            vfs.append({**known, **read([mtu])})
        return vfs

    def _counters(self) -> Json:
        machine = self.machine
        at_s = uptime_s(machine)
        values = {}
        for name in machine.names(f"{self.net}/statistics"):
            if COUNTER.search(name):
                values[name] = number(machine, f"{self.net}/statistics/{name}")
        done = machine.run("ethtool", "-S", self.name)
        if done.code == 0:
            values.update(counters(done.out))
        for device, _ in self._rdma_devices():
            values.update(_rdma_counters(machine, f"/sys/class/infiniband/{device}/ports/1"))
        if not values:
            printed(done)
            raise UnknownError("it has no relevant counters")
        return {"uptime_s": at_s, "values": values}

    def _has_nvidia_firmware(self) -> bool:
        return self.machine.target(f"{self.device}/driver") in FIRMWARE_DRIVERS

    def _query(self) -> Dict[str, Setting]:
        """All firmware settings; they are read once."""
        if not self._firmware and self._has_nvidia_firmware():
            try:
                self._firmware = query(self.machine, self.address)
            except StepError as error:
                raise UnknownError(error.reason) from None
        return self._firmware

    def _pending_firmware(self) -> List[Json]:
        pending = []
        for name, setting in sorted(self._query().items()):
            if setting.now != setting.next:
                pending.append({"name": name, "now": str(setting.now), "next": str(setting.next)})
        return pending

    def _firmware_settings(self) -> Dict[str, int]:
        settings = {}
        for name, setting in sorted(self._query().items()):
            if TUNING.match(name):
                settings[name] = setting.now
        return settings

    def _roce_acceleration(self) -> Dict[str, int]:
        """What the NIC does about lost packets, in a register that a reboot resets."""
        if not self._has_nvidia_firmware():
            return {}
        for tool in REGISTER_TOOLS:
            done = self.machine.run(tool, "-d", self.address, "--reg_name", "ROCE_ACCL", "--get")
            if done.code != MISSING:
                return register_switches(printed(done))
        raise UnknownError(f"neither {' nor '.join(REGISTER_TOOLS)} is installed")

    def _pause(self) -> List[str]:
        self._needs_interface()
        aspects = pause_aspect(self.host, self.name)
        if not aspects:
            raise UnknownError("ethtool -a does not report it")
        return aspects["global_pause"].split()

    def _ecn(self, role: str) -> List[int]:
        self._needs_interface()
        at = f"{self.net}/ecn/roce_{role}/enable"
        return [priority for priority in PRIORITIES if self.machine.text(f"{at}/{priority}") == "1"]

    def _addresses(self) -> List[str]:
        return network.addresses(self.machine).get(self.name, [])

    def _mac_file(self) -> str:
        below_bond = f"{self.net}/bonding_slave/perm_hwaddr"
        return below_bond if self.machine.exists(below_bond) else f"{self.net}/address"

    def _mac(self) -> str:
        return self.machine.read(self._mac_file()).lower() if self.name else ""

    def _has_mlnx_qos(self) -> bool:
        folders = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin")
        return any(self.machine.exists(f"{folder}/{MLNX_QOS}") for folder in folders)

    def _needs_interface(self) -> None:
        if not self.name:
            raise UnknownError("it has no interface here: no driver, or another namespace")

    def _with_interface(self, leaf: Leaf) -> Leaf:
        def checked() -> Any:
            self._needs_interface()
            return leaf.probe()

        return leaf._replace(probe=checked)


def _rdma_counters(machine: ReadOnly, port: str) -> Dict[str, int]:
    values = {}
    for folder in (f"{port}/hw_counters", f"{port}/counters"):
        for name in machine.names(folder):
            text = machine.read(f"{folder}/{name}")
            if text.isdigit() and name != "lifespan":
                values[name] = int(text)
    return values


def _state(machine: ReadOnly, path: str) -> str:
    return machine.text(path).rpartition(": ")[2]


def _traffic_class(machine: ReadOnly, path: str) -> int:
    return traffic_class(machine.text(path))


def _numbers(text: str) -> List[int]:
    return [int(word) for word in text.split() if word.isdigit()]


def _number_if_any(machine: ReadOnly, path: str) -> int:
    """0 where the function has no such file: it cannot have VFs."""
    return number(machine, path) if machine.exists(path) else 0


def _carrier(machine: ReadOnly, path: str) -> bool:
    try:
        return machine.text(path) == "1"
    except OSError:
        raise UnknownError("the kernel does not report it while the interface is down") from None


def _speed(machine: ReadOnly, path: str) -> int:
    try:
        speed = number(machine, path)
    except OSError:
        speed = -1
    if speed <= 0:
        raise UnknownError("the kernel reports none: no link, or a virtual NIC")
    return speed


def _mac(machine: ReadOnly, path: str) -> str:
    return machine.text(path).lower()


def _vf_mtu(machine: ReadOnly, interfaces: List[str]) -> int:
    if not interfaces:
        raise UnknownError("its interface is in another namespace, or it has no driver")
    return number(machine, f"/sys/class/net/{interfaces[0]}/mtu")


def gids(machine: ReadOnly, port: str) -> List[Json]:
    """Entries of a GID table that are in use; the kernel answers EINVAL for the type of an empty
    one.
    """
    entries = []
    for name in sorted(machine.names(f"{port}/gids"), key=int):
        gid = machine.text(f"{port}/gids/{name}")
        if set(gid) <= set("0:"):
            continue
        entries.append(
            {
                "index": int(name),
                "gid": gid,
                "type": machine.read(f"{port}/gid_attrs/types/{name}"),
                "interface": machine.read(f"{port}/gid_attrs/ndevs/{name}"),
                "ipv4": ipv4_of(gid),
            }
        )
    return entries


def ipv4_of(gid: str) -> str:
    """The IPv4 address in a GID such as `0000:…:ffff:0a0a:0101`; empty for other GIDs."""
    digits = gid.replace(":", "")
    if len(digits) != 32 or not digits.startswith("0" * 20 + "ffff"):
        return ""
    return ".".join(str(byte) for byte in bytes.fromhex(digits[24:]))


def register_switches(text: str) -> Dict[str, int]:
    """The fields that switch something on, such as `roce_adp_retrans_en | 0x00000001`."""
    fields = re.findall(r"^(\w+_en)\s*\|\s*(0x[0-9a-fA-F]+)\s*$", text, re.MULTILINE)
    if not fields:
        raise UnknownError("the register has no known field")
    return {name: int(value, 16) for name, value in fields}


def active_mtu(text: str) -> int:
    """Of port 1, in `active_mtu: 4096 (5)`."""
    return int(matched(r"^\s*active_mtu:\s+(\d+)", text, "ibv_devinfo reports no active_mtu"))


def supported_speeds(text: str) -> List[int]:
    """Of all `Supported link modes` that ethtool prints, ascending."""
    modes = re.search(
        r"Supported link modes:(.*?)^\s*Supported pause", text, re.MULTILINE | re.DOTALL
    )
    speeds = sorted({int(speed) for speed in SPEED.findall(modes[1])}) if modes else []
    if not speeds:
        raise UnknownError("ethtool reports no link modes")
    return speeds


def active_fec(text: str) -> str:
    """`Active FEC encoding: RS` of ethtool; some versions say `encodings`."""
    return matched(
        r"^Active FEC encodings?:\s*(.+?)\s*$", text, "ethtool reports no active encoding"
    ).lower()


def firmware_of(text: str) -> Tuple[str, str]:
    """Version and board id of `ethtool -i`; other vendors print something else there."""
    versions = re.search(
        r"^firmware-version:[ \t]*(.+?)(?:[ \t]+\((\w+)\))?[ \t]*$", text, re.MULTILINE
    )
    if not versions or versions[1] == "N/A":
        raise UnknownError("the driver reports no firmware version")
    return versions[1], versions[2] or ""


def counters(text: str) -> Dict[str, int]:
    """Counters of the port in `ethtool -S`: errors, pauses, discards and marks, without those of
    single queues.
    """
    values: Dict[str, int] = {}
    for name, value in re.findall(r"^\s*([\w.\[\]-]+):\s*(\d+)\s*$", text, re.MULTILINE):
        if COUNTER.search(name) and not OF_A_QUEUE.match(name):
            values[name] = int(value)
    if len(values) > MOST_COUNTERS:
        raise UnknownError(f"{len(values)} counters: more than the {MOST_COUNTERS} that are kept")
    return values

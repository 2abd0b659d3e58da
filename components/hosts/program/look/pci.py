"""The PCI tree: which functions are NICs and GPUs, what bridges lie above them, and which of those
redirect peers.
"""

import re
from typing import Dict, List

from ..machine import Machine
from .leaves import Json, UnknownError, matched, number, printed_json
from .read_only import ReadOnly

DEVICES = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
NETWORK = "0x02"
GPU_CLASSES = ("0x03", "0x12")
GPU_VENDORS = ("0x10de", "0x1002")
"""NVIDIA and AMD: the display of a baseboard controller is not a GPU."""
ACS, ACS_CONTROL = 0x000D, 6
ACS_REDIRECTS = 0x04 | 0x08 | 0x20
"""Request redirect, completion redirect and egress control: what `pci=disable_acs_redir=` switches
off, and what Linux counts (drivers/pci/p2pdma.c, pci_bridge_has_acs_redir). Upstream forwarding
alone redirects nothing."""
ACS_REMEDY = (
    "on bare metal add the kernel argument pci=disable_acs_redir=BRIDGE (Linux 4.19 or newer; for "
    "BRIDGE, pci:VENDOR:DEVICE means every bridge of that model), or run setpci -s BRIDGE "
    "ECAP_ACS+6.w=0 at each boot; with an active IOMMU Linux switches ACS on itself, whatever the "
    "BIOS says; leave ACS on if the host gives devices to VMs"
)
HYPERVISORS = re.compile(
    r"(?i)qemu|kvm|vmware|virtual|xen|bochs|openstack|amazon ec2|google compute"
)
"""Vendor or product of a virtual machine, whose ACS belongs to the hypervisor."""
ESWITCH_DRIVERS = ("mlx5_core", "bnxt_en", "ice", "nfp")
LEGACY = "legacy"
FIRST_EXTENDED = 0x100
FIRST_POINTER, HEADER_BYTES = 0x34, 0x40
EXPRESS, DEVICE_CONTROL = 0x10, 8
READ_REQUEST, SMALLEST_REQUEST_BYTES = 0x7000, 128
RELAXED_ORDERING = 0x0010
ATS, ATS_CONTROL, ATS_ENABLED = 0x000F, 6, 0x8000
SERIAL_NUMBER = 0x0003
"""Numbers of capabilities and their registers: Linux, include/uapi/linux/pci_regs.h."""
MOST_CAPABILITIES = 100


def functions(machine: Machine) -> Dict[str, str]:
    """Class of each PCI function that is not a VF."""
    names = machine.names(DEVICES)
    if not names:
        raise UnknownError("there are no PCI devices")
    own = (name for name in sorted(names) if not machine.exists(f"{DEVICES}/{name}/physfn"))
    return {name: machine.read(f"{DEVICES}/{name}/class") for name in own}


def nics(machine: Machine) -> List[str]:
    return [name for name, kind in functions(machine).items() if kind.startswith(NETWORK)]


def gpu_addresses(machine: Machine) -> List[str]:
    addresses = []
    for name, kind in functions(machine).items():
        if kind.startswith(GPU_CLASSES) and machine.read(f"{DEVICES}/{name}/vendor") in GPU_VENDORS:
            addresses.append(name)
    return addresses


def bridges(machine: Machine, address: str) -> List[str]:
    """PCI addresses of the bridges above a function, root port first."""
    parts = machine.real(f"{DEVICES}/{address}").split("/")
    return [part for part in parts if ADDRESS.match(part)][:-1]


def nearest_gpus(machine: Machine, address: str) -> Json:
    """The GPUs that share the deepest bridge with a NIC."""
    own = bridges(machine, address)
    above = {gpu: bridges(machine, gpu) for gpu in gpu_addresses(machine)}
    for bridge in reversed(own):
        below = sorted(gpu for gpu, path in above.items() if bridge in path)
        if below:
            return {"gpus": below, "bridge": bridge}
    return {"gpus": []}


def bridges_to_gpus(machine: Machine, address: str) -> List[str]:
    """The bridges between a NIC and its nearest GPUs, on both sides, with the shared one."""
    near = nearest_gpus(machine, address)
    if not near["gpus"]:
        return []
    between: List[str] = []
    for function in (address, *near["gpus"]):
        path = bridges(machine, function)
        between += path[path.index(near["bridge"]) :]
    return sorted(set(between))


def hexadecimal(machine: ReadOnly, path: str) -> str:
    """The digits of an id."""
    return machine.text(path).replace("0x", "", 1)


def acs_bridges(machine: Machine) -> List[str]:
    """Bridges above NICs and GPUs that redirect peer-to-peer traffic upstream (ACS)."""
    above = set()
    for function in (*nics(machine), *gpu_addresses(machine)):
        above.update(bridges(machine, function))
    spaces = {}
    for address in sorted(above):
        spaces[address] = _configuration(machine, f"{DEVICES}/{address}/config")
    return [address for address, space in spaces.items() if redirects_peers(space)]


def _configuration(machine: Machine, path: str) -> bytes:
    """The configuration space of a function; the kernel gives others than root only its header."""
    space = machine.content(path)
    if len(space) <= FIRST_EXTENDED:
        raise UnknownError(f"only {len(space)} bytes of {path} can be read")
    return space


def _word(space: bytes, at: int) -> int:
    return int.from_bytes(space[at : at + 2], "little")


def _device_control(machine: ReadOnly, path: str) -> int:
    """The device control register of PCI Express."""
    space = _configuration(machine, path)
    at = space[FIRST_POINTER] & ~3
    for _ in range(MOST_CAPABILITIES):
        if at < HEADER_BYTES:
            break
        if space[at] == EXPRESS:
            return _word(space, at + DEVICE_CONTROL)
        at = space[at + 1] & ~3
    raise UnknownError("it has no PCI Express capability")


def read_request(machine: ReadOnly, path: str) -> int:
    """Bytes of the largest read request (MRRS)."""
    return SMALLEST_REQUEST_BYTES << ((_device_control(machine, path) & READ_REQUEST) >> 12)


def relaxed_ordering(machine: ReadOnly, path: str) -> bool:
    """Whether the function may send requests that overtake others."""
    return bool(_device_control(machine, path) & RELAXED_ORDERING)


def ats(machine: ReadOnly, path: str) -> bool:
    """Whether the function asks the IOMMU for translations and keeps them."""
    space = _configuration(machine, path)
    at = _extended_capability(space, ATS)
    return bool(at and _word(space, at + ATS_CONTROL) & ATS_ENABLED)


def redirects_peers(space: bytes) -> bool:
    """Whether the ACS capability in a configuration space redirects traffic between peers."""
    at = _extended_capability(space, ACS)
    return bool(at and _word(space, at + ACS_CONTROL) & ACS_REDIRECTS)


def without_serial_number(space: bytes) -> bytes:
    """A configuration space whose Device Serial Number, often the MAC of a port, is zero."""
    at = _extended_capability(space, SERIAL_NUMBER)
    return space[: at + 4] + bytes(8) + space[at + 12 :] if at else space


def _extended_capability(space: bytes, number: int) -> int:
    """Where an extended capability begins; 0 without it."""
    at = FIRST_EXTENDED
    for _ in range(MOST_CAPABILITIES):
        header = int.from_bytes(space[at : at + 4], "little")
        if header & 0xFFFF == number:
            return at
        at = header >> 20
        if at < FIRST_EXTENDED or at + 8 > len(space):
            return 0
    return 0


def eswitch_mode(machine: Machine, address: str) -> str:
    """legacy, switchdev or another mode; empty if the driver has no eswitch that can be set."""
    if machine.target(f"{DEVICES}/{address}/driver") not in ESWITCH_DRIVERS:
        return ""
    place = f"pci/{address}"
    answer = printed_json(machine.run("devlink", "-j", "dev", "eswitch", "show", place))
    try:
        return str(answer["dev"][place]["mode"])
    except (KeyError, TypeError):
        raise UnknownError("devlink reports no mode") from None


def link_speed(machine: ReadOnly, path: str) -> float:
    """GT/s of a file such as `16.0 GT/s PCIe`."""
    text = machine.text(path)
    return float(matched(r"^([\d.]+) GT/s", text, f"it contains {text[:40]!r}"))


def link_width(machine: ReadOnly, path: str) -> int:
    """Lanes; the kernel writes 0 and 255 for unknown."""
    lanes = number(machine, path)
    if lanes in (0, 255):
        raise UnknownError(f"it contains {lanes}")
    return lanes


def iommu_type(machine: ReadOnly, address: str) -> str:
    """Type of its IOMMU group; empty without one."""
    group = f"{DEVICES}/{address}/iommu_group"
    return machine.text(f"{group}/type") if machine.exists(group) else ""

"""LLDP neighbors of a port, from lldpd or from the files of systemd-networkd. No daemon is started
for it.
"""

from typing import Any, Dict, Iterable, List, Tuple

from ..machine import Done, Machine
from .leaves import Json, UnknownError, printed_json
from .read_only import ReadOnly

LLDPCTL = ("lldpctl", "-f", "json0")
LLDPCTL_S = 5.0
NETWORKD = "/run/systemd/netif/lldp"
"""A file per link, named by its index: frames as they came, each behind its length of eight bytes
(networkd, `manager_save` of sd-lldp-rx)."""
ETHERNET_HEADER = 14
CHASSIS, PORT, PORT_DESCRIPTION, SYSTEM = 1, 2, 4, 5
MAC_SUBTYPES = {CHASSIS: 4, PORT: 3}
NETWORK_SUBTYPES = {CHASSIS: 5, PORT: 4}
IPV4 = 1


def neighbours(machine: ReadOnly, interface: str) -> List[Json]:
    """The neighbors of a port; empty when a daemon listens and receives nothing."""
    return _neighbours(machine, machine.once(*LLDPCTL), interface)


def leaves(machine: Machine, interfaces: Iterable[str]) -> Dict[str, List[str]]:
    """Name and port of the switch behind each interface that hears a single one."""
    done = machine.run(*LLDPCTL, timeout_s=LLDPCTL_S)
    heard = {}
    for interface in interfaces:
        try:
            switches = _neighbours(machine, done, interface)
        except UnknownError:
            continue
        if len(switches) == 1 and switches[0]["system"]:
            heard[interface] = [switches[0]["system"], switches[0]["port_id"]]
    return heard


def _neighbours(machine: Machine, done: Done, interface: str) -> List[Json]:
    if done.code == 0:
        return parse_lldpctl(printed_json(done), interface)
    index = machine.read(f"/sys/class/net/{interface}/ifindex")
    kept = f"{NETWORKD}/{index}"
    if not machine.exists(kept):
        raise UnknownError(
            f"lldpd does not run ({done.err.strip()[:60]}), and systemd-networkd received no LLDP"
        )
    return parse_frames(machine.content(kept))


def parse_lldpctl(document: Any, interface: str) -> List[Json]:
    """`lldpctl -f json0`, in which everything is a list, even a single item."""
    try:
        ports = [port for chassis in document["lldp"] for port in chassis.get("interface", [])]
        neighbours_of_port = [_heard(port) for port in ports if port["name"] == interface]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise UnknownError(f"lldpctl printed an unknown format: {error}") from None
    return neighbours_of_port


def _heard(port: Json) -> Json:
    chassis = port["chassis"][0]
    about = port["port"][0]
    return {
        "system": _first(chassis, "name"),
        "chassis_id": _first(chassis, "id"),
        "port_id": _first(about, "id"),
        "port_description": _first(about, "descr"),
    }


def _first(of: Json, key: str) -> str:
    values = of.get(key) or [{}]
    return str(values[0].get("value", ""))


def parse_frames(content: bytes) -> List[Json]:
    """Every frame in networkd's file."""
    frames, at = [], 0
    while at + 8 <= len(content):
        size = int.from_bytes(content[at : at + 8], "little")
        frame = content[at + 8 : at + 8 + size]
        if len(frame) < size or size <= ETHERNET_HEADER:
            raise UnknownError("networkd's file is truncated")
        frames.append(_frame(frame))
        at += 8 + size
    return frames


def _frame(frame: bytes) -> Json:
    values: Dict[int, str] = {}
    at = ETHERNET_HEADER
    while at + 2 <= len(frame):
        kind, size = _header(frame[at : at + 2])
        if kind == 0:
            break
        values.setdefault(kind, _text(kind, frame[at + 2 : at + 2 + size]))
        at += 2 + size
    return {
        "system": values.get(SYSTEM, ""),
        "chassis_id": values.get(CHASSIS, ""),
        "port_id": values.get(PORT, ""),
        "port_description": values.get(PORT_DESCRIPTION, ""),
    }


def _header(two: bytes) -> Tuple[int, int]:
    """Seven bits of type, nine of length (IEEE 802.1AB, 8.4)."""
    header = int.from_bytes(two, "big")
    return header >> 9, header & 0x1FF


def _text(kind: int, value: bytes) -> str:
    if kind not in MAC_SUBTYPES or not value:
        return value.decode(errors="replace").strip("\0")
    if value[0] == MAC_SUBTYPES[kind]:
        return ":".join(f"{byte:02x}" for byte in value[1:7])
    if value[0] == NETWORK_SUBTYPES[kind] and len(value) == 6 and value[1] == IPV4:
        return ".".join(str(byte) for byte in value[2:6])
    return value[1:].decode(errors="replace").strip("\0")

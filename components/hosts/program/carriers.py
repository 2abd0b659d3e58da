"""Interfaces that must never be touched: those that carry SSH, the default route, or mounted
storage.
"""

import json
import os
import re
import sys
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Dict, Iterable, Iterator, List, NamedTuple, Set, Tuple, Union

from .host import Host
from .machine import Machine, StepError, first_match, load_json
from .places import BASELINE_FILE

NETWORK_FILESYSTEMS = re.compile(
    r"^(nfs4?|cifs|smb3|ceph|lustre|(fuse\.)?glusterfs|beegfs|9p|wekafs|gpfs|orangefs|pvfs2|afs)$"
)
"""Most name their servers in /proc/mounts; GPFS and BeeGFS name none, and only their connections
show them."""
ROUTES = {family: ("ip", "-j", f"-{family}", "route", "show", "table", "all") for family in (4, 6)}
QUEUE_PAIRS = ("rdma", "resource", "show", "qp")
QUEUE_PAIR = re.compile(
    r"^link (\S+)/\S+ .*\btype (\S+) (?:.*\bpid (\d+) )?.*\bcomm (.+?)\s*$", re.MULTILINE
)
"""A line of its output. Not its JSON: older versions print fields into an array (rdma/res-qp.c),
and some print what no parser takes ("rdma: Fix core dump when pretty is used", linux-rdma, January
2024)."""
DATA_QUEUE_PAIRS = ("RC", "UC", "UD", "RAW_PACKET", "XRC_INI", "XRC_TGT", "DRIVER")
"""Types that carry data (rdma/res.c of iproute2); SMI and GSI are the kernel's own."""
KERNELS_OWN = {"queue pairs of [ib_core]", "queue pairs of [mlx5_ib]"}
ESTABLISHED = "01"
Address = Union[IPv4Address, IPv6Address]
SHOWN_USERS = 3


class QueuePair(NamedTuple):
    """A queue pair of a process, or of a part of the kernel."""

    device: str
    kind: str
    pid: str
    """Empty for the kernel's own."""
    program: str
    """Name of the process; a part of the kernel is in brackets."""


def refuse_what_carries_the_host(host: Host, pfs: Iterable[str]) -> None:
    """Refuses a PF over which the host is managed, routed, logged in to, or has files mounted."""
    carriers = _carriers(host)
    for pf in pfs:
        if pf in carriers:
            raise StepError(
                f"{pf} is refused as a rail: {carriers[pf]}",
                "its changes could cut this host off; name another NIC in the lab file, or set the "
                "node to drained",
            )
        if pf not in host.links():
            known = ", ".join(sorted(name for name in host.links() if name != "lo"))
            real = real_name(host, pf)
            if real != pf:
                raise StepError(
                    f"{pf} is an altname of {real}, and device plugins find a NIC by its primary "
                    "name only",
                    f"write interface: {real} for this PF",
                )
            raise StepError(
                f"{pf} is not a network device of this host; it has {known}",
                "write this PF's interface as the host names it",
            )


def refuse_what_others_use(host: Host, pfs: Iterable[str]) -> None:
    """Refuses a PF that is in use and was not a rail before: on a rail, other programs' settings
    are lost.
    """
    ours = load_json(host.machine, BASELINE_FILE).get("pfs", {})
    for pf in pfs:
        if pf in ours or pf not in host.links():
            continue
        users = [*_queue_pair_users(host, pf), *_tcp_peers(host, pf)]
        if users:
            more = f" and {len(users) - SHOWN_USERS} more" if len(users) > SHOWN_USERS else ""
            raise StepError(
                f"{pf} is refused as a rail: it is in use by "
                f"{', '.join(users[:SHOWN_USERS])}{more}",
                "stop what uses it, or name another NIC; storage traffic belongs on a NIC that is "
                "not a rail",
            )


def _queue_pair_users(host: Host, pf: str) -> List[str]:
    """Who has queue pairs on the RDMA devices of a PF: processes by name, parts of the kernel in
    brackets.
    """
    devices = host.rdma_devices(pf)
    if not devices:
        return []
    done = host.machine.run(*QUEUE_PAIRS)
    if done.code:
        return [f"queue pairs may be open: `rdma resource show qp` fails ({done.err.strip()[:80]})"]
    users = set()
    for pair in queue_pairs(done.out):
        if pair.device in devices and pair.kind in DATA_QUEUE_PAIRS:
            users.add(f"queue pairs of {pair.program}")
    return sorted(users - KERNELS_OWN)


def queue_pairs(text: str) -> List[QueuePair]:
    """Of the output of `rdma resource show qp`."""
    return [QueuePair(*fields) for fields in QUEUE_PAIR.findall(text)]


def _tcp_peers(host: Host, pf: str) -> List[str]:
    """TCP connections of the PF's addresses: GPFS and BeeGFS show their servers nowhere else."""
    own = {ip_address(info["local"]) for info in host.links()[pf].get("addr_info", [])}
    connections = set()
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in host.machine.read(file).splitlines()[1:]:
            words = line.split()
            if len(words) > 3 and words[3] == ESTABLISHED and _address(words[1]) in own:
                port = int(words[2].partition(":")[2], 16)
                connections.add(f"a TCP connection to {_address(words[2])} port {port}")
    return sorted(connections)


def _address(word: str) -> Address:
    """The address in `0B0A0A0A:04A7` of /proc/net/tcp, or of tcp6.

    In tcp6 it may be an IPv4 address too.

    The kernel prints it in words of four bytes, each in the CPU's byte order.
    """
    digits = bytes.fromhex(word.partition(":")[0])
    words = [int.from_bytes(digits[at : at + 4], sys.byteorder) for at in range(0, len(digits), 4)]
    packed = b"".join(number.to_bytes(4, "big") for number in words)
    if len(packed) == 4:
        return IPv4Address(packed)
    return IPv6Address(packed).ipv4_mapped or IPv6Address(packed)


def real_name(host: Host, name: str) -> str:
    """The primary name of a netdev, for any altname (`ip link property add altname`)."""
    return next(
        (real for real, link in host.links().items() if name in link.get("altnames", [])), name
    )


def _carriers(host: Host) -> Dict[str, str]:
    """Devices that must not be touched, with the reason, and the devices below and above them."""
    management = real_name(host, host.document["management_interface"])
    carriers = {management: "it is the management interface"}
    for name, reason in _routes_and_servers(host):
        carriers.setdefault(name, reason)
    todo = list(carriers)
    while todo:
        name = todo.pop()
        for entry in host.machine.names(f"/sys/class/net/{name}"):
            kind, _, other = entry.partition("_")
            if kind in ("lower", "upper") and other and other not in carriers:
                carriers[other] = f"it is part of {name}, and {carriers[name]}"
                todo.append(other)
    return carriers


def _routes_and_servers(host: Host) -> Iterator[Tuple[str, str]]:
    """Interfaces with the default route, the SSH session or mounted storage, and the reason."""
    machine = host.machine
    for name in host.remembered("default routes", lambda: default_routes(machine)):
        yield name, "the default route uses it"
    session = session_address(machine)
    for name, link in host.links().items():
        if session and session in [info.get("local") for info in link.get("addr_info", [])]:
            yield name, "this SSH session arrives on it"
    for _, name, reason in storage_routes(machine):
        if name:
            yield name, reason


def default_routes(machine: Machine) -> List[str]:
    """The interfaces of the main table's default routes; a rail's own table is none of them."""
    interfaces: Set[str] = set()
    for words in ROUTES.values():
        for route in json.loads(machine.must(*words) or "[]"):
            # `ip` names neither the main table nor the type of a unicast route
            if route["dst"] == "default" and "table" not in route and "type" not in route:
                interfaces.update(hop["dev"] for hop in route.get("nexthops") or [route])
    return sorted(interfaces)


def storage_routes(machine: Machine) -> Iterator[Tuple[str, str, str]]:
    """Address of each storage server, the interface towards it, and what is there.

    Without a route the interface is empty.
    """
    for server, what in [*_file_servers(machine), *_block_servers(machine)]:
        address, _, device = server.partition("%")  # a link-local address names its device
        if not device:
            answer = machine.run("ip", "route", "get", address).out
            device = first_match(r"\bdev (\S+)", answer)
        yield address, device, what


def session_address(machine: Machine) -> str:
    """The host's own address in the SSH session. sudo hides the variable, so it is also read from
    parent processes.
    """
    value, pid = machine.variable("SSH_CONNECTION"), os.getpid()
    while not value and pid > 1:
        environment = machine.read(f"/proc/{pid}/environ")
        value = first_match(r"(?:^|\0)SSH_CONNECTION=([^\0]*)", environment)
        pid = int(first_match(r"^PPid:\s*(\d+)", machine.read(f"/proc/{pid}/status")) or 0)
    words = value.split()
    return words[2] if len(words) == 4 else ""


def _file_servers(machine: Machine) -> List[Tuple[str, str]]:
    """The servers of mounted network filesystems, each with the reason to leave its NIC alone."""
    servers = []
    for line in machine.read("/proc/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and NETWORK_FILESYSTEMS.match(words[2]):
            given = " ".join([words[0], *re.findall(r"\b(?:mount|mon_)?addr=([^,\s]+)", words[3])])
            addresses = re.findall(r"\d+\.\d+\.\d+\.\d+", given)
            addresses += re.findall(
                r"(?<![\w:.\]])(?:[0-9a-fA-F]*:){2,}[0-9a-fA-F]*(?:%\w+)?", given
            )
            servers += [
                (address, f"{words[1]} is mounted over it") for address in sorted(set(addresses))
            ]
    return servers


def _block_servers(machine: Machine) -> List[Tuple[str, str]]:
    """The same for disks: NVMe over Fabrics, iSCSI and iSER."""
    servers = []
    for name in machine.names("/sys/class/nvme"):
        given = machine.read(f"/sys/class/nvme/{name}/address")
        kind = machine.read(f"/sys/class/nvme/{name}/transport")
        what = f"{name}, an NVMe disk over {kind or 'a network'}, is reached over it"
        # a local disk has the address of its PCI slot, and no traddr
        servers += [(address, what) for address in re.findall(r"\btraddr=([^,\s]+)", given)]
    for name in machine.names("/sys/class/iscsi_connection"):
        folder = f"/sys/class/iscsi_connection/{name}"
        address = machine.read(f"{folder}/address") or machine.read(f"{folder}/persistent_address")
        if address:
            servers.append((address, f"an iSCSI or iSER session ({name}) runs over it"))
    return servers

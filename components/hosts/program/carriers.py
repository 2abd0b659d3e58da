"""What must never be touched: whatever the host itself is reached, routed and fed by."""

import os
import re
from typing import Dict, Iterable, List, Tuple

from .host import Host
from .machine import Machine, StepError

NETWORK_FILESYSTEMS = re.compile(r"^(nfs4?|cifs|smb3|ceph|lustre|glusterfs|beegfs|9p)$")


def refuse_what_carries_the_host(host: Host, pfs: Iterable[str]) -> None:
    """Refuses a PF over which the host is managed, routed, logged in to, or has files mounted."""
    carriers = _carriers(host)
    for pf in pfs:
        if pf in carriers:
            raise StepError(
                f"{pf} is refused as a rail: {carriers[pf]}",
                "its changes could cut this host off; name another NIC in the lab file, or set the node to drained",
            )
        if pf not in host.links():
            known = ", ".join(sorted(name for name in host.links() if name != "lo"))
            raise StepError(f"{pf} is no network device of this host; it has {known}", "mend interface of this PF")


def _carriers(host: Host) -> Dict[str, str]:
    """Devices that must not be touched, each with the reason; with what is under and above them."""
    machine, found = host.machine, {host.document["management_interface"]: "it is the management interface"}
    for line in machine.read("/proc/net/route").splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[1] == words[7] == "00000000":
            found.setdefault(words[0], "the default route leaves by it")
    for line in machine.read("/proc/net/ipv6_route").splitlines():
        words = line.split()
        if len(words) > 9 and words[1] == "00" and words[9] != "lo":
            found.setdefault(words[9], "the default IPv6 route leaves by it")
    session = _session_address(machine)
    for name, link in host.links().items():
        if session and session in [info.get("local") for info in link.get("addr_info", [])]:
            found.setdefault(name, "this SSH session arrives on it")
    for server, place in _file_servers(machine):
        route = re.search(r"\bdev (\S+)", machine.run("ip", "route", "get", server).out)
        if route:
            found.setdefault(route[1], f"{place} is mounted over it")
    todo = list(found)
    while todo:
        name = todo.pop()
        for entry in machine.names(f"/sys/class/net/{name}"):
            kind, _, other = entry.partition("_")
            if kind in ("lower", "upper") and other and other not in found:
                found[other] = f"it belongs together with {name}, and {found[name]}"
                todo.append(other)
    return found


def _session_address(machine: Machine) -> str:
    """This side's address of the SSH session. sudo hides the variable, so the parents are asked too."""
    value, pid = os.environ.get("SSH_CONNECTION", ""), os.getpid()
    while not value and pid > 1:
        given = re.search(r"(?:^|\0)SSH_CONNECTION=([^\0]*)", machine.read(f"/proc/{pid}/environ"))
        value = given[1] if given else ""
        parent = re.search(r"^PPid:\s*(\d+)", machine.read(f"/proc/{pid}/status"), re.MULTILINE)
        pid = int(parent[1]) if parent else 0
    words = value.split()
    return words[2] if len(words) == 4 else ""


def _file_servers(machine: Machine) -> List[Tuple[str, str]]:
    """IPv4 address and mount point of each mounted network filesystem."""
    found = []
    for line in machine.read("/proc/mounts").splitlines():
        words = line.split()
        if len(words) > 3 and NETWORK_FILESYSTEMS.match(words[2]):
            addresses = re.findall(
                r"\d+\.\d+\.\d+\.\d+", words[0] + " " + " ".join(re.findall(r"\baddr=\S+", words[3]))
            )
            found += [(address, words[1]) for address in sorted(set(addresses))]
    return found

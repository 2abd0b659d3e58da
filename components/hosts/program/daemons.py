"""What the distribution's own network daemons are told about the rails: to leave them alone, as files of ours.

A file counts from the daemon's next start on, at the latest from the next boot: nothing here reloads one, since that
could take an address away, and the management interface is theirs.
"""

import re
from typing import Dict, Tuple

from .host import Host
from .machine import Machine
from .places import NETWORK_MANAGER_FILE, NETWORKD_FILE

MARK = "# Written by rocelab: change the lab file instead.\n"
NETWORK_MANAGERS = ("/usr/sbin/NetworkManager",)
NETWORKDS = ("/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd")
KEPT = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
"""From systemd 246 and 249 on; older ones warn of words that they do not know."""


def drop_ins(host: Host) -> Dict[str, bytes]:
    """Path and content of the files that this host needs; none where a guest's own tool keeps the rails' addresses."""
    if host.document.get("guest_network") or not host.pfs:
        return {}
    found: Dict[str, bytes] = {}
    if _has(host.machine, NETWORK_MANAGERS):
        names = ";".join(f"interface-name:{pattern}" for pf in host.pfs for pattern in _patterns(pf["interface"]))
        # += joins what other files name
        found[NETWORK_MANAGER_FILE] = f"{MARK}[keyfile]\nunmanaged-devices+={names}\n".encode()
    if any("routing" in pf for pf in host.pfs) and _has(host.machine, NETWORKDS):
        found[NETWORKD_FILE] = (MARK + KEPT).encode()
    return found


def _has(machine: Machine, programs: Tuple[str, ...]) -> bool:
    return any(machine.exists(program) for program in programs)


def _patterns(pf: str) -> Tuple[str, str]:
    """A PF and its VFs as udev names them: enp65s0f0np0 has enp65s0f0v0, without the name of the port."""
    return pf, re.sub(r"np\d+$", "", pf) + "v*"

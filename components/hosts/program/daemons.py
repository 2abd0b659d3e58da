"""Files that make the distribution's own network daemons leave the rails alone.

Nothing here reloads a daemon: it owns the management interface, and a reload could remove that
address. NetworkManager makes a profile "Wired connection N" for each NIC that no profile names,
asks for DHCP, and takes other addresses off the NIC. It leaves a device alone that has NM_UNMANAGED
in udev when it appears; one that it manages already is taken from it by name (tried on Debian 12,
NetworkManager 1.42.4). networkd's file counts from its next start on.
"""

import re
from typing import Dict, List, Tuple

from .guest import NETPLAN
from .guest_others import SCRIPTS, definition_of
from .host import Host
from .machine import Done, StepError, load_json
from .places import BASELINE_FILE, MARK, NETWORK_MANAGER_FILE, NETWORKD_FILE

GUESTS_DRIVER = "vmxnet3"
NETWORK_MANAGER = "/usr/sbin/NetworkManager"
UNMANAGED = "unmanaged"
NETWORKD = "/lib/systemd/systemd-networkd"
KEPT = "[Network]\nManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no\n"
"""From systemd 246 and 249 on; older versions warn about unknown settings."""


def drop_ins(host: Host) -> Dict[str, bytes]:
    """Path and content of the files that this host needs; none where a guest's own tool sets the
    rails' addresses.
    """
    if host.document.get("guest_network") or not host.pfs:
        return {}
    files: Dict[str, bytes] = {}
    if host.machine.exists(NETWORK_MANAGER):
        names = "|".join(pattern for pf in host.pfs for pattern in _patterns(pf["interface"]))
        rules = MARK
        # udev has a NAME only where an earlier rule gave one: with net.ifnames=0 the kernel's name
        # stays
        for match in (f'NAME=="{names}"', f'NAME=="", KERNEL=="{names}"'):
            rules += f'ACTION!="remove", SUBSYSTEM=="net", {match}, ENV{{NM_UNMANAGED}}="1"\n'
        files[NETWORK_MANAGER_FILE] = rules.encode()
    if any("routing" in pf for pf in host.pfs) and host.machine.exists(NETWORKD):
        files[NETWORKD_FILE] = (MARK + KEPT).encode()
    return files


def keep_new_vfs_unmanaged(host: Host) -> None:
    """Writes the rule before VFs appear: NetworkManager reads it once for each."""
    rule = drop_ins(host).get(NETWORK_MANAGER_FILE)
    if rule and host.machine.ensure(NETWORK_MANAGER_FILE, rule):
        host.machine.run("udevadm", "control", "--reload")


def managed_netdevs(host: Host, pf: str) -> List[str]:
    """A PF and its VFs, as far as NetworkManager manages them now."""
    if NETWORK_MANAGER_FILE not in drop_ins(host):
        return []
    done: Done = host.remembered(
        "nmcli", lambda: host.machine.run("nmcli", "-t", "-f", "DEVICE,STATE", "device")
    )
    states = dict(line.partition(":")[::2] for line in done.out.splitlines())
    names = [pf, *(vf.netdev for vf in host.vfs(pf))]
    return [name for name in names if states.get(name, UNMANAGED) != UNMANAGED]


def refuse_defined_rails(host: Host) -> None:
    """Refuses a bare-metal rail that netplan, NetworkManager or networkd sets up: of two owners the
    last one wins.

    When networkd sets a link up, it removes addresses that it does not know
    (systemd-networkd.service(8)). Guests have a check of their own (`guest_others`), because there
    the guest's own tool sets the address.
    """
    before = load_json(host.machine, BASELINE_FILE).get("steps", {})
    if host.booting or host.document.get("guest_network") or "guest_network" in before:
        return
    for pf in host.pfs:
        name = pf["interface"]
        path = definition_of(host.machine, name) if pf["driver"] != GUESTS_DRIVER else ""
        if path:
            raise StepError(
                f"{path} defines {name}, so two owners would set its address and MTU",
                f"{_remedy(path, name)}; or name another NIC as this rail",
            )


def _remedy(path: str, name: str) -> str:
    if path.startswith(NETPLAN):
        return (
            f"remove {name} from {path} (cloud-init: network: {{config: disabled}} in "
            "/etc/cloud/cloud.cfg.d), then netplan try"
        )
    if "NetworkManager" in path or path.startswith(SCRIPTS):
        return (
            f"nmcli connection modify the profile of {name} with connection.autoconnect no, and "
            "bring it down"
        )
    return (
        f"remove {name} from the [Match] of {path}, then networkctl reload and networkctl "
        f"reconfigure {name}"
    )


def _patterns(pf: str) -> Tuple[str, str]:
    """A PF and its VFs as udev names them: enp65s0f0np0 has enp65s0f0v0, without the name of the
    port.
    """
    return pf, re.sub(r"np\d+$", "", pf) + "v*"

"""Which NIC an interface name in the lab file means: drivers rename netdevs, so PCI address and MAC
are recorded.

With MLNX_OFED or DOCA enp5s0f0 can become enp5s0f0np0, since udev's names have the port that a
driver reports (systemd.net-naming-scheme(7), openshift-docs#60041). Everything else in the lab,
including device plugins and policies, uses the name. So a renamed PF gets its name back, and names
are pinned before a driver is replaced.
"""

import json
from typing import Dict, List, NamedTuple

from .carriers import refuse_what_carries_the_host
from .host import Host
from .machine import Machine, StepError, load_json
from .modules_built import MLX5
from .places import LINK_FILE, NICS_FILE

LINK_TEXT = """\
# Written by rocelab before the driver was replaced: this name must not change with it.
[Match]
Path=pci-{pci_address}
Driver={driver}

[Link]
Name={name}
AlternativeNamesPolicy=database onboard slot path
"""
"""systemd.link(5); udev reads it whether systemd-networkd is there or not. Driver: representors
have the same slot."""


class NicIdentity(NamedTuple):
    """What stays the same when a netdev is renamed."""

    pci_address: str
    mac: str


def nic_of(host: Host, pf: str) -> NicIdentity:
    """The NIC behind a netdev, with the card's permanent MAC."""
    link = host.links().get(pf, {})
    return NicIdentity(host.pci_address(pf), link.get("permaddr") or link.get("address", ""))


def known_nics(machine: Machine) -> Dict[str, NicIdentity]:
    """The recorded NICs, by the PF's name in the lab file."""
    nics = {}
    for name, entry in load_json(machine, NICS_FILE).get("pfs", {}).items():
        nics[name] = NicIdentity(*entry)
    return nics


def remember_nics(host: Host) -> None:
    """Records every PF of the document; the record of a PF that is missing now stays."""
    known = known_nics(host.machine)
    names = [pf["interface"] for pf in host.pfs]
    nics = {name: nic_of(host, name) for name in names if name in host.links()}
    now = {name: nics.get(name, known.get(name)) for name in names if name in nics or name in known}
    if now != known:
        host.machine.put(NICS_FILE, json.dumps({"pfs": now}, sort_keys=True) + "\n")


def lasting_pci_address(host: Host, pf: str) -> str:
    """PCI address of a PF, also while its driver is not loaded; empty for an unknown PF."""
    known = known_nics(host.machine).get(pf)
    return host.pci_address(pf) or (known.pci_address if known else "")


def devices_are_there(host: Host) -> bool:
    """Whether every PF has its netdev, under any name, and its own RDMA device: a driver makes one
    after the other.
    """
    machine = host.machine
    for pf in host.pfs:
        address = lasting_pci_address(host, pf["interface"])
        named = machine.exists(f"/sys/class/net/{pf['interface']}")
        if not named and not machine.names(f"/sys/bus/pci/devices/{address}/net"):
            return False
        device = f"/sys/class/infiniband/{pf['rdma_device']}"
        if pf["driver"] == MLX5 and not machine.exists(device):
            return False
    return True


def restore_names(host: Host) -> None:
    """Gives each renamed PF its name back, unless another NIC has that name now."""
    for name, nic in known_nics(host.machine).items():
        if name not in [pf["interface"] for pf in host.pfs]:
            continue
        now = _netdev_of(host, name, nic)
        if now in ("", name):
            continue  # unchanged, missing, or another card that the lab file names now
        if name in host.links():
            slot = nic_of(host, name).pci_address
            raise StepError(
                f"{name} is the NIC in slot {slot} now; it used to be the NIC in "
                f"{nic.pci_address}, now named {now}",
                f"pin the names by .link files (systemd.link(5): Path=pci-{nic.pci_address}, "
                f"Name={name}) and reboot, or write the new names in the lab file",
            )
        refuse_what_carries_the_host(host, [now])
        altnames = host.links()[now].get("altnames", [])
        host.ip_batch(
            [
                *[f"link property del dev {now} altname {name}"]
                * (name in altnames),  # else the name is taken
                f"link set dev {now} down",  # before Linux 6.2 no netdev that is up can be renamed
                f"link set dev {now} name {name}",
            ]
        )
        host.changed.append(f"{now} is {name} again")


def pin_names(host: Host) -> None:
    """Pins the name of every netdev of the driver in udev, a management port too; VFs are not
    pinned.
    """
    for name, text in _link_files(host).items():
        host.machine.ensure(LINK_FILE.format(name), text)


def unpinned_names(host: Host) -> List[str]:
    """Netdevs of the driver whose names another driver might change."""
    names = []
    for name, text in _link_files(host).items():
        if host.machine.content(LINK_FILE.format(name)) != text.encode():
            names.append(name)
    return names


def _link_files(host: Host) -> Dict[str, str]:
    machine, files = host.machine, {}
    for name in sorted(host.links()):
        if host.driver(name) == MLX5 and not machine.exists(f"/sys/class/net/{name}/device/physfn"):
            files[name] = LINK_TEXT.format(
                pci_address=host.pci_address(name), driver=MLX5, name=name
            )
    return files


def _netdev_of(host: Host, pf: str, nic: NicIdentity) -> str:
    """The netdev of a NIC as it is called now; of several in one slot (representors) the one with
    its MAC.
    """
    links = host.links()
    there: List[str] = [name for name in sorted(links) if host.pci_address(name) == nic.pci_address]
    same = [name for name in there if nic_of(host, name).mac == nic.mac]
    return pf if pf in there else (same or there or [""])[0]

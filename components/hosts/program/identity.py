"""Which NIC a name of the lab means: its PCI address and MAC are written down, since drivers rename netdevs."""

import json
from typing import Dict, NamedTuple

from .files import load_json
from .host import Host
from .machine import Machine
from .places import NICS_FILE


class Nic(NamedTuple):
    """What stays the same when a netdev is renamed."""

    pci_address: str
    mac: str


def seen_nic(host: Host, pf: str) -> Nic:
    """The NIC behind a netdev that is there; the MAC is the one that the card came with."""
    link = host.links().get(pf, {})
    return Nic(host.machine.target(f"/sys/class/net/{pf}/device"), link.get("permaddr") or link.get("address", ""))


def known_nics(machine: Machine) -> Dict[str, Nic]:
    """What was written down, by the lab's name of each PF."""
    return {name: Nic(*entry) for name, entry in load_json(machine, NICS_FILE).get("pfs", {}).items()}


def remember_nics(host: Host) -> None:
    """Writes down every PF of the document that is there; one that is away keeps what was known of it."""
    known = known_nics(host.machine)
    names = [pf["interface"] for pf in host.pfs]
    seen = {name: seen_nic(host, name) for name in names if name in host.links()}
    now = {name: seen.get(name, known.get(name)) for name in names if name in seen or name in known}
    if now != known:
        host.machine.put(NICS_FILE, json.dumps({"pfs": now}, sort_keys=True) + "\n")


def pci_address(host: Host, pf: str) -> str:
    """Where a PF is plugged in, also while its driver is away; empty for one that nobody has seen yet."""
    known = known_nics(host.machine).get(pf)
    return host.machine.target(f"/sys/class/net/{pf}/device") or (known.pci_address if known else "")

"""Where cables end: the switch port of each NIC port, as the host hears it, else as a switch hears or learns. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from string import ascii_letters

from components.inventory.model import Host, Inventory, Neighbour, Pf, Switch

MAC = re.compile(r"(?i)([0-9a-f]{2}[:.]?){6}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """The other end of a cable."""

    name: str
    """Of the switch; two switches of one name have their chassis behind it."""
    port: str = ""
    """As the switch calls it; empty where only a MAC was announced."""


class Cables:
    """The cables of an inventory."""

    def __init__(self, inventory: Inventory) -> None:
        switches = inventory.switches
        self._names = {chassis: switch.name for switch in switches if (chassis := switch.chassis_id.or_else(""))}
        self._ports = {switch.name: {port.name for port in switch.ports.or_else(())} for switch in switches}
        self.chassis_by_name: dict[str, set[str]] = defaultdict(set)
        """The chassis that call themselves so."""
        for chassis, name in self._names.items():
            self.chassis_by_name[name].add(chassis)
        pfs = [pf for host in inventory.hosts for pf in host.pfs.or_else(())]
        for heard in (each for pf in pfs for each in pf.lldp.or_else(())):
            if heard.system and heard.chassis_id:
                self.chassis_by_name[heard.system].add(heard.chassis_id)
        self._from_switches: dict[str, set[Leaf]] = defaultdict(set)
        """By MAC, and by host and interface."""
        for switch in switches:
            for key, leaf in _heard_by(switch):
                self._from_switches[key].add(leaf)
        learned: dict[str, set[Leaf]] = defaultdict(set)
        for switch in switches:
            for mac, leaf in _learned_by(switch, {pf.mac.or_else("") for pf in pfs}):
                learned[mac].add(leaf)
        for mac, leaves in learned.items():
            self._from_switches.setdefault(mac, leaves)

    def leaf_of(self, host: Host, pf: Pf, interface: str) -> Leaf | None:
        """The other end of a port's cable; None when it is unknown or announced twice."""
        leaves = {self._leaf(heard) for heard in pf.lldp.or_else(()) if heard.system or heard.chassis_id}
        hostname = host.system.hostname.or_else("").partition(".")[0]
        for key in (pf.mac.or_else(""), f"{host.name} {interface}", f"{hostname} {interface}"):
            leaves = leaves or self._from_switches.get(key, set())
        return next(iter(leaves)) if len(leaves) == 1 else None

    def _leaf(self, heard: Neighbour) -> Leaf:
        system, chassis = heard.system or heard.chassis_id, heard.chassis_id
        several = len(self.chassis_by_name.get(system, ())) > 1
        # a switch may call itself otherwise than you do
        name = self._names.get(chassis) or (f"{system} ({chassis})" if several else system)
        own = self._ports.get(name, set())
        # Onyx calls 1/1 of its configuration Eth1/1 by LLDP
        announced = (heard.port_id, heard.port_description, heard.port_id.lstrip(ascii_letters))
        unlisted = heard.port_description if MAC.fullmatch(heard.port_id) else heard.port_id
        return Leaf(name=name, port=next((port for port in announced if port in own), unlisted))


def _heard_by(switch: Switch) -> Iterator[tuple[str, Leaf]]:
    """MACs, and hosts with interface, that a switch hears by LLDP."""
    for port in switch.ports.or_else(()):
        for heard in port.neighbours.or_else(()):
            for text in {heard.port_id, heard.port_description} - {""}:
                leaf = Leaf(name=switch.name, port=port.name)
                yield text.lower(), leaf
                yield f"{heard.system.partition('.')[0]} {text}", leaf


def _learned_by(switch: Switch, macs: set[str]) -> Iterator[tuple[str, Leaf]]:
    """MACs of hosts that a switch has learned on ports with one of them; several lead to another switch."""
    entries = {(entry.port, entry.mac.lower()) for entry in switch.macs.or_else(())}
    entries = {(port, mac) for port, mac in entries if mac in macs}
    counts = Counter(port for port, _ in entries)
    for port, mac in entries:
        if counts[port] == 1:
            yield mac, Leaf(name=switch.name, port=port)

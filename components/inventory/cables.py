"""Where cables end: the switch port of each NIC port, by LLDP or learned MACs. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from string import ascii_letters

from components.inventory.model import Host, Inventory, Pf, Switch
from components.switches.settings import Announcement
from stacks.frozen import frozen

MAC = re.compile(r"(?i)([0-9a-f]{2}[:.]?){6}")


@frozen
class LeafPort:
    """The other end of a cable."""

    name: str
    """Of the switch; two switches of one name have their chassis behind it."""
    port: str = ""
    """As the switch calls it; empty where only a MAC was announced."""


class Cables:
    """The cables of an inventory."""

    def __init__(self, inventory: Inventory) -> None:
        switches = inventory.switches
        self._names: dict[str, str] = {}
        self._ports: dict[str, set[str]] = {}
        for switch in switches:
            if chassis := switch.chassis_id.or_else(""):
                self._names[chassis] = switch.name
            self._ports[switch.name] = {port.name for port in switch.ports.or_else(())}
        self.chassis_by_name: dict[str, set[str]] = defaultdict(set)
        """The chassis with this system name."""
        for chassis, name in self._names.items():
            self.chassis_by_name[name].add(chassis)
        pfs = [pf for host in inventory.hosts for pf in host.pfs.or_else(())]
        self._announced = _chassis_heard_by(pfs)
        """The same, as hosts receive them: SONiC does not always announce its own chassis."""
        for name, chassis_ids in self._announced.items():
            self.chassis_by_name[name] |= chassis_ids
        macs = {pf.mac.or_else("") for pf in pfs}
        self._from_switches = _leaves_by_key(switches, macs)
        """By MAC, and by host and interface."""

    def leaf_of(self, host: Host, pf: Pf, interface: str) -> LeafPort | None:
        """The other end of a port's cable; None when it is unknown or announced twice."""
        hostname = host.system.hostname.or_else("").partition(".")[0]
        keys = (pf.mac.or_else(""), f"{host.name} {interface}", f"{hostname} {interface}")
        by_switch = next(filter(None, map(self._from_switches.get, keys)), set())
        leaves = set()
        for neighbour in pf.lldp.or_else(()):
            if neighbour.system or neighbour.chassis_id:
                leaves.add(self._leaf(neighbour, by_switch))
        leaves = leaves or by_switch
        return next(iter(leaves)) if len(leaves) == 1 else None

    def _leaf(self, heard: Announcement, by_switch: set[LeafPort]) -> LeafPort:
        system, chassis = heard.system or heard.chassis_id, heard.chassis_id
        several = len(self._announced.get(system, ())) > 1
        # a switch's own name may differ from the one in the lab file
        name = self._names.get(chassis) or (f"{system} ({chassis})" if several else system)
        own = self._ports.get(name, set())
        # Onyx calls 1/1 of its configuration Eth1/1 by LLDP
        announced = (heard.port_id, heard.port_description, heard.port_id.lstrip(ascii_letters))
        if port := next((port for port in announced if port in own), ""):
            return LeafPort(name=name, port=port)
        # SONiC announces a port's alias, such as etp4 for Ethernet12
        same = [leaf for leaf in by_switch if leaf.name == name]
        if len(same) == 1:
            return same[0]
        port = heard.port_description if MAC.fullmatch(heard.port_id) else heard.port_id
        return LeafPort(name=name, port=port)


def _chassis_heard_by(pfs: Iterable[Pf]) -> dict[str, set[str]]:
    chassis_by_system: dict[str, set[str]] = defaultdict(set)
    for pf in pfs:
        for neighbour in pf.lldp.or_else(()):
            if neighbour.system and neighbour.chassis_id:
                chassis_by_system[neighbour.system].add(neighbour.chassis_id)
    return chassis_by_system


def _leaves_by_key(switches: Iterable[Switch], macs: set[str]) -> dict[str, set[LeafPort]]:
    """What switches hear by LLDP; what they learned only counts for other MACs."""
    leaves: dict[str, set[LeafPort]] = defaultdict(set)
    learned: dict[str, set[LeafPort]] = defaultdict(set)
    for switch in switches:
        for key, leaf in _heard_by(switch):
            leaves[key].add(leaf)
        for mac, leaf in _learned_by(switch, macs):
            learned[mac].add(leaf)
    return learned | leaves


def _heard_by(switch: Switch) -> Iterator[tuple[str, LeafPort]]:
    """MACs, and hosts with interface, that a switch hears by LLDP."""
    for port in switch.ports.or_else(()):
        for heard in port.neighbours.or_else(()):
            for text in {heard.port_id, heard.port_description} - {""}:
                leaf = LeafPort(name=switch.name, port=port.name)
                yield text.lower(), leaf
                yield f"{heard.system.partition('.')[0]} {text}", leaf


def _learned_by(switch: Switch, macs: set[str]) -> Iterator[tuple[str, LeafPort]]:
    """MACs that a switch learned alone on a port; several on one lead to another switch."""
    entries = {(entry.port, entry.mac.lower()) for entry in switch.macs.or_else(())}
    entries = {(port, mac) for port, mac in entries if mac in macs}
    counts = Counter(port for port, _ in entries)
    for port, mac in entries:
        if counts[port] == 1:
            yield mac, LeafPort(name=switch.name, port=port)

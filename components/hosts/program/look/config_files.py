"""The files that set an interface at boot, by whatever manager: names, MTU, addresses and VFs, and
nothing else.

Such files hold passwords too (802.1X, Wi-Fi): only the keys that are named here are ever taken from
them.
"""

import fnmatch
import json
import re
from typing import Dict, List, Optional, Tuple

from ..guest import NETPLAN, PROFILES, RUN_NETWORKS, RUN_PROFILES
from ..guest_others import (
    SCRIPTS,
    block_of,
    pairs_in,
    profile_is_for,
    script_defines,
    yaml_defines,
)
from ..machine import first_match
from ..places import DOCUMENT_FILE
from .leaves import Json
from .read_only import ReadOnly

NETWORKD = "/etc/systemd/network"
IFUPDOWN = ("/etc/network/interfaces", "/etc/network/interfaces.d")
UNITS, RULES = "/etc/systemd/system", "/etc/udev/rules.d"
SOURCE = "/etc: netplan, networkd, NetworkManager, ifcfg, ifupdown, udev, systemd"
VFS = re.compile(r"(\d+)\s*>+\s*\S*sriov_numvfs|sriov_numvfs\}?\s*=\s*\"?(\d+)")

Pairs = List[Tuple[str, str]]


def config_files(machine: ReadOnly, interface: str, mac: str, pci: str) -> List[Json]:
    """Every file that sets this interface, with what it sets."""
    if not interface:
        return []
    files = [*_netplan(machine, interface, mac), *_networkd(machine, interface, mac)]
    files += [
        *_network_manager(machine, interface, mac),
        *_ifcfg(machine, interface, mac),
        *_ifupdown(machine, interface),
    ]
    files += [*_scripts(machine, interface, pci), *_of_rocelab(machine, interface)]
    known_values = []
    for file in files:
        known_values.append({key: value for key, value in file.items() if value is not None})
    return known_values


def _file(
    path: str,
    manager: str,
    mtu: Optional[str] = None,
    addresses: Tuple[str, ...] = (),
    vfs: Optional[str] = None,
) -> Json:
    numbers = [int(text) if text and text.isdigit() else None for text in (mtu, vfs)]
    return {
        "path": path,
        "manager": manager,
        "mtu_bytes": numbers[0],
        "vfs": numbers[1],
        "addresses": [text for text in addresses if re.match(r"^[0-9a-fA-F:.]+/\d+$", text)],
    }


def _netplan(machine: ReadOnly, interface: str, mac: str) -> List[Json]:
    """The values are from the files that netplan renders for its backend, which are not YAML."""
    files = []
    for path in _listed(machine, NETPLAN, ".yaml"):
        text = machine.read(path)
        if yaml_defines(text, interface, mac):
            made = _networkd(machine, interface, mac, RUN_NETWORKS)
            made += _network_manager(machine, interface, mac, RUN_PROFILES)
            mtu = next((file["mtu_bytes"] for file in made if file["mtu_bytes"]), None)
            addresses = tuple(address for file in made for address in file["addresses"])
            block, _ = block_of(text, interface) or ([], "")
            braces = re.findall(
                rf"""^\s+["']?{re.escape(interface)}["']?\s*:\s*{{.*""", text, re.MULTILINE
            )
            vfs = first_match(r"virtual-function-count:\s*(\d+)", "\n".join([*block, *braces]))
            files.append(_file(path, "netplan", mtu and str(mtu), addresses, vfs))
    return files


def _networkd(machine: ReadOnly, interface: str, mac: str, folder: str = NETWORKD) -> List[Json]:
    files = []
    for path in (*_listed(machine, folder, ".network"), *_listed(machine, folder, ".link")):
        sections = _ini(machine.read(path))
        if _matches(sections.get("Match", []), interface, mac):
            link, addresses = sections.get("Link", []), []
            for section in ("Network", "Address"):
                addresses += [value for key, value in sections.get(section, []) if key == "Address"]
            vfs = _first(link, "SR-IOVVirtualFunctions")
            files.append(_file(path, "networkd", _first(link, "MTUBytes"), tuple(addresses), vfs))
    return files


def _matches(match: Pairs, interface: str, mac: str) -> bool:
    """Whether networkd's section Match is for the interface."""
    for key, value in match:
        if key in ("Name", "OriginalName"):
            if any(fnmatch.fnmatch(interface, pattern) for pattern in value.split()):
                return True
        elif key in ("MACAddress", "PermanentMACAddress") and mac and mac in value.lower().split():
            return True
    return False


def _network_manager(
    machine: ReadOnly, interface: str, mac: str, folder: str = PROFILES
) -> List[Json]:
    files = []
    for path in _listed(machine, folder, ".nmconnection"):
        text = machine.read(path)
        if not profile_is_for(pairs_in(text), interface, mac):
            continue
        sections = _ini(text)
        addresses = []
        for family in ("ipv4", "ipv6"):
            for key, value in sections.get(family, []):
                if re.match(r"address\d+$", key):
                    addresses.append(value.split(",")[0])
        mtu = _first(sections.get("ethernet", []), "mtu")
        vfs = _first(sections.get("sriov", []), "total-vfs")
        files.append(_file(path, "networkmanager", mtu, tuple(addresses), vfs))
    return files


def _ifcfg(machine: ReadOnly, interface: str, mac: str) -> List[Json]:
    files = []
    for path in _listed(machine, SCRIPTS, ""):
        values = pairs_in(machine.read(path))
        if script_defines(path, values, interface, mac):
            # `_file` takes no address without both
            address = f"{values.get('IPADDR')}/{values.get('PREFIX')}"
            files.append(_file(path, "ifcfg", values.get("MTU"), (address,)))
    return files


def _ifupdown(machine: ReadOnly, interface: str) -> List[Json]:
    files = []
    for path in (IFUPDOWN[0], *_listed(machine, IFUPDOWN[1], "")):
        blocks = re.split(r"^(?=iface\s)", machine.read(path), flags=re.MULTILINE)
        ours = [block for block in blocks if re.match(rf"iface\s+{re.escape(interface)}\s", block)]
        if ours:
            text = "\n".join(ours)
            mtu = first_match(r"^\s+mtu\s+(\d+)", text)
            addresses = tuple(re.findall(r"^\s+address\s+(\S+)", text, re.MULTILINE))
            files.append(_file(path, "ifupdown", mtu, addresses))
    return files


def _scripts(machine: ReadOnly, interface: str, pci: str) -> List[Json]:
    """Units and udev rules that make VFs."""
    files = []
    for folder, suffix, manager in ((UNITS, ".service", "systemd"), (RULES, ".rules", "udev")):
        for path in _listed(machine, folder, suffix):
            lines = [
                line for line in machine.read(path).splitlines() if interface in line or pci in line
            ]
            vfs = VFS.search("\n".join(lines))
            if vfs:
                files.append(_file(path, manager, vfs=vfs[1] or vfs[2]))
    return files


def _of_rocelab(machine: ReadOnly, interface: str) -> List[Json]:
    """What the unit of rocelab sets at each boot."""
    try:
        pfs = json.loads(machine.read(DOCUMENT_FILE))["pfs"]
        files = []
        for pf in pfs:
            if pf["interface"] == interface:
                mtu, addresses, vfs = str(pf["mtu_bytes"]), (pf["address"],), str(pf["vfs"])
                files.append(_file(DOCUMENT_FILE, "rocelab", mtu, addresses, vfs))
    except (ValueError, KeyError, TypeError):
        return []
    return files


def _listed(machine: ReadOnly, folder: str, suffix: str) -> List[str]:
    return [f"{folder}/{name}" for name in machine.names(folder) if name.endswith(suffix)]


def _ini(text: str) -> Dict[str, Pairs]:
    """Sections of systemd's and NetworkManager's files, in which keys and sections may repeat."""
    sections: Dict[str, Pairs] = {}
    section: Pairs = []
    for line in text.splitlines():
        head = re.match(r"\s*\[(.+)\]\s*$", line)
        key, mark, value = line.partition("=")
        if head:
            section = sections.setdefault(head[1], [])
        elif mark and not line.lstrip().startswith(("#", ";")):
            section.append((key.strip(), value.strip()))
    return sections


def _first(pairs: Pairs, name: str) -> Optional[str]:
    return next((value for key, value in pairs if key == name), None)

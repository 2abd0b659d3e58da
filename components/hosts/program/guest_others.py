"""Other programs' files that also define a rail, such as VMware's and cloud-init's.

A file with the same settings is left alone; any other is refused by name, since both would apply.
Only the block style of those programs is read: YAML in braces counts as different.
"""

import re
from typing import Any, Dict, List, Optional, Tuple

from .guest import HIGHEST_PRIORITY, NETPLAN, PROFILES, RUN_PROFILES
from .machine import Machine, StepError
from .places import MARK

SCRIPTS = "/etc/sysconfig/network-scripts"
"""NetworkManager reads the ifcfg files there too, up to RHEL 9."""
NO = ("no", "false", "off")
NETWORKD_LINKS = "/run/systemd/netif/links"
"""networkd's state files, by interface number: ADMIN_STATE and NETWORK_FILE
(src/network/networkd-state-file.c)."""
REMEDY = (
    "give it the lab file's settings, or remove {} from it (cloud-init: network: {{config: "
    "disabled}})"
)


def refuse_other_definitions(machine: Machine, tool: str, pf: Dict[str, Any]) -> None:
    """Refuses a PF that another program's file defines differently; that file is never changed.

    Of several profiles NetworkManager takes the one with the highest priority, so only its equals
    count.
    """
    name, hardware = pf["interface"], _hardware(machine, pf["interface"])
    if tool == "netplan":
        for path, text in _files(machine, NETPLAN, ".yaml"):
            if yaml_defines(text, name, hardware):
                differs = _yaml_differs(text, pf, hardware)
                _refuse(path, name, "too, and netplan would join both", differs)
        return
    highest = "with NetworkManager's highest priority"
    for path, text in _files(machine, SCRIPTS):
        pairs = pairs_in(text)
        first = pairs.get("AUTOCONNECT_PRIORITY") == HIGHEST_PRIORITY
        if first and script_defines(path, pairs, name, hardware):
            _refuse(path, name, highest, _script_differs(pairs, pf))
    for path, text in _files(machine, PROFILES):
        pairs = pairs_in(text)
        first = pairs.get("autoconnect-priority") == HIGHEST_PRIORITY
        if first and profile_is_for(pairs, name, hardware):
            _refuse(path, name, highest, _profile_differs(text, pf))


def definition_of(machine: Machine, name: str) -> str:
    """The file by which a network daemon sets an interface up; empty when there is none.

    A profile that never starts by itself does not count: RHEL's installer writes one for each
    unused NIC. Neither do those that NetworkManager makes itself (`daemons` takes the NIC from it).
    networkd records what it matched in a file per link, with patterns, drivers and netplan's own
    matches resolved.
    """
    hardware = _hardware(machine, name)
    paths = []
    for path, text in _files(machine, NETPLAN, ".yaml"):
        if yaml_defines(text, name, hardware):
            paths.append(path)
    paths += _profiles_of(machine, name, hardware)
    for path, text in _files(machine, SCRIPTS):
        pairs = pairs_in(text)
        at_boot = pairs.get("ONBOOT", "yes").lower() not in NO
        if at_boot and script_defines(path, pairs, name, hardware):
            paths.append(path)
    index = machine.read(f"/sys/class/net/{name}/ifindex")
    link = pairs_in(machine.read(f"{NETWORKD_LINKS}/{index}"))
    if link.get("ADMIN_STATE") != "unmanaged" and link.get("NETWORK_FILE"):
        paths.append(link["NETWORK_FILE"])
    return paths[0] if paths else ""


def _profiles_of(machine: Machine, name: str, hardware: str) -> List[str]:
    """NetworkManager's profiles that start for an interface."""
    paths = []
    for path, text in [*_files(machine, PROFILES), *_files(machine, RUN_PROFILES)]:
        pairs = pairs_in(text)
        if path.startswith(f"{RUN_PROFILES}/netplan-"):
            continue  # from netplan's files, which are read themselves
        if pairs.get("nm-generated") == "true" or pairs.get("autoconnect", "true").lower() in NO:
            continue
        if profile_is_for(pairs, name, hardware):
            paths.append(path)
    return paths


def defines_alone(machine: Machine, name: str) -> bool:
    """Whether netplan has another definition of the interface."""
    return any(block_of(text, name) is not None for _, text in _files(machine, NETPLAN, ".yaml"))


def _files(machine: Machine, folder: str, ending: str = "") -> List[Tuple[str, str]]:
    texts = [
        (f"{folder}/{file}", machine.read(f"{folder}/{file}")) for file in machine.names(folder)
    ]
    files = []
    for path, text in texts:
        if path.endswith(ending) and not text.startswith(MARK.strip()):
            files.append((path, text))
    return files


def _hardware(machine: Machine, name: str) -> str:
    return machine.read(f"/sys/class/net/{name}/address").lower()


def _refuse(path: str, name: str, what: str, differs: Optional[str]) -> None:
    if differs is not None:
        raise StepError(f"{path} defines {name} {what}: {differs}", REMEDY.format(name))


def yaml_defines(text: str, name: str, hardware: str) -> bool:
    """Whether a netplan file names the interface: as a key, by a match on its name, or by its
    hardware address.
    """
    for line in text.splitlines():
        pair = re.match(r"""\s+["']?([^"'#\s:]+)["']?\s*:\s*["']?([^"'#\s]*)""", line)
        if pair is None:
            continue
        key, value = pair[1], pair[2]
        pattern = re.escape(value).replace(r"\*", ".*").replace(r"\?", ".")
        if key == name or (key in ("name", "set-name") and value and re.fullmatch(pattern, name)):
            return True
        if hardware and key == "macaddress" and hardware in line.lower():
            return True
    return False


def block_of(text: str, name: str) -> Optional[Tuple[List[str], str]]:
    """Lines below the interface's key, and the text without them; None when no key is called like
    it.
    """
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    for start, line in enumerate(lines):
        if re.fullmatch(rf"""\s+["']?{re.escape(name)}["']?\s*:\s*(#.*)?""", line):
            depth, end = _depth(line), start + 1
            while end < len(lines) and _depth(lines[end]) > depth:
                end += 1
            return lines[start + 1 : end], "\n".join(lines[:start] + lines[end:])
    return None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _yaml_differs(text: str, pf: Dict[str, Any], hardware: str) -> Optional[str]:
    """What a netplan file sets differently for the PF; None when both files together give what the
    lab file asks for.

    netplan takes a value from the file whose name sorts last, and joins lists: an address in both
    files is one address (netplan 0.106).
    """
    name = pf["interface"]
    definition = block_of(text, name)
    if definition is None:
        return "under another name, so there would be two definitions"
    block, rest = definition
    if yaml_defines(rest, name, hardware):
        return "more than once"
    settings = _said(block)
    addresses = settings.pop("addresses", [])
    if addresses != [pf["address"]]:
        return f"addresses {' '.join(addresses) or 'none'} instead of {pf['address']}"
    same = {
        "dhcp4": NO,
        "dhcp6": NO,
        "mtu": (str(pf["mtu_bytes"]),),
        "set-name": (name,),
        "match.name": (name,),
        "match.macaddress": (hardware,),
        "optional": (*NO, "true", "yes", "on"),
    }
    for key, values in settings.items():
        if not key.startswith("nameservers.") and [
            value for value in values if value.lower() not in same.get(key, ())
        ]:
            return f"{key}: {' '.join(values)}"
    return None


def _said(block: List[str]) -> Dict[str, List[str]]:
    """Dotted keys of an indented block, each with its value or list of values."""
    settings: Dict[str, List[str]] = {}
    above: List[Tuple[int, str]] = []
    for line in block:
        depth, words = _depth(line), line.strip()
        item = words.startswith("- ")
        # an item may have the same indentation as its key
        above = [entry for entry in above if entry[0] < depth or (item and entry[0] == depth)]
        if item:
            settings.setdefault(".".join(key for _, key in above), []).append(
                words[2:].strip("\"' ")
            )
            continue
        key, _, value = words.partition(":")
        above.append((depth, key.strip("\"' ")))
        value = value.partition(" #")[0].strip("\"' ")
        if value:
            settings[".".join(part for _, part in above)] = [value]
    return settings


def pairs_in(text: str) -> Dict[str, str]:
    pair = r"^\s*([\w-]+)=[\"']?([^\"'\n]*?)[\"']?(?:\s+#.*)?\s*$"
    return dict(re.findall(pair, text, re.MULTILINE))


def script_defines(path: str, pairs: Dict[str, str], name: str, hardware: str) -> bool:
    """Whether an ifcfg file names the interface: in its own name, by DEVICE, or by HWADDR."""
    file = path.rpartition("/")[2]
    return file.startswith("ifcfg-") and (
        file == f"ifcfg-{name}"
        or pairs.get("DEVICE") == name
        or bool(hardware and pairs.get("HWADDR", "").lower() == hardware)
    )


def _script_differs(pairs: Dict[str, str], pf: Dict[str, Any]) -> Optional[str]:
    if pairs.get("BOOTPROTO", "none").lower() not in ("none", "static"):
        return f"BOOTPROTO={pairs['BOOTPROTO']}"
    for key, value in pairs.items():
        if key.startswith("GATEWAY") or re.fullmatch(r"IPADDR[1-9]\d*", key):
            return f"{key}={value}"
    given = f"{pairs.get('IPADDR', '')}/{pairs.get('PREFIX') or pairs.get('NETMASK', '')}"
    return None if _same(given, pf) else f"{given} instead of {pf['address']}"


def profile_is_for(pairs: Dict[str, str], name: str, hardware: str) -> bool:
    """Whether a profile of NetworkManager names the interface, or its hardware address."""
    return pairs.get("interface-name") == name or bool(
        hardware and pairs.get("mac-address", "").lower() == hardware
    )


def _profile_differs(text: str, pf: Dict[str, Any]) -> Optional[str]:
    ipv4 = pairs_in(text.partition("[ipv4]")[2].partition("\n[")[0])
    for key in ipv4:
        if key in ("gateway", "address2") or key.startswith("route"):
            return f"{key}={ipv4[key]}"
    given = ipv4.get("address1", ipv4.get("addresses", "")).rstrip(";")
    if ipv4.get("method") != "manual":
        return f"method={ipv4.get('method', 'auto')}"
    return None if _same(given, pf) else f"{given or 'no address'} instead of {pf['address']}"


def _same(given: str, pf: Dict[str, Any]) -> bool:
    """Whether it is the PF's address, with its prefix's length or with a netmask."""
    address, _, length = given.partition("/")
    numbers = length.split(".")
    if len(numbers) == 4 and all(number.isdigit() and int(number) < 256 for number in numbers):
        bits = "".join(f"{int(number):08b}" for number in numbers)
        length = str(bits.count("1")) if "01" not in bits else length
    return f"{address}/{length}" == str(pf["address"])

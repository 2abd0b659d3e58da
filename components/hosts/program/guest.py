"""The rail's address in a guest's own words: files for netplan or NetworkManager, as data.

Each tool gets one file of ours for an interface. Files that are there already stay as they are, and nothing here makes
a tool look at another interface: `netplan apply` would, so what netplan renders is taken over for this one only.
"""

import hashlib
from typing import Any, Dict, List, NamedTuple

from .machine import Machine, StepError
from .places import RUN

MARK = "# Written by rocelab: change the lab file instead.\n"
NETPLAN = "/etc/netplan"
PROFILES, RUN_PROFILES = "/etc/NetworkManager/system-connections", "/run/NetworkManager/system-connections"
RUN_NETWORKS = "/run/systemd/network"
HIGHEST_PRIORITY = "999"
"""NetworkManager's highest; VMware's customization gives it to its ifcfg files on RHEL 9."""
RENDERED = RUN + "/netplan"
"""Another root for netplan, in which it renders without touching what is in use."""
ACTIVATION_S = 20
TOOLS = ("netplan", "nmcli")

Words = List[List[str]]


class Plan(NamedTuple):
    """What a tool is given for one interface."""

    path: str
    text: str
    start: Words
    """Makes the tool take the file; nothing but this interface is touched."""
    stop: Words
    """Makes the tool let go of the interface, before the file goes."""


def tool_of(machine: Machine, asked: str) -> str:
    """The tool that keeps this guest's addresses.

    Raises:
        StepError: when the guest has none of those that are known, or not the one that is asked for.
    """
    looks = {
        "netplan": lambda: machine.exists("/usr/sbin/netplan") and machine.exists(NETPLAN),
        "nmcli": lambda: machine.run("nmcli", "-t", "-f", "RUNNING", "general").out.strip() == "running",
    }
    found = next((name for name in TOOLS if asked in ("auto", name) and looks[name]()), None)
    if found is None:
        raise StepError(
            f"this guest has {'none of ' + ', '.join(TOOLS) if asked == 'auto' else 'no ' + asked}",
            "guests.network.tool: auto takes what the guest has; without guests.network only our own unit sets it",
        )
    return found


def plan_for(tool: str, pf: Dict[str, Any]) -> Plan:
    """File and commands of a tool for a PF."""
    return {"netplan": _netplan, "nmcli": _nmcli}[tool](pf)


def _netplan(pf: Dict[str, Any]) -> Plan:
    """`optional`: a rail without cable must not hold up the boot. The renderer is the guest's own."""
    name = pf["interface"]
    lines = (
        "network:",
        "  version: 2",
        "  ethernets:",
        f"    {name}:",
        "      dhcp4: false",
        "      dhcp6: false",
        "      optional: true",
        f"      mtu: {pf['mtu_bytes']}",
        "      addresses:",
        f"        - {pf['address']}",
    )
    return Plan(f"{NETPLAN}/90-rocelab-{name}.yaml", MARK + "\n".join(lines) + "\n", [], [])


def _nmcli(pf: Dict[str, Any]) -> Plan:
    """A keyfile: every NetworkManager reads those, also where its habit are ifcfg files.

    The priority is the highest there is: cloud-init's profiles have 120, those of VMware's customization up to 999,
    and of equals NetworkManager takes the one that was used last.
    """
    name = pf["interface"]
    profile, path = f"rocelab-{name}", f"{PROFILES}/rocelab-{name}.nmconnection"
    digits = hashlib.sha256(profile.encode()).hexdigest()
    uuid = f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"
    lines = (
        "[connection]",
        f"id={profile}",
        f"uuid={uuid}",
        "type=ethernet",
        f"interface-name={name}",
        "autoconnect=true",
        f"autoconnect-priority={HIGHEST_PRIORITY}",
        "",
        "[ethernet]",
        f"mtu={pf['mtu_bytes']}",
        "",
        "[ipv4]",
        "method=manual",
        f"address1={pf['address']}",
        "never-default=true",
        "",
        "[ipv6]",
        "method=link-local",
    )
    wait = ["nmcli", "--wait", str(ACTIVATION_S), "connection"]
    start = [["nmcli", "connection", "load", path], [*wait, "up", profile]]
    return Plan(path, MARK + "\n".join(lines) + "\n", start, [[*wait, "down", profile]])


def rendered_by_netplan(machine: Machine, name: str) -> Dict[str, str]:
    """What netplan makes of the files in its folder for one interface: path and text, for networkd or NetworkManager.

    Raises:
        StepError: when netplan refuses them; nothing in use has changed then.
    """
    for folder in (NETPLAN, RUN_NETWORKS, RUN_PROFILES):
        for file in machine.names(RENDERED + folder):
            machine.remove(f"{RENDERED}{folder}/{file}")
    for file in machine.names(NETPLAN):
        if file.endswith(".yaml"):
            machine.put(f"{RENDERED}{NETPLAN}/{file}", machine.content(f"{NETPLAN}/{file}"), mode=0o600)
    machine.must("netplan", "generate", "--root-dir", machine.path(RENDERED))
    for path in (f"{RUN_NETWORKS}/10-netplan-{name}.network", f"{RUN_PROFILES}/netplan-{name}.nmconnection"):
        text = machine.content(RENDERED + path).decode(errors="replace")
        if text:
            return {path: text}
    raise StepError(
        f"netplan rendered nothing for {name}", f"run netplan generate --root-dir {RENDERED} on the host and look there"
    )


def netplan_start(path: str, name: str) -> Words:
    """Makes the service that netplan renders for take this one file."""
    if path.startswith(RUN_NETWORKS):
        return [["networkctl", "reload"], ["networkctl", "reconfigure", name]]
    wait = ["nmcli", "--wait", str(ACTIVATION_S), "connection"]
    return [["nmcli", "connection", "load", path], [*wait, "up", f"netplan-{name}"]]


def netplan_stop(path: str, name: str) -> Words:
    """Before the file goes; networkd lets go by itself when it is reloaded."""
    if path.startswith(RUN_NETWORKS):
        return []
    return [["nmcli", "--wait", str(ACTIVATION_S), "connection", "down", f"netplan-{name}"]]


def reloads(paths: List[str]) -> Words:
    """Makes services forget files that are gone."""
    networkd = any(path.startswith(RUN_NETWORKS) for path in paths)
    profiles = any(path.startswith((PROFILES, RUN_PROFILES)) for path in paths)
    return [["networkctl", "reload"]] * networkd + [["nmcli", "connection", "reload"]] * profiles


def mode_of(path: str) -> int:
    """Mode of a file: networkd reads its files as a user of its own; everything else of these is for root alone."""
    return 0o644 if path.startswith(RUN_NETWORKS) else 0o600

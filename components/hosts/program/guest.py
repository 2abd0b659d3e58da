"""Files for netplan or NetworkManager with a rail's address in a guest.

Each tool gets one file per interface, and existing files stay unchanged. `netplan apply` would also
reconfigure other interfaces, so only the files that netplan renders for this interface are
activated.
"""

import hashlib
from typing import Any, Dict, List, NamedTuple, Tuple

from .machine import Machine, StepError
from .places import MARK, RUN

NETPLAN = "/etc/netplan"
PROFILES, RUN_PROFILES = (
    "/etc/NetworkManager/system-connections",
    "/run/NetworkManager/system-connections",
)
RUN_NETWORKS = "/run/systemd/network"
HIGHEST_PRIORITY = "999"
"""NetworkManager's highest; VMware's customization gives it to its ifcfg files on RHEL 9."""
RENDERED = RUN + "/netplan"
"""Another root for netplan, in which it renders without touching what is in use."""
ACTIVATION_S = 20
TOOLS = ("netplan", "nmcli")

Words = List[List[str]]


class GuestPlan(NamedTuple):
    """A tool's file for one interface, and the commands that activate it."""

    path: str
    text: str
    start: Words
    """Activates the file, without touching other interfaces."""
    stop: Words
    """Deactivates it, before the file is removed."""


def tool_of(machine: Machine, declared: str) -> str:
    """The tool that sets this guest's addresses."""
    if declared != "nmcli" and machine.exists("/usr/sbin/netplan") and machine.exists(NETPLAN):
        return "netplan"
    running = ("nmcli", "-t", "-f", "RUNNING", "general")
    if declared != "netplan" and machine.run(*running).out.strip() == "running":
        return "nmcli"
    missing = f"none of {', '.join(TOOLS)}" if declared == "auto" else f"no {declared}"
    raise StepError(
        f"this guest has {missing}",
        "guests.network.tool: auto uses the guest's own tool; without guests.network, rocelab "
        "sets the address",
    )


def plan_for(tool: str, pf: Dict[str, Any]) -> GuestPlan:
    """File and commands of a tool for a PF."""
    return {"netplan": _netplan, "nmcli": _nmcli}[tool](pf)


def _netplan(pf: Dict[str, Any]) -> GuestPlan:
    """`optional`: a rail without cable must not hold up the boot. The renderer is the
    guest's own.
    """
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
    return GuestPlan(f"{NETPLAN}/90-rocelab-{name}.yaml", MARK + "\n".join(lines) + "\n", [], [])


def _nmcli(pf: Dict[str, Any]) -> GuestPlan:
    """A keyfile: every NetworkManager reads these, even where the distribution uses ifcfg files.

    The priority is the highest there is: cloud-init's profiles have 120, those of VMware's
    customization up to 999, and of equal ones NetworkManager takes the last one used.
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
    start, stop = _activation(path, profile)
    return GuestPlan(path, MARK + "\n".join(lines) + "\n", start, stop)


def _activation(path: str, profile: str) -> Tuple[Words, Words]:
    """How NetworkManager starts and stops a profile."""
    wait = ["nmcli", "--wait", str(ACTIVATION_S), "connection"]
    start = [["nmcli", "connection", "load", path], [*wait, "up", profile]]
    return start, [[*wait, "down", profile]]


def rendered_by_netplan(machine: Machine, name: str) -> Dict[str, str]:
    """The files that netplan renders for one interface: path and text, for networkd or
    NetworkManager.
    """
    for folder in (NETPLAN, RUN_NETWORKS, RUN_PROFILES):
        for file in machine.names(RENDERED + folder):
            machine.remove(f"{RENDERED}{folder}/{file}")
    for file in machine.names(NETPLAN):
        path = f"{NETPLAN}/{file}"
        if file.endswith(".yaml"):
            machine.put(RENDERED + path, machine.content(path), mode=0o600)
    machine.must("netplan", "generate", "--root-dir", machine.path(RENDERED))
    for path in rendered_paths(name):
        text = machine.content(RENDERED + path).decode(errors="replace")
        if text:
            return {path: text}
    raise StepError(
        f"netplan rendered nothing for {name}",
        f"run netplan generate --root-dir {RENDERED} on the host and check the result",
    )


def rendered_paths(name: str) -> Tuple[str, str]:
    """Where netplan renders an interface, for networkd and for NetworkManager."""
    return (
        f"{RUN_NETWORKS}/10-netplan-{name}.network",
        f"{RUN_PROFILES}/netplan-{name}.nmconnection",
    )


def netplan_start(path: str, name: str) -> Words:
    """Activates one rendered file."""
    if path.startswith(RUN_NETWORKS):
        return [["networkctl", "reload"], ["networkctl", "reconfigure", name]]
    return _activation(path, f"netplan-{name}")[0]


def netplan_stop(path: str, name: str) -> Words:
    """Before the file is removed; networkd needs only the reload after it."""
    return [] if path.startswith(RUN_NETWORKS) else _activation(path, f"netplan-{name}")[1]


def reloads(paths: List[str]) -> Words:
    """Makes services forget removed files."""
    networkd = any(path.startswith(RUN_NETWORKS) for path in paths)
    profiles = any(path.startswith((PROFILES, RUN_PROFILES)) for path in paths)
    return [["networkctl", "reload"]] * networkd + [["nmcli", "connection", "reload"]] * profiles


def mode_of(path: str) -> int:
    """Mode of a file: networkd reads its files as its own user; all others are for root only."""
    return 0o644 if path.startswith(RUN_NETWORKS) else 0o600

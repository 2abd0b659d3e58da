"""Guests of the simulated vCenter's VMs: a VM that is powered on gets the node at its address.

The vCenter runs `sim vcenter guest` when a VM is powered on or off, with a request on stdin, and waits for its end.
"""

import base64
import binascii
import fcntl
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from simulator.nodes.part import Nodes
from simulator.part import SimulatorError
from simulator.vcenter.control import SOCKET, Control

USERDATA = "guestinfo.userdata"
_SIM = Path(__file__).parents[2] / "engine" / "sim"


def command(stack: str) -> tuple[str, ...]:
    """The command that the vCenter of a stack's lab runs for its guests."""
    return (str(_SIM), "vcenter", "--stack", stack, "guest")


def obey(nodes: Nodes, state: Path) -> None:
    """Executes the request on stdin and prints the guest's address.

    Raises:
        SimulatorError: if the guest does not start.
    """
    vcenter = os.getppid()
    request = json.load(sys.stdin)
    address = str(request["address"])
    with (state / "lock").open("w") as lock:
        # in parallel with other guests, but not while a command starts or stops the lab
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.getppid() != vcenter:
            raise SimulatorError("the vCenter and its VMs have ended")
        if request["power"] == "on":
            started = nodes.start_guest(address, host_key(request["guestinfo"]), _report)
            print(json.dumps({"address": address if started else ""}))
        else:
            nodes.end_guests([address])
            print(json.dumps({"address": ""}))


def host_key(guestinfo: Mapping[str, str]) -> str | None:
    """A VM's private host key, which cloud-init in the guest would take from its user data.

    Raises:
        SimulatorError: if cloud-init could not read the user data.
    """
    text = guestinfo.get(USERDATA)
    if text is None:
        return None
    try:
        if guestinfo.get(f"{USERDATA}.encoding") in ("base64", "b64"):
            text = base64.b64decode(text, validate=True).decode()
        user_data = yaml.safe_load(text)
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError) as error:
        # without the error's text, which quotes the user data
        raise SimulatorError(f"{USERDATA} cannot be read: {type(error).__name__}") from None
    if not text.startswith("#cloud-config\n") or not isinstance(user_data, dict):
        raise SimulatorError(f"{USERDATA} is not a cloud-config: its first line must be #cloud-config")
    keys = user_data.get("ssh_keys") or {}
    return str(keys["ed25519_private"]) if "ed25519_private" in keys else None


def powered(state: Path) -> dict[str, str | None]:
    """Addresses of the VMs that are on, with their host keys; empty if no vCenter runs."""
    path = state.absolute() / "vcenter" / SOCKET
    if not path.exists():
        return {}
    try:
        found = Control(path).guests()
    except SimulatorError:
        return {}
    return {guest.address: host_key(guest.guestinfo) for guest in found}


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

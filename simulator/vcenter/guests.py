"""Guests of the simulated vCenter's VMs: a VM that is powered on gets the node at the address that it was given.

The vCenter runs `sim vcenter guest` for each change of a VM's power, with the order on stdin, and waits for its end.
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
    """What the vCenter of a stack's lab runs for its guests."""
    return (str(_SIM), "vcenter", "--stack", stack, "guest")


def obey(nodes: Nodes, state: Path) -> None:
    """Carries out the order on stdin, and prints where the guest answers.

    Raises:
        SimulatorError: when the order cannot be read, or the guest does not start.
    """
    vcenter = os.getppid()
    order = json.load(sys.stdin)
    address = str(order["address"])
    with (state / "lock").open("w") as lock:
        # beside other guests, and not while a command starts or stops the whole lab
        fcntl.flock(lock, fcntl.LOCK_SH)
        if os.getppid() != vcenter:
            raise SimulatorError("the vCenter has ended, and its VMs with it")
        if order["power"] == "on":
            started = nodes.start_guest(address, host_key(order["guestinfo"]), _tell)
            print(json.dumps({"address": address if started else ""}))
        else:
            nodes.end_guests([address])
            print(json.dumps({"address": ""}))


def host_key(guestinfo: Mapping[str, str]) -> str | None:
    """The private host key that a VM is given: what cloud-init in the guest would take from its user data.

    Raises:
        SimulatorError: when cloud-init could not read it either.
    """
    text = guestinfo.get(USERDATA)
    if text is None:
        return None
    try:
        if guestinfo.get(f"{USERDATA}.encoding") in ("base64", "b64"):
            text = base64.b64decode(text, validate=True).decode()
        wanted = yaml.safe_load(text)
    except (binascii.Error, UnicodeDecodeError, yaml.YAMLError) as error:
        # never the error's own text, which quotes what it could not read
        raise SimulatorError(f"{USERDATA} cannot be read: {type(error).__name__}") from None
    if not text.startswith("#cloud-config\n") or not isinstance(wanted, dict):
        raise SimulatorError(f"{USERDATA} is no cloud-config: its first line has to be #cloud-config")
    keys = wanted.get("ssh_keys") or {}
    return str(keys["ed25519_private"]) if "ed25519_private" in keys else None


def powered(state: Path) -> dict[str, str | None]:
    """Addresses of the VMs that are on, with the host key of each; none while no vCenter runs."""
    path = state.absolute() / "vcenter" / SOCKET
    if not path.exists():
        return {}
    try:
        found = Control(path).guests()
    except SimulatorError:
        return {}
    return {guest.address: host_key(guest.guestinfo) for guest in found}


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

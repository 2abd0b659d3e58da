"""The simulated lab's SSH keys, made once per simulator, with known_hosts and ssh_config."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from simulator.nodes.cache import need_programs, run
from simulator.nodes.identity import public_keys
from simulator.nodes.image import GUEST_USER
from simulator.nodes.machine import HOST_KEY, SSH_PORT, Machine

USER_KEY = "id_ed25519"
SSH_CONFIG = "ssh_config"


def give_keys(folder: Path, machines: list[Machine]) -> None:
    """Makes the lab's key pair, and a host key for each machine without one."""
    need_programs({"ssh": "openssh-client", "ssh-keygen": "openssh-client"}, "the simulator")
    _make_key(folder / USER_KEY)
    for machine in machines:
        _make_key(folder / machine.name / HOST_KEY)
        shutil.copyfile(folder / f"{USER_KEY}.pub", folder / machine.name / "authorized_key")


def write_ssh_files(folder: Path, machines: list[Machine], lab_names: Mapping[str, str]) -> None:
    """Writes known_hosts and ssh_config for all machines; `lab_names` maps addresses to names in the lab."""
    known_hosts, config = "", ""
    for machine in machines:
        known_hosts += "".join(f"[{machine.address}]:{SSH_PORT} {key}\n" for key in public_keys(folder / machine.name))
        names = dict.fromkeys([lab_names.get(machine.address, machine.name), machine.name])
        config += f"Host {' '.join(names)}\n  HostName {machine.address}\n"
    config += (
        f'Host *\n  Port {SSH_PORT}\n  User {GUEST_USER}\n  IdentityFile "{folder / USER_KEY}"\n  IdentitiesOnly yes\n'
        f'  UserKnownHostsFile "{folder / "known_hosts"}"\n  StrictHostKeyChecking yes\n  BatchMode yes\n'
        # QEMU's network keeps the sessions of a rebooted or reset node open forever, so probe them
        "  ConnectTimeout 20\n  ServerAliveInterval 10\n  ServerAliveCountMax 6\n"
    )
    switch = folder.parent / "switch" / "known_hosts"  # the switch is up before the nodes
    _replace(folder / "known_hosts", known_hosts + (switch.read_text() if switch.exists() else ""))
    _replace(folder / SSH_CONFIG, config)


def _make_key(key: Path) -> None:
    key.parent.mkdir(parents=True, exist_ok=True)
    if not (key.exists() and key.with_name(f"{key.name}.pub").exists()):
        key.unlink(missing_ok=True)  # half a pair, which ssh-keygen would not overwrite without a question
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rocelab", "-f", str(key))


def _replace(path: Path, text: str) -> None:
    """Replaces a file in one step, because an ssh may be reading it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.rename(path)

"""The host key that a node was given in place of its own, as a VM gets one from the vCenter that made it."""

from pathlib import Path

from simulator.nodes.cache import run
from simulator.nodes.machine import HOST_KEY, SSH_PORT, Machine
from simulator.part import SimulatorError

GIVEN_KEY = "given_host_key"
TAKE_KEY = (
    # loaded anew, the module sees what this QEMU was started with; a snapshot remembers the one that it was made in
    "sudo modprobe -r qemu_fw_cfg; sudo /usr/local/sbin/lab-identity && sudo systemctl restart ssh.service"
)
"""Makes a guest that came out of a snapshot present the key that it would have read at a boot."""


def given_key(folder: Path) -> str | None:
    """The private key that a node was given; None: it has its own."""
    try:
        return (folder / GIVEN_KEY).read_text()
    except FileNotFoundError:
        return None


def give_key(folder: Path, private_key: str | None) -> None:
    """Gives a node a key from its next start on; None: its own.

    Raises:
        SimulatorError: when the text is no private key.
    """
    private, public = folder / GIVEN_KEY, folder / f"{GIVEN_KEY}.pub"
    for old in (private, public):
        old.unlink(missing_ok=True)
    if private_key is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    private.touch(mode=0o600)
    private.write_text(private_key)
    try:
        public.write_text(run("ssh-keygen", "-y", "-P", "", "-f", str(private)))
    except SimulatorError:
        private.unlink()
        raise


def key_file(folder: Path) -> str:
    """The file of the key that a node is to present, in its folder."""
    return GIVEN_KEY if (folder / GIVEN_KEY).exists() else HOST_KEY


def public_keys(folder: Path) -> list[str]:
    """`ssh-ed25519 AAAA…` of a node: its own key, which it presents until it was given another, and that one."""
    files = [folder / f"{HOST_KEY}.pub", folder / f"{GIVEN_KEY}.pub"]
    return [" ".join(file.read_text().split()[:2]) for file in files if file.exists()]


def presents(machine: Machine, folder: Path) -> bool:
    """Whether ssh of a running node presents the key that it is to have."""
    wanted = (folder / f"{key_file(folder)}.pub").read_text().split()[1]
    try:
        seen = run("ssh-keyscan", "-T", "10", "-t", "ed25519", "-p", str(SSH_PORT), machine.address)
    except SimulatorError:
        return False
    return wanted in seen.split()

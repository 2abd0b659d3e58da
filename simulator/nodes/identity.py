"""Host keys that replace a node's own, as a VM gets one from the vCenter that created it."""

from pathlib import Path

from simulator.nodes.cache import run
from simulator.nodes.machine import HOST_KEY, SSH_PORT, Machine
from simulator.part import SimulatorError

GIVEN_KEY = "given_host_key"
TAKE_KEY = (
    # reloaded, the module sees the files of this QEMU; after a snapshot it still has those of the old one
    "sudo modprobe -r qemu_fw_cfg; sudo /usr/local/sbin/lab-identity && sudo systemctl restart ssh.service"
)
"""Makes a guest restored from a snapshot present the key that it would read at boot."""


def given_key(folder: Path) -> str | None:
    """The private key given to a node; None: it uses its own."""
    try:
        return (folder / GIVEN_KEY).read_text()
    except FileNotFoundError:
        return None


def give_key(folder: Path, private_key: str | None) -> None:
    """Gives a node a key for its next start; None: its own.

    Raises:
        SimulatorError: if the text is not a private key.
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
    """Name of the key file that a node should use, in its folder."""
    return GIVEN_KEY if (folder / GIVEN_KEY).exists() else HOST_KEY


def public_keys(folder: Path) -> list[str]:
    """`ssh-ed25519 AAAA…` of a node's own key and of the key given to it, if any."""
    files = [folder / f"{HOST_KEY}.pub", folder / f"{GIVEN_KEY}.pub"]
    return [" ".join(file.read_text().split()[:2]) for file in files if file.exists()]


def presents(machine: Machine, folder: Path) -> bool:
    """Whether ssh on a running node presents the right key."""
    key = (folder / f"{key_file(folder)}.pub").read_text().split()[1]
    try:
        seen = run("ssh-keyscan", "-T", "10", "-t", "ed25519", "-p", str(SSH_PORT), machine.address)
    except SimulatorError:
        return False
    return key in seen.split()

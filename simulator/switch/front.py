"""The SSH server of the frame switch: `python -m simulator.switch.front FOLDER ADDRESS PORT`.

As on Onyx, its account has a command line but no shell: a command that comes with the connection is refused.
"""

import argparse
import asyncio
import signal
from pathlib import Path

import asyncssh

from simulator.switch.client import FRONT_KEPT, FRONT_KEY, SwitchClient
from simulator.switch.onyx import Console
from simulator.switch.panel import Frames, Panel

USER = "admin"
BANNER = "simulated Onyx: VLANs and MTU of its ports work; quality of service is kept and shown, and marks nothing.\n"
REFUSAL = "UNIX shell commands cannot be executed using this account.\n"


class Door(asyncssh.SSHServer):
    """Accepts the lab's key, which may be created after this process started."""

    def __init__(self, keys: Path) -> None:
        self._keys = keys

    def begin_auth(self, username: str) -> bool:
        """Requires authentication."""
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        """Only keys are supported."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether the key is the lab's."""
        try:
            known = asyncssh.read_public_key(self._keys)
        except (OSError, asyncssh.KeyImportError):
            return False
        return username == USER and key.public_data == known.public_data


async def serve(frames: Frames, folder: Path, keys: Path, address: str, port: int) -> asyncssh.SSHAcceptor:
    """A listening server, with its settings and host key in the folder."""
    panel = Panel(frames, folder / FRONT_KEPT)

    async def session(process: asyncssh.SSHServerProcess[str]) -> None:
        if process.command is not None:
            process.stdout.write(REFUSAL)
            process.exit(1)
            return
        console = Console(panel)
        process.stdout.write(BANNER.replace("\n", "\r\n") + console.prompt)
        async for line in process.stdin:
            words = line.rstrip("\r\n")
            said = f"{words}\n{console.answer(words)}".replace("\n", "\r\n")
            if console.closed:
                process.stdout.write(said)
                break
            process.stdout.write(said + console.prompt)
        process.exit(0)

    return await asyncssh.listen(
        address,
        port,
        server_factory=lambda: Door(keys),
        server_host_keys=[str(folder / FRONT_KEY)],
        process_factory=session,
        line_editor=False,
        reuse_address=True,
    )


async def _run(folder: Path, address: str, port: int) -> None:
    done = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, done.set)
    keys = folder.parent / "nodes" / "id_ed25519.pub"
    server = await serve(SwitchClient(folder), folder, keys, address, port)
    await done.wait()
    server.close()


def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser(prog="simulator.switch.front", description=__doc__)
    parser.add_argument("folder", type=Path, help="the switch's state folder")
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    options = parser.parse_args()
    asyncio.run(_run(options.folder.absolute(), options.address, options.port))


if __name__ == "__main__":
    main()

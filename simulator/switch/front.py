"""The SSH server in front of the frame switch: `python -m simulator.switch.front FOLDER ADDRESS PORT`.

Its account has a command line and no shell, as Onyx gives it: a command that comes with the connection is refused.
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
    """Lets the lab's key in; it may be made after this process began."""

    def __init__(self, keys: Path) -> None:
        self._keys = keys

    def begin_auth(self, username: str) -> bool:
        """Everybody has to show a key."""
        del username
        return True

    def public_key_auth_supported(self) -> bool:
        """Nothing else is."""
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        """Whether it is the lab's."""
        try:
            known = asyncssh.read_public_key(self._keys)
        except (OSError, asyncssh.KeyImportError):
            return False
        return username == USER and key.public_data == known.public_data


async def serve(frames: Frames, folder: Path, keys: Path, address: str, port: int) -> asyncssh.SSHAcceptor:
    """A listening server; what it keeps and its host key lie in the folder."""
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
            said = console.answer(words)
            process.stdout.write(f"{words}\n{said}".replace("\n", "\r\n"))
            if console.closed:
                break
            process.stdout.write(console.prompt)
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
    asked = parser.parse_args()
    asyncio.run(_run(asked.folder.absolute(), asked.address, asked.port))


if __name__ == "__main__":
    main()

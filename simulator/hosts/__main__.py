"""`python -m simulator.hosts FOLDER`: runs many hosts until SIGTERM, and writes their lab file to the folder."""

import argparse
import asyncio
import contextlib
import os
import signal
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path

import asyncssh

from simulator.hosts.farm import FAULTS, Farm, places_of
from simulator.hosts.labfile import lab_of, ports_of, routed_lab_of, write
from stacks.read import read_stack_file


async def serve(farm: Farm, folder: Path, file: Path) -> None:
    """Listens until SIGTERM; creates `ready` in the folder when all hosts answer."""
    farm.ports = ports_of(read_stack_file(file))
    await farm.start()
    (folder / "known_hosts").write_text(farm.known_hosts)
    (folder / "ready").write_text(f"{os.getpid()}\n")
    ended = asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, ended.set)
    await ended.wait()
    await farm.stop()
    (folder / "ready").unlink()


def main() -> None:
    """Starts the hosts."""
    parser = argparse.ArgumentParser(prog="python -m simulator.hosts", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the lab file, the key, known_hosts and faults.json")
    parser.add_argument("--count", type=int, default=256, help="number of hosts")
    parser.add_argument("--name", default="scale", help="name of the stack and of the lab")
    parser.add_argument("--first", type=IPv4Address, default=IPv4Address("127.1.0.1"), help="address of the first host")
    parser.add_argument("--port", type=int, default=2222, help="port of every host")
    parser.add_argument("--rails", type=int, default=2, choices=range(1, 9), help="number of rails, unless routed")
    parser.add_argument("--routed", action="store_true", help="make eight routed rails without pods, written as groups")
    parser.add_argument("--run-seconds", type=float, default=0.0, help="how long each benchmark run takes")
    parser.epilog = f"faults.json maps hosts to faults: {', '.join(FAULTS)}"
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        (folder / "ready").unlink()
    key_file = folder / "id_ed25519"
    if not key_file.exists():
        key_file.touch(mode=0o600)
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(key_file)
    names = [f"gpu{number:04}" for number in range(1, options.count + 1)]
    farm = Farm(
        places=places_of(names, options.first),
        port=options.port,
        user_key=asyncssh.read_private_key(key_file),
        faults_file=folder / "faults.json",
        log_file=folder / "commands.log",
        run_s=options.run_seconds,
    )
    file = folder / f"Pulumi.{options.name}.yaml"
    lab = routed_lab_of if options.routed else partial(lab_of, rails=options.rails)
    write(file, lab(options.name, farm.places, farm.port, folder))
    asyncio.run(serve(farm, folder, file))


if __name__ == "__main__":
    main()

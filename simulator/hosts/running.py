"""Runs the simulated hosts as a separate process."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from simulator.process import Daemon

ROOT = Path(__file__).resolve().parents[2]
START_S = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class ManyHosts:
    """Running hosts with their files in `folder`."""

    folder: Path
    stack: str

    @property
    def stack_file(self) -> Path:
        """The lab of these hosts."""
        return self.folder / f"Pulumi.{self.stack}.yaml"

    @property
    def faults_file(self) -> Path:
        """Faults by host; see `simulator.hosts.farm.FAULTS`."""
        return self.folder / "faults.json"

    def commands(self) -> list[str]:
        """A line per answered command: host and verb."""
        log = self.folder / "commands.log"
        return log.read_text().splitlines() if log.exists() else []


@contextmanager
def many_hosts(  # noqa: PLR0913, PLR0917  # each is an option of the process
    folder: Path,
    count: int,
    first: IPv4Address,
    port: int,
    stack: str = "scale",
    run_s: float = 0.0,
    *,
    routed: bool = False,
) -> Iterator[ManyHosts]:
    """Runs hosts during the block.

    Args:
        folder: folder of the lab file, the key, known_hosts and faults.json.
        count: number of hosts.
        first: address of the first host.
        port: port of every host.
        stack: name of the stack and the lab.
        run_s: how long each benchmark run takes.
        routed: eight routed rails without pods instead of two with pods.

    Raises:
        SimulatorError: if they do not listen, with the end of their log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    daemon, ready = Daemon("hosts", folder), folder / "ready"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "simulator.hosts", str(folder), "--count", str(count)]
    command += ["--name", stack, "--first", str(first), "--port", str(port), "--run-seconds", str(run_s)]
    daemon.start([*command, *(["--routed"] if routed else [])], cwd=ROOT)
    try:
        daemon.wait_until(ready.exists, START_S, "listening hosts", lambda _: None)
        yield ManyHosts(folder=folder, stack=stack)
    finally:
        daemon.stop()

"""One node: a machine's QEMU process, its disk, and the snapshot of its first boot."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path

from simulator.nodes import qmp
from simulator.nodes.accelerator import Accelerator
from simulator.nodes.access import SSH_CONFIG
from simulator.nodes.cache import digest, need_space
from simulator.nodes.identity import GIVEN_KEY, TAKE_KEY, key_file, presents
from simulator.nodes.image import Image
from simulator.nodes.machine import HOST_KEY, KUBELET_PORT, KUBERNETES, SSH_PORT, Machine, Nic
from simulator.nodes.qemu import Qemu
from simulator.part import Report, SimulatorError, Wait
from simulator.process import Daemon, refuse_a_taken_port

SNAPSHOT = "clean"
SSH_WAIT_S = 600
"""A first boot takes 20 s on idle cores; on crowded ones ten times that has been seen."""
DISK_BYTES = 300 << 20
"""What a fresh disk and its snapshot take, with room to spare (measured: 150 to 180 MiB)."""
# what a deployment starts first, so that the snapshot has it in memory already
_WARM_UP = "python3 -I -c 'import json, subprocess, ipaddress, fcntl, hashlib'; rdma link; ip -j addr; sudo -n true"

_RUNTIME_STARTED = (
    "timeout 300 sh -c 'until systemctl -q is-active containerd lab-kubernetes; do sleep 1; done'; "
    "systemctl -q is-active containerd && systemctl -q is-active lab-kubernetes"
)
_START_KUBELET = "sudo systemctl enable --quiet --now --no-block kubelet"
"""After the snapshot, since one that has spoken to an API server would remember it; at a boot it starts by itself."""


@dataclass(frozen=True)
class Boot:
    """What a node is started with."""

    qemu: Qemu
    image: Image
    accelerator: Accelerator


class Node:
    """A machine with its folder `.sim/nodes/<name>`."""

    def __init__(self, machine: Machine, nodes_folder: Path) -> None:
        self.machine = machine
        self.folder = nodes_folder / machine.name
        self.daemon = Daemon("qemu", self.folder)
        self._ssh_config = nodes_folder / SSH_CONFIG

    @property
    def was_started(self) -> bool:
        """Whether it was started and not stopped since; it may have died."""
        return self.daemon.pid_file.exists()

    def up(self, boot: Boot, first_boots: AbstractContextManager[object], report: Report) -> None:
        """Leaves a running node as it is; else starts it from its snapshot, or boots it afresh inside `first_boots`."""
        ingredients = self._ingredients(boot)
        disk = self._disk(ingredients)
        has_snapshot = disk.exists() and _has_snapshot(boot.qemu, disk, report)
        if self.daemon.pid() is not None:
            if has_snapshot:
                if self.daemon.resume():
                    report("a signal had suspended it; it continues")
                self.wait_for_ssh(report, login=False)
                self._start_kubelet()
                report("runs")
                return
            report(f"stopping it: {self._what_changed(ingredients)}")
        elif self.was_started:
            report(f"had died, starting it again; its last words:\n{self.last_words()}")
        self.stop()
        refuse_a_taken_port(self.machine.name, self.machine.address, SSH_PORT)
        if self.machine.real_pods:
            refuse_a_taken_port(f"{self.machine.name}'s kubelet", self.machine.address, KUBELET_PORT)
        if not (has_snapshot and self._restored(boot, disk, report)):
            with first_boots:
                report(f"first boot ({boot.accelerator.kind})")
                self._boot_first(boot, disk, ingredients, report)
            if key_file(self.folder) == GIVEN_KEY:  # a snapshot is of the machine as it is by itself
                self.stop()
                self._restored(boot, disk, report)
        self._start_kubelet()
        report("answers")

    def prepare(self, boot: Boot, first_boots: AbstractContextManager[object], report: Report) -> None:
        """Makes the snapshot that a start needs, and leaves the node off."""
        disk = self._disk(self._ingredients(boot))
        if not (disk.exists() and _has_snapshot(boot.qemu, disk, report)):
            self.up(boot, first_boots, report)
        self.stop()
        report("is off, and can be started")

    def reset(self, report: Report) -> None:
        """Puts memory and disk of the running node back to the snapshot.

        Raises:
            SimulatorError: when the node does not run.
        """
        if self.daemon.pid() is None:
            raise SimulatorError(f"{self.machine.name} does not run: sim up\n{self.last_words()}")
        qmp.human(self.folder, f"loadvm {SNAPSHOT}")
        self.wait_for_ssh(report)
        self._take_given_key(report)
        self._start_kubelet()
        report("as after its first boot")

    def stop(self) -> None:
        """Ends QEMU and waits for its end; the disk stays."""
        self.daemon.stop()
        for left in self.folder.glob("*.sock"):
            left.unlink(missing_ok=True)

    def set_links(self, nics: Iterable[Nic], unplugged: set[str]) -> None:
        """Gives each NIC the carrier that its cable has; what is right already is left alone."""
        for nic in nics:
            qmp.ask(self.folder, "set_link", name=nic.interface, up=nic.interface not in unplugged)

    def answers(self) -> bool:
        """Whether an SSH server greets: much cheaper for the guest than a login."""
        try:
            with socket.create_connection((self.machine.address, SSH_PORT), timeout=3) as connection:
                return connection.recv(4) == b"SSH-"  # QEMU itself accepts, whatever the guest does
        except OSError:
            return False

    def wait_for_ssh(self, report: Report, login: bool = True) -> None:
        """Waits until ssh greets and, with `login`, until a login could set the guest's clock.

        A snapshot leaves the clock in the past: file times, certificates and logs would be wrong.
        """
        wait = Wait("ssh", SSH_WAIT_S, report, pause_s=0.2)
        while not (self.answers() and (not login or self._set_clock())):
            if self.daemon.pid() is None:
                raise SimulatorError(f"{self.machine.name}: QEMU has ended by itself\n{self.last_words()}")
            if not wait.goes_on():
                raise SimulatorError(f"{self.machine.name}: no ssh login after {SSH_WAIT_S} s\n{self.last_words()}")

    def last_words(self) -> str:
        """What QEMU and the guest's console said last."""
        words = [self.daemon.last_words()]
        console = self.folder / "console.log"
        if console.exists():
            lines = [line for line in console.read_text(errors="replace").splitlines() if line.strip()][-6:]
            words += [f"  {console.name}: {line[:200]}" for line in lines]
        return "\n".join(words)

    def _boot_first(self, boot: Boot, disk: Path, ingredients: dict[str, str], report: Report) -> None:
        need_space(self.folder, DISK_BYTES, f"the disk of {self.machine.name}")
        for old in self.folder.glob("disk-*.qcow2"):
            old.unlink()
        boot.qemu.disk_tool("create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(boot.image.root), str(disk))
        (self.folder / "ingredients.json").write_text(json.dumps(ingredients))
        (self.folder / "machine.json").write_text(json.dumps(asdict(self.machine)))
        self.daemon.start(self._command(boot, disk, HOST_KEY), env=boot.qemu.environment)
        self.wait_for_ssh(report)
        self._ssh(_WARM_UP)
        if self.machine.real_pods and not self._ssh(_RUNTIME_STARTED):
            raise SimulatorError(f"{self.machine.name}: containerd does not start\n{self.last_words()}")
        # before anyone makes VFs: those that come back in a new process are dead
        qmp.human(self.folder, f"savevm {SNAPSHOT}")

    def _restored(self, boot: Boot, disk: Path, report: Report) -> bool:
        """Whether the node came back from its snapshot; a QEMU that was killed may have left the disk unreadable."""
        command = self._command(boot, disk, key_file(self.folder))
        self.daemon.start([*command, "-loadvm", SNAPSHOT], env=boot.qemu.environment)
        try:
            self.wait_for_ssh(report)
            self._take_given_key(report)
        except SimulatorError:
            if self.daemon.pid() is not None:
                raise
            report(f"its snapshot does not start, booting it afresh:\n{self.daemon.last_words()}")
            return False
        return True

    def _take_given_key(self, report: Report) -> None:
        """Lets a guest out of a snapshot present the key that it was given; a boot reads it by itself."""
        if key_file(self.folder) != GIVEN_KEY:
            return
        self._ssh(TAKE_KEY)
        wait = Wait("ssh with the key that it was given", SSH_WAIT_S, report, pause_s=0.2)
        while not presents(self.machine, self.folder):
            if self.daemon.pid() is None or not wait.goes_on():
                raise SimulatorError(
                    f"{self.machine.name} does not take the key that it was given\n{self.last_words()}"
                )
        report("presents the key that it was given")

    def _disk(self, ingredients: dict[str, str]) -> Path:
        return self.folder / f"disk-{digest(*ingredients.values())}.qcow2"

    def _command(self, boot: Boot, disk: Path, host_key: str) -> list[str]:
        command = self.machine.command(boot.qemu, boot.image, boot.accelerator, host_key)
        return [*command, "-drive", f"if=none,id=disk,file={str(disk).replace(',', ',,')},cache=unsafe,discard=unmap"]

    def _start_kubelet(self) -> None:
        if self.machine.real_pods and not self._ssh(_START_KUBELET):
            raise SimulatorError(f"{self.machine.name}: the kubelet cannot be started\n{self.last_words()}")

    def _set_clock(self) -> bool:
        return self._ssh(f"sudo date -s @{time.time():.0f}")

    def _ssh(self, command: str) -> bool:
        login = ["ssh", "-F", str(self._ssh_config), self.machine.name, command]
        return subprocess.run(login, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0

    def _ingredients(self, boot: Boot) -> dict[str, str]:
        """All that a snapshot depends on: it holds the state of every emulated device, and of memory."""
        root = boot.image.root.stat()
        command = self.machine.command(boot.qemu, boot.image, boot.accelerator)
        keys = [(self.folder / name).read_text() for name in ("host_key.pub", "authorized_key")]
        if self.machine.real_pods:
            keys.append((self.folder / KUBERNETES).read_bytes().decode())
        return {
            "QEMU": boot.qemu.version,
            "the image": f"{boot.image.folder.name} {root.st_mtime_ns}",
            "the accelerator": boot.accelerator.identity,
            "the keys": digest(*keys),
            "the machine's hardware": digest(*command),
        }

    def _what_changed(self, ingredients: dict[str, str]) -> str:
        try:
            before: dict[str, str] = json.loads((self.folder / "ingredients.json").read_text())
        except (OSError, ValueError):
            before = {}
        changed = [what for what, value in ingredients.items() if before.get(what) != value]
        return f"{' and '.join(changed)} changed" if changed else "its first boot was interrupted"


def _has_snapshot(qemu: Qemu, disk: Path, report: Report) -> bool:
    """Whether the first boot of this disk was completed; -U reads it beside a running QEMU."""
    try:
        return SNAPSHOT in qemu.disk_tool("snapshot", "-U", "-l", str(disk)).split()
    except SimulatorError as error:
        report(f"its disk cannot be read, booting it afresh:\n{error}")
        return False


def recorded_machines(nodes_folder: Path) -> list[Machine]:
    """The machines that were booted in this simulator, with the names that they got then."""
    found = []
    for path in sorted(nodes_folder.glob("gpu[0-9][0-9]/machine.json")):
        record = json.loads(path.read_text())
        nics = tuple(Nic(**nic) for nic in record["nics"])
        found.append(Machine(record["number"], record["hostname"], nics, record.get("real_pods", False)))
    return found


def memory_available_mib() -> int:
    """Memory that new processes may take on this machine."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable")), 1 << 30)


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))

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
from simulator.nodes.clock import APART_S, Reading, wrong_pace
from simulator.nodes.identity import GIVEN_KEY, TAKE_KEY, key_file, presents
from simulator.nodes.image import Image
from simulator.nodes.machine import HOST_KEY, KUBELET_PORT, KUBERNETES, SSH_PORT, Machine, Nic
from simulator.nodes.qemu import Qemu
from simulator.part import Report, SimulatorError, Wait
from simulator.process import Daemon, refuse_a_taken_port

SNAPSHOT = "clean"
SSH_WAIT_S = 600
"""A first boot takes 20 s on idle cores, and took ten times as long on busy ones."""
BOOTS = 3
"""How often a guest may boot until its kernel measures the clock right."""
DISK_BYTES = 300 << 20
"""Space for a new disk and its snapshot, with room to spare (measured: 150 to 180 MiB)."""
# what a deployment runs first, so that the snapshot already has it in memory
_WARM_UP = "python3 -I -c 'import json, subprocess, ipaddress, fcntl, hashlib'; rdma link; ip -j addr; sudo -n true"

_RUNTIME_STARTED = (
    "timeout 300 sh -c "
    "'until systemctl -q is-active containerd && systemctl -q is-active lab-kubernetes; do sleep 1; done'"
)
"""One question per unit: `systemctl is-active` with several units succeeds as soon as one of them is active."""
_START_KUBELET = "sudo systemctl enable --quiet --now --no-block kubelet"
"""Runs after the snapshot, which must not contain a kubelet that knows an API server. At boot it starts by itself."""


@dataclass(frozen=True)
class Boot:
    """Everything that a node boots with."""

    qemu: Qemu
    image: Image
    accelerator: Accelerator


class Node:
    """A machine and its folder `.sim/nodes/<name>`."""

    def __init__(self, machine: Machine, nodes_folder: Path) -> None:
        self.machine = machine
        self.folder = nodes_folder / machine.name
        self.daemon = Daemon("qemu", self.folder)
        self._ssh_config = nodes_folder / SSH_CONFIG

    @property
    def was_started(self) -> bool:
        """Whether it was started and not stopped; it may have died."""
        return self.daemon.pid_file.exists()

    def up(self, boot: Boot, first_boots: AbstractContextManager[object], report: Report) -> None:
        """Starts the node, unless it runs, from its snapshot; without a snapshot, boots it inside `first_boots`."""
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
            report(f"had died, starting it again; end of its log:\n{self.last_words()}")
        self.stop()
        refuse_a_taken_port(self.machine.name, self.machine.address, SSH_PORT)
        if self.machine.real_pods:
            refuse_a_taken_port(f"{self.machine.name}'s kubelet", self.machine.address, KUBELET_PORT)
        if not (has_snapshot and self._restored(boot, disk, report)):
            with first_boots:
                report(f"first boot ({boot.accelerator.kind})")
                self._boot_first(boot, disk, ingredients, report)
            if key_file(self.folder) == GIVEN_KEY:  # the snapshot must have the machine's own key
                self.stop()
                self._restored(boot, disk, report)
        self._start_kubelet()
        report("answers")

    def prepare(self, boot: Boot, first_boots: AbstractContextManager[object], report: Report) -> None:
        """Makes the snapshot that a start needs, and leaves the node powered off."""
        disk = self._disk(self._ingredients(boot))
        if not (disk.exists() and _has_snapshot(boot.qemu, disk, report)):
            self.up(boot, first_boots, report)
        self.stop()
        report("is off and ready to start")

    def reset(self, report: Report) -> None:
        """Resets memory and disk of the running node to the snapshot.

        Raises:
            SimulatorError: if the node does not run.
        """
        if self.daemon.pid() is None:
            raise SimulatorError(f"{self.machine.name} does not run: sim up\n{self.last_words()}")
        qmp.human(self.folder, f"loadvm {SNAPSHOT}")
        self.wait_for_ssh(report)
        self._take_given_key(report)
        self._start_kubelet()
        report("reset to its first boot")

    def stop(self) -> None:
        """Stops QEMU and waits for its end; the disk stays."""
        self.daemon.stop()
        for left in self.folder.glob("*.sock"):
            left.unlink(missing_ok=True)

    def set_links(self, nics: Iterable[Nic], unplugged: set[str]) -> None:
        """Sets each NIC's carrier according to its cable."""
        for nic in nics:
            qmp.ask(self.folder, "set_link", name=nic.interface, up=nic.interface not in unplugged)

    def answers(self) -> bool:
        """Whether an SSH server sends its greeting, which costs the guest much less than a login."""
        try:
            with socket.create_connection((self.machine.address, SSH_PORT), timeout=3) as connection:
                return connection.recv(4) == b"SSH-"  # QEMU accepts connections even if the guest does not
        except OSError:
            return False

    def wait_for_ssh(self, report: Report, login: bool = True) -> None:
        """Waits until ssh sends its greeting and, with `login`, until a login has set the guest's clock.

        After a snapshot the clock is in the past, which would break file times, certificates and logs.
        """
        wait = Wait("ssh", SSH_WAIT_S, report, pause_s=0.2)
        while not (self.answers() and (not login or self._set_clock())):
            if self.daemon.pid() is None:
                raise SimulatorError(f"{self.machine.name}: QEMU ended by itself\n{self.last_words()}")
            if not wait.continues():
                raise SimulatorError(f"{self.machine.name}: no ssh login after {SSH_WAIT_S} s\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of QEMU's log and the guest's console."""
        words = [self.daemon.last_words()]
        console = self.folder / "console.log"
        if console.exists():
            lines = [line for line in console.read_text(errors="replace").splitlines() if line.strip()][-6:]
            words += [f"  {console.name}: {line[:200]}" for line in lines]
        return "\n".join(words)

    def _boot_first(self, boot: Boot, disk: Path, ingredients: dict[str, str], report: Report) -> None:
        need_space(self.folder, DISK_BYTES, f"the disk of {self.machine.name}")
        for _ in range(BOOTS):
            pace = self._booted(boot, disk, ingredients, report)
            if pace is None:
                # before VFs exist, because restored VFs do not work in a new process
                qmp.human(self.folder, f"savevm {SNAPSHOT}")
                return
            report(f"its clock is {pace:.1f} times as fast as this machine's, which was busy: booting it again")
            self.stop()
        raise SimulatorError(
            f"{self.machine.name}: after each of {BOOTS} boots its clock was wrong, because this machine was too busy "
            "while the guest's kernel measured it. Stop other work, then: sim up"
        )

    def _booted(self, boot: Boot, disk: Path, ingredients: dict[str, str], report: Report) -> float | None:
        """Boots a new disk; returns the pace of its clock if that is wrong."""
        for old in self.folder.glob("disk-*.qcow2"):
            old.unlink()
        boot.qemu.disk_tool("create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(boot.image.root), str(disk))
        (self.folder / "ingredients.json").write_text(json.dumps(ingredients))
        (self.folder / "machine.json").write_text(json.dumps(asdict(self.machine)))
        self.daemon.start(self._command(boot, disk, HOST_KEY), env=boot.qemu.environment)
        self.wait_for_ssh(report)
        first = self._uptime()
        self._ssh(_WARM_UP)
        if self.machine.real_pods and not self._ssh(_RUNTIME_STARTED):
            raise SimulatorError(f"{self.machine.name}: containerd does not start\n{self.last_words()}")
        time.sleep(max(0.0, first.answered_s + APART_S - time.monotonic()))
        return wrong_pace(first, self._uptime())

    def _restored(self, boot: Boot, disk: Path, report: Report) -> bool:
        """Whether the node starts from its snapshot; a killed QEMU may have damaged the disk."""
        command = self._command(boot, disk, key_file(self.folder))
        self.daemon.start([*command, "-loadvm", SNAPSHOT], env=boot.qemu.environment)
        try:
            self.wait_for_ssh(report)
            self._take_given_key(report)
        except SimulatorError:
            if self.daemon.pid() is not None:
                raise
            report(f"its snapshot does not start, booting it again:\n{self.daemon.last_words()}")
            return False
        return True

    def _take_given_key(self, report: Report) -> None:
        """Makes a guest restored from a snapshot present the given key, which it would read at boot."""
        if key_file(self.folder) != GIVEN_KEY:
            return
        self._ssh(TAKE_KEY)
        wait = Wait("ssh with the given host key", SSH_WAIT_S, report, pause_s=0.2)
        while not presents(self.machine, self.folder):
            if self.daemon.pid() is None or not wait.continues():
                raise SimulatorError(f"{self.machine.name} does not present the given host key\n{self.last_words()}")
        report("presents the given host key")

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

    def _uptime(self) -> Reading:
        asked_s = time.monotonic()
        done = self._login("cat /proc/uptime")
        if done.returncode != 0:
            raise SimulatorError(f"{self.machine.name}: no login: {done.stderr.strip()}\n{self.last_words()}")
        return Reading(float(done.stdout.split()[0]), asked_s, time.monotonic())

    def _ssh(self, command: str) -> bool:
        return self._login(command).returncode == 0

    def _login(self, command: str) -> subprocess.CompletedProcess[str]:
        words = ["ssh", "-F", str(self._ssh_config), self.machine.name, command]
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    def _ingredients(self, boot: Boot) -> dict[str, str]:
        """Everything that a snapshot depends on: it contains memory and the state of every device."""
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
    """Whether this disk has a snapshot; -U allows reading it while QEMU runs."""
    try:
        return SNAPSHOT in qemu.disk_tool("snapshot", "-U", "-l", str(disk)).split()
    except SimulatorError as error:
        report(f"its disk cannot be read, booting it again:\n{error}")
        return False


def recorded_machines(nodes_folder: Path) -> list[Machine]:
    """The machines that were booted in this simulator, with their names at that time."""
    found = []
    for path in sorted(nodes_folder.glob("gpu[0-9][0-9]/machine.json")):
        record = json.loads(path.read_text())
        nics = tuple(Nic(**nic) for nic in record["nics"])
        found.append(Machine(record["number"], record["hostname"], nics, record.get("real_pods", False)))
    return found


def memory_available_mib() -> int:
    """Memory available to new processes."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("MemAvailable")), 1 << 30)


def processors() -> int:
    """Processors available to this process."""
    return len(os.sched_getaffinity(0))

"""Nodes in namespaces of this machine's kernel, as fast as the machine is: each with its own systemd, sshd and runtime.

They are on a network that nothing else is on, and their addresses exist there alone. What has to reach them runs in a
thread that has moved into that network. When the first process ends, all of it is gone: processes, mounts, interfaces.
"""

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from simulator.nodes.cache import run
from simulator.nodes.image import GUEST_USER

T = TypeVar("T")
START = Path(__file__).with_name("lan.sh")
PROGRAMS = ("setpriv", "unshare", "nsenter", "ip", "mount", "ssh", "ssh-keygen", "apt-get", "dpkg-deb", "go", "bash")
ROOM_BYTES = 4 << 30
"""What two nodes write: mostly images, unpacked."""
BOOT_S = 120
"""Bound on a boot; it takes 5 s on busy cores."""
CLONE_NEWNET = 0x40000000


def what_is_missing(folder: Path) -> str:
    """Why this machine cannot have such nodes in this folder; empty when it can."""
    if os.geteuid() != 0:
        return "it takes root"
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"no {', '.join(absent)} on PATH"
    if not all(os.access(f"/sys/fs/cgroup/{name}", os.W_OK) for name in ("memory", "systemd", "unified")):
        return "the nodes are made for cgroup v1 beside an empty v2, which this machine has not mounted"
    if "overlay" not in Path("/proc/filesystems").read_text() or not Path("/dev/loop-control").exists():
        return "the kernel has no overlay file system or no loop devices"
    if shutil.disk_usage(folder).free < ROOM_BYTES:
        return f"less than {ROOM_BYTES >> 30} GiB are free under {folder}"
    # what a node's own start needs most, tried where it harms nobody
    tried = (
        "mount -t tmpfs tmpfs /mnt && ip link add lan type bridge && ip link add x0 type veth peer name x1 && "
        "ls /proc/sys/net/bridge"
    )
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "sh", "-c", tried]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"namespaces, bridges or br_netfilter: {done.stderr.strip()[-200:]}" if done.returncode else ""


class Machine:
    """One node."""

    def __init__(self, folder: Path, name: str, address: str) -> None:
        self.folder, self.name, self.address = folder / name, name, address
        self._key = folder / "key"
        self.folder.mkdir()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.folder / "host_key"))
        self.host_key = (self.folder / "host_key.pub").read_text().strip()
        (self.folder / "known_hosts").write_text(f"{address} {self.host_key}\n")

    def ssh(self, command: str, stdin: str = "", timeout_s: float = 300) -> "subprocess.CompletedProcess[str]":
        """Runs a command on it; only from inside its network."""
        options = [f"UserKnownHostsFile={self.folder / 'known_hosts'}", "BatchMode=yes", "ConnectTimeout=5"]
        words = ["ssh", "-q", "-i", str(self._key), *(f"-o{option}" for option in options)]
        return subprocess.run(
            [*words, f"{GUEST_USER}@{self.address}", command],
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )

    def must(self, command: str, stdin: str = "") -> str:
        """What a command prints; one that fails fails the test with its words."""
        done = self.ssh(command, stdin)
        assert done.returncode == 0, f"{self.name}: {command[:80]}: {done.stderr[-1500:]}"
        return done.stdout

    def journal(self) -> str:
        """The last words of kubelet and runtime, for who reads why a test failed."""
        return self.ssh("sudo journalctl -u kubelet -u containerd --no-pager -n 60 -o cat").stdout


class Lan:
    """The network and its nodes."""

    def __init__(self, folder: Path, addresses: dict[str, str]) -> None:
        # its name is also that of the nodes' cgroups, and of those there is one tree for all test runs of this machine
        self.folder = folder / f"rocelab-{os.getpid()}"
        self.folder.mkdir()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key"))
        self.key = (self.folder / "key").read_text()
        self.machines = {name: Machine(self.folder, name, address) for name, address in addresses.items()}
        self._first: subprocess.Popen[str] | None = None
        self._inside = ThreadPoolExecutor(1, initializer=self._move_in)

    def start(self, image: Path, layer: Path) -> None:
        """Boots all nodes; they answer when this returns."""
        # a test run that is killed takes its nodes along
        own = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        nodes = [f"{machine.name}={machine.address}" for machine in self.machines.values()]
        words = [*own, "bash", str(START), str(self.folder), str(image), str(layer), *nodes]
        self._first = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._first.stdout is not None
        said = self._first.stdout.readline()
        assert said == "started\n", said
        self.inside(self._wait_for_all)

    def inside(self, work: Callable[[], T]) -> T:
        """Calls something in a thread that is in the nodes' network; so are threads and processes that it starts."""
        return self._inside.submit(work).result()

    def stop(self) -> None:
        """Ends everything: the first process takes its namespaces along."""
        # a test that was interrupted may still wait for a node in there: it is not waited for
        self._inside.shutdown(wait=False, cancel_futures=True)
        if self._first is None:
            return
        self._first.kill()  # and by --kill-child the network's first process, with all that is in its namespaces
        self._first.wait()
        if self._first.stdout is not None:
            self._first.stdout.close()
        for part in dict.fromkeys(part for machine in self.machines.values() for part in _cgroups(machine)):
            _remove_cgroup(Path(part))
        shutil.rmtree(self.folder, ignore_errors=True)  # pytest would keep its gigabytes

    def _move_in(self) -> None:
        assert self._first is not None
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text().split()
        with Path(f"/proc/{children[0]}/ns/net").open() as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")

    def _wait_for_all(self) -> None:
        end = time.monotonic() + BOOT_S
        for machine in self.machines.values():
            while machine.ssh("sudo systemctl is-active containerd", timeout_s=20).returncode:
                log = machine.folder / "console.log"
                assert time.monotonic() < end, log.read_text()[-2000:] if log.exists() else machine.name
                time.sleep(0.5)


def _cgroups(machine: Machine) -> Iterable[str]:
    listed = machine.folder / "cgroups"
    return listed.read_text().split() if listed.exists() else ()


def _remove_cgroup(folder: Path) -> None:
    """Removes what the nodes made of it, from the leaves up, as soon as the last process of it is gone."""
    end = time.monotonic() + 30
    while folder.exists():
        for place, _, _ in os.walk(folder, topdown=False):
            try:
                Path(place).rmdir()
            except OSError:
                assert time.monotonic() < end, f"{place} is still in use"
        time.sleep(0.05)

"""The small kernel of `kernel.py` as a server of a family: packages, services, boot loader, accounts, core clocks."""

import re
import subprocess
import sys
from pathlib import Path

from components.hosts.program.machine import Done
from tests.components.hosts.kernel import FakeHost, done

RECORDED = Path(__file__).with_name("recorded")
WRITTEN = Path(__file__).with_name("written")
RELEASES = {
    "debian": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n',
    "rhel": 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n',
}
CHRONY = {
    "debian": ("/etc/chrony/chrony.conf", "confdir /etc/chrony/conf.d\nsourcedir /etc/chrony/sources.d\n"),
    "rhel": ("/etc/chrony.conf", "pool 2.rocky.pool.ntp.org iburst\ndriftfile /var/lib/chrony/drift\n"),
}
RECORDED_WORDS = " iommu=pt pci=realloc"
"""What was asked for when the recorded boot entries were written."""
OTHER_SYSTEM = """### BEGIN /etc/grub.d/30_os-prober ###
menuentry 'Another system' {
\tlinux\t/boot/vmlinuz-5.10 root=UUID=2 ro
}
### END /etc/grub.d/30_os-prober ###
"""
HOSTS = "127.0.0.1\tlocalhost\n127.0.1.1\tdgx-17.example\tdgx-17\n\n# of the site\n10.0.0.9 mirror\n"


def boot_entries(words: str) -> str:
    """What update-grub writes with these words in its settings, and a system that is none of ours."""
    return (RECORDED / "grub.cfg").read_text().replace(RECORDED_WORDS, words) + OTHER_SYSTEM


class SystemHost(FakeHost):
    """A server after its installation, called dgx-17, with four cores that save power."""

    def __init__(self, root: Path, family: str = "debian") -> None:
        super().__init__(root)
        self.family = family
        self.packages: set[str] = {"bash", "systemd-timesyncd"}
        self.available = {"chrony", "chrony-doc", "jq", "pciutils", "perf"}
        self.apt_locked_until_s = 0.0
        self.would_remove: tuple[str, ...] = ("systemd-timesyncd",)
        self.services: dict[str, str] = {}
        self.tracking = "chronyc-tracking.csv"
        self.synchronized = "yes"
        self.file("/etc/os-release", RELEASES[family])
        self.file("/etc/hosts", HOSTS)
        self.file("/var/lib/node-exporter/apt.prom", "")
        self.file("/etc/hostname", "dgx-17\n")
        self.file("/proc/sys/kernel/hostname", "dgx-17\n")
        self.file("/proc/sys/kernel/osrelease", "6.1.0-40-amd64\n")
        self.file("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: x\n")
        self.file("/proc/cmdline", "root=UUID=1 ro quiet\n")
        self.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnvidia:x:1000:1000::/home/nvidia:/bin/bash\n")
        self.file("/home/nvidia/.ssh/authorized_keys", "ssh-ed25519 AAAAtheirs of-the-site\n")
        (root / "home/nvidia/.ssh/authorized_keys").chmod(0o600)
        for core in range(4):
            policy = f"/sys/devices/system/cpu/cpufreq/policy{core}"
            self.file(policy + "/scaling_governor", "powersave\n")
            self.file(policy + "/scaling_available_governors", "performance powersave\n")
            self.file(policy + "/scaling_driver", "intel_pstate\n")

    def with_grub(self) -> "SystemHost":
        """The family's boot loader, with the words that the machine was started with."""
        if self.family == "debian":
            self.file("/usr/sbin/update-grub", "#!/bin/sh\n")
            self.file("/boot/grub/grub.cfg", boot_entries(""))
        else:
            self.file("/usr/sbin/grubby", "")
            self.file("/boot/grubby", "ro crashkernel=1G")
        return self

    def reboot(self) -> None:
        """The next start takes the words of the first entry; memory is empty."""
        entry = re.search(r"linux\t\S+ (.*)", self.read("/boot/grub/grub.cfg"))
        self.file("/proc/cmdline", (entry[1] if entry else self.read("/boot/grubby")) + "\n")
        self.remove("/run/rocelab/needs-reboot.json")

    def answer(self, words: tuple[str, ...]) -> Done | None:
        known = self._packaging(words) or self._services(words) or self._boot_loader(words)
        return known or self._accounts(words)

    def _packaging(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("dpkg-query", "-W", "-f", _, *names):
                lines = [f"{name}:amd64 {name} installed\n" for name in names if name in self.packages]
                return Done(int(len(lines) < len(names)), "".join(lines), "")
            case ("rpm", "-q", "--whatprovides", *names):
                lines = [f"{n}-1-1.x86_64\n" if n in self.packages else f"no package provides {n}\n" for n in names]
                return Done(sum(n not in self.packages for n in names), "".join(lines), "")
            case ("env", *rest) if "apt-get" in rest:
                return self._apt(words)
            case ("dnf", *_):
                return self._install(list(words[words.index("install") + 1 :]))
        return None

    def _services(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("systemctl", verb, *_):
                return self._systemctl(verb, words[-1], words)
            case ("chronyc", "-c", "tracking"):
                return done((RECORDED / self.tracking).read_text())
            case ("chronyc", "waitsync", *_):
                return Done(int(self.tracking != "chronyc-tracking.csv"), "", "")
            case ("chronyc", *_):
                return done("200 OK\n")
            case ("timedatectl", *_):
                return done(self.synchronized + "\n")
        return None

    def _boot_loader(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("update-grub",):
                self.file("/boot/grub/grub.cfg", boot_entries(self._sourced()))
            case ("grubby", "--info=ALL"):
                return done((WRITTEN / "grubby-info.txt").read_text().replace("ARGS", self.read("/boot/grubby")))
            case ("grubby", "--update-kernel=ALL", args):
                self.file("/boot/grubby", f"{self.read('/boot/grubby')} {args.partition('=')[2]}")
            case _:
                return None
        return done()

    def _accounts(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("getent", "passwd", who):
                lines = self.read("/etc/passwd").splitlines()
                found = [line for line in lines if who in (line.split(":")[0], line.split(":")[2])]
                return Done(0 if found else 2, "\n".join(found), "")
            case ("useradd", *_, name):
                uid = words[words.index("--uid") + 1] if "--uid" in words else "1001"
                line = f"{name}:x:{uid}:{uid}::/home/{name}:/bin/bash\n"
                self.file("/etc/passwd", self.read("/etc/passwd") + "\n" + line)
                self.file(f"/home/{name}/.bashrc", "")
                return done()
            case ("runuser", "-u", _, "--", _, *rest, home):  # for real, as the user who runs the tests
                command = [sys.executable, *rest, self.path(home)]
                ended = subprocess.run(command, input=self.stdin, capture_output=True, text=True, check=False)
                return Done(ended.returncode, ended.stdout, ended.stderr)
        return None

    def _sourced(self) -> str:
        """What a shell makes of GRUB's settings, as update-grub reads them."""
        places = " ".join(f". {self.path('/etc/default/grub.d/' + n)};" for n in self.names("/etc/default/grub.d"))
        script = f'GRUB_CMDLINE_LINUX_DEFAULT=; {places} printf %s "$GRUB_CMDLINE_LINUX_DEFAULT"'
        done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
        return f" {done.stdout}"

    def _apt(self, words: tuple[str, ...]) -> Done:
        if self.now_s() < self.apt_locked_until_s:
            return Done(100, "", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 17 (apt-get)\n")
        if words[-1] == "update":
            return done()
        names = [word for word in words[words.index("install") + 1 :] if word != "--"]
        unknown = [name for name in names if name not in self.available | self.packages]
        if unknown:
            return Done(100, "", f"E: Unable to locate package {unknown[0]}\n")
        going = self.would_remove if "chrony" in names else ()
        if "--simulate" in words:
            text = (RECORDED / "apt-simulate-chrony.txt").read_text()
            lines = [line for line in text.splitlines() if not line.startswith("Remv")]
            return done("\n".join([*lines, *(f"Remv {name} [1]" for name in going)]) + "\n")
        if going and "--no-remove" in words:
            return Done(100, "", "E: Packages need to be removed but remove is disabled.\n")
        self.packages -= set(going)
        return self._install(names)

    def _install(self, names: list[str]) -> Done:
        unknown = [name for name in names if name not in self.available | self.packages]
        if unknown:
            return Done(1, "", f"Error: Unable to find a match: {unknown[0]}\n")
        self.packages |= set(names)
        if "chrony" in names:
            self.file(*CHRONY[self.family])
            unit = "chrony.service" if self.family == "debian" else "chronyd.service"
            self.services[unit] = "active enabled" if self.family == "debian" else "inactive disabled"
        return done()

    def _systemctl(self, verb: str, unit: str, words: tuple[str, ...]) -> Done | None:
        active, _, enabled = self.services.get(unit, "inactive ").partition(" ")
        match verb:
            case "start" | "stop" if unit.startswith("rocelab-watch-"):
                self.services[unit] = "active" if verb == "start" else "inactive"
            case "is-active" if unit.startswith("rocelab-watch-"):
                return Done(0 if active == "active" else 3, f"{active}\n", "")
            case "reset-failed":
                pass
            case "show" if unit in self.services:
                return done(f"ActiveState={active}\nUnitFileState={enabled}\n")
            case "enable" if unit in self.services:
                assert "--no-reload" in words, "a daemon-reload takes GPUs from containers"
                self.services[unit] = f"{active} enabled"
            case "start" | "try-restart" if unit in self.services:
                self.services[unit] = f"active {enabled}"
            case _:
                return None
        return done()

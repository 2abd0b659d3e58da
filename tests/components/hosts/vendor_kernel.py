"""A host with NVIDIA's NICs and GPUs: what package managers, firmware tools and the vendor's own tools answer.

Forms of outputs are those of `written/vendor/`: nothing here was seen on hardware.
"""

from collections.abc import Callable
from pathlib import Path

from components.hosts.program.machine import Done
from tests.components.hosts.kernel import PFS, FakeHost, done
from tests.conftest import ROOT

WRITTEN = Path(__file__).with_name("written") / "vendor"
KERNEL = "6.8.0-45-generic"
OS_RELEASE = {"debian": "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=24.04\n", "rhel": "ID=rocky\nID_LIKE='rhel fedora'\n"}
CONTAINERD_PID = "812"
MODULE = "/sys/module/mlx5_core"


def smi_of(form: str) -> str:
    """What `nvidia-smi -q -x` prints: recorded on an H100, written for the others."""
    written = WRITTEN / f"nvidia-smi-{form}.xml"
    return (written if written.exists() else ROOT / "tests" / "samples" / "gpu" / f"{form}_idle.xml").read_text()


def missing(words: tuple[str, ...]) -> Done:
    return Done(127, "", f"{words[0]} is not installed")


class VendorHost(FakeHost):
    """Two ConnectX PFs on the kernel's own driver, containerd 1.7 with its default limit, and no GPU driver."""

    def __init__(self, root: Path, family: str) -> None:
        super().__init__(root)
        self.family = family
        self.installed: set[str] = {"libibverbs1", "rdma-core"}
        self.offered: dict[str, Callable[[], None]] = {}
        """What a package does when it is installed; others cannot be had."""
        self.brought: list[str] = []
        """Further packages that come along with every installation."""
        self.dependents: list[str] = []
        self.ofed, self.dkms, self.modinfo = "", "", (WRITTEN / "modinfo-inbox.txt").read_text()
        self.fw_tool, self.smi, self.ctk = "mstconfig", "", ""
        self.firmware: dict[str, dict[str, tuple[int, int]]] = {
            f"{bus}:00.0": {"SRIOV_EN": (0, 0), "NUM_OF_VFS": (4, 8), "LINK_TYPE_P1": (2, 2)} for bus in PFS.values()
        }
        self.frozen_firmware = False
        self.containerd, self.gpu_module, self.peer_module = "containerd.io 1.7.27 05044ec0a9a7", "", True
        self.reloads = 0
        self.file("/etc/os-release", OS_RELEASE[family])
        if family == "debian":
            self.file("/etc/debian_version", "12\n")
        self.file("/proc/sys/kernel/osrelease", KERNEL + "\n")
        self.file(f"/lib/modules/{KERNEL}/build/Makefile", "")
        self.file(f"{MODULE}/srcversion", "A1B2C3D4E5F6071829304B5")
        self.file("/etc/containerd/config.toml", "version = 2\n")
        self.limit("8388608", "8388608")
        for number, pf in enumerate(PFS):
            device = self.driver(pf, "mlx5_core")
            (device / "infiniband" / f"mlx5_{number}").mkdir(parents=True)
            self.file(f"/sys/class/infiniband/mlx5_{number}/fw_ver", "16.35.4030\n")

    def limit(self, soft: str, hard: str) -> None:
        files = "Max open files            1024                 524288               files"
        lines = f"{files}\nMax locked memory         {soft:<20} {hard:<20} bytes\n"
        self.file(f"/proc/{CONTAINERD_PID}/limits", lines)

    def with_ofed(self, version: str, packages: set[str]) -> None:
        """As after an installation and a reboot."""
        self.install_ofed(version)
        self.installed |= packages
        self.file(f"{MODULE}/srcversion", "0B1A2C3D4E5F60718293A4B")
        self.file(f"{MODULE}/version", version)
        self.file(f"{MODULE}/taint", "OE")

    def infiniband(self, pf: str) -> None:
        """A VPI port in InfiniBand mode: sysfs as the kernel writes it, `mstconfig` as in `mstconfig-vpi.txt`.

        Source of the words: drivers/infiniband/core/sysfs.c (link_layer_show), include/uapi/linux/if_arp.h.
        """
        device = next(iter((self.folder / f"sys/class/net/{pf}/device/infiniband").iterdir())).name
        self.file(f"/sys/class/net/{pf}/device/infiniband/{device}/ports/1/link_layer", "InfiniBand\n")
        self.file(f"/sys/class/net/{pf}/type", "32\n")
        self.firmware[f"{PFS[pf]}:00.0"]["LINK_TYPE_P1"] = (1, 1)

    def install_ofed(self, version: str) -> None:
        self.ofed = f"OFED-internal-{version}:\n"
        self.dkms = (WRITTEN / "dkms-3.txt").read_text().replace("25.07-0.9.7", version)
        self.modinfo = (WRITTEN / "modinfo-ofed.txt").read_text().replace("25.07-0.9.7", version)

    def answer(self, words: tuple[str, ...]) -> Done | None:
        packages = self._query(words) or self._change(words)
        tools = packages or self._nic_tool(words) or self._gpu_tool(words)
        return tools or self._service(words) or self._archive(words)

    # -- package managers

    def _query(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("dpkg-query", *_):
                return done("".join(f"{name} 1.0-1 installed\n" for name in sorted(self.installed)))
            case ("rpm", "-qa", *_):
                return done("".join(f"{name} 1.0-1\n" for name in sorted(self.installed)))
        return None

    def _change(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("rpm", "-e", *names):
                return self._remove(names, simulated=False)
        if words[0] not in ("env", "dnf"):
            return None
        simulated = "--simulate" in words or "--assumeno" in words
        for verb, act in (("install", self._install), ("purge", self._remove)):
            if verb in words:
                return act([name for name in words[words.index(verb) + 1 :] if name != "--"], simulated)
        return done()

    def _remove(self, names: list[str], simulated: bool) -> Done:
        if simulated:
            return done("".join(f"Purg {name} [1]\n" for name in [*names, *self.dependents]))
        self.installed -= set(names)
        self.ofed = self.dkms = ""
        return done()

    def _install(self, names: list[str], simulated: bool) -> Done:
        if names[0].startswith("/"):
            return self._offer(names[0])
        if missing := [name for name in names if name not in self.offered]:
            return Done(100, "", f"E: Unable to locate package {missing[0]}\n")
        if simulated:
            form = "Inst {} (1 repo)\n" if self.family == "debian" else " {}  x86_64  1  repo  1 k\n"
            return Done(0 if self.family == "debian" else 1, "".join(map(form.format, [*names, *self.brought])), "")
        self.installed |= {*names, *self.brought}
        for name in names:
            self.offered[name]()
        return done()

    def _offer(self, path: str) -> Done:
        # a vendor's package: its text says which packages its repository has
        for name in Path(path if path.startswith(self.root) else self.path(path)).read_text().split():
            self.offered[name] = lambda: self.install_ofed("25.07-0.9.7")
        return done()

    # -- the vendor's tools

    def _nic_tool(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("ofed_info", "-s"):
                return done(self.ofed) if self.ofed else missing(words)
            case ("modinfo", "mlx5_core"):
                return done(self.modinfo)
            case ("dkms", "status"):
                return done(self.dkms) if self.dkms else missing(words)
            case ("dkms", "autoinstall", "-k", _):
                self.dkms = self.dkms.replace(": added", ": installed")
                return done()
            case ("mstconfig" | "mlxconfig" as name, *rest):
                return self._firmware(rest) if name == self.fw_tool else missing(words)
        return None

    def _gpu_tool(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("modinfo", "nvidia"):
                version = done(f"version:        {self.gpu_module}\n")
                return version if self.gpu_module else Done(1, "", "modinfo: ERROR: Module nvidia not found.\n")
            case ("nvidia-smi", "-q", "-x"):
                return done(self.smi) if self.smi else missing(words)
            case ("nvidia-ctk", "--version"):
                return done(f"NVIDIA Container Toolkit CLI version {self.ctk}\n") if self.ctk else missing(words)
            case ("modprobe", "-a", "nvidia_peermem") if not self.peer_module:
                return Done(1, "", "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")
            case ("modprobe", "-a", "nvidia"):
                self.file("/sys/module/nvidia/version", self.gpu_module)
                return done()
        return None

    def _service(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case ("containerd", "--version"):
                return done(f"containerd {self.containerd}\n") if self.containerd else missing(words)
            case ("systemctl", "show", "-p", "MainPID", "--value", "containerd.service"):
                return done(f"{CONTAINERD_PID if self.containerd else 0}\n")
            case ("systemctl", "daemon-reload"):
                self.reloads += 1
            case ("prlimit", "--pid", _, limits):
                self.limit(*limits.removeprefix("--memlock=").split(":"))
            case ("nvidia-ctk", "runtime", "configure", "--runtime=containerd", *_):
                self._enter_nvidia()
            case ("/etc/init.d/openibd", "restart"):
                self.file(f"{MODULE}/srcversion", "0B1A2C3D4E5F60718293A4B")
            case _:
                return None
        return done()

    def _enter_nvidia(self) -> None:
        config, entry = (
            "/etc/containerd/config.toml",
            '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n',
        )
        text = self.content(config).decode()
        if self.ctk < "1.18":
            self.file(config, text + entry)
            return
        self.file("/etc/containerd/conf.d/99-nvidia.toml", entry)
        if "imports" not in text:
            self.file(config, 'imports = ["/etc/containerd/conf.d/*.toml"]\n' + (text or "version = 2\n"))

    def _archive(self, words: tuple[str, ...]) -> Done | None:
        if words[0] in ("rm", "mkdir", "tar"):
            return done()
        if words[0].endswith("/mlnxofedinstall"):
            self.install_ofed("24.10-1.1.4")
            return done()
        if words[0] == "/usr/sbin/ofed_uninstall.sh":
            self.ofed = ""
            self.installed = {name for name in self.installed if not name.startswith(("mlnx", "ofed"))}
            return done()
        return None

    def _firmware(self, words: list[str]) -> Done:
        match words:
            case ["-d", device, "-e", "query"]:
                form = {"NUM_OF_VFS": "         {}   0   {}   {}\n"}
                lines = [
                    form.get(name, "         {}   X(0)   X({})   X({})\n").format(name, *values)
                    for name, values in self.firmware[device].items()
                ]
                return done("Configurations:   Default  Current  Next Boot\n" + "".join(lines))
            case ["-d", device, "-y", "set", *changes]:
                for change in changes if not self.frozen_firmware else []:
                    name, _, value = change.partition("=")
                    self.firmware[device][name] = (self.firmware[device][name][0], int(value))
        return done("mstconfig, mstflint 4.26.0\n")

    def reboot(self) -> None:
        """What a reboot does to drivers and firmware."""
        for path in ("/run/rocelab/needs-reboot.json", "/sys/module/nouveau"):
            self.remove(path)
        boot_id = "/proc/sys/kernel/random/boot_id"
        self.file(boot_id, f"after {self.read(boot_id)}\n")
        for settings in self.firmware.values():
            settings.update({name: (later, later) for name, (_, later) in settings.items()})
        for pf, bus in PFS.items():
            if self.firmware[f"{bus}:00.0"].get("LINK_TYPE_P1") == (2, 2):
                for port in (self.folder / f"sys/class/net/{pf}/device/infiniband").glob("*/ports/1/link_layer"):
                    port.write_text("Ethernet\n")
                self.file(f"/sys/class/net/{pf}/type", "1\n")
        for line in self.modinfo.splitlines():
            key, _, value = line.partition(":")
            if key in ("version", "srcversion"):
                self.file(f"{MODULE}/{key}", value.strip())
        if self.gpu_module:
            self.file("/sys/module/nvidia/version", self.gpu_module)

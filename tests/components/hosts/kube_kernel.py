"""The small kernel of `kernel.py` with swap, packages and a kubeadm that leaves the files a real one leaves."""

from pathlib import Path

from components.hosts.program.machine import Done
from components.hosts.program.membership import ADMIN_CONFIG, CA_FILE, KUBELET_CONFIG, KUBERNETES
from tests.components.hosts.kernel import FakeHost

CA = "-----BEGIN CERTIFICATE-----\nbGFi\n-----END CERTIFICATE-----\n"
"""Not a certificate, but bytes in the place of one: the program only takes their digest."""
OS = {"debian": "ID=debian\nVERSION_ID=12\n", "rhel": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'}
SYSCTLS = ("net/ipv4/ip_forward",)
BRIDGED = ("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables")
FSTAB = "UUID=1 / ext4 defaults 0 1\n/dev/vda2 none swap sw 0 0\n# /swapfile none swap sw 0 0\n"


class KubeHost(FakeHost):
    """A server after its installation: swap on, no Kubernetes."""

    def __init__(self, root: Path, family: str = "debian") -> None:
        super().__init__(root)
        self.family = family
        self.packages: dict[str, str] = {}
        self.held: set[str] = set()
        self.configs: list[tuple[str, str]] = []
        """(subcommand, configuration) of each kubeadm that was given one."""
        self.modes: list[int] = []
        self.kubeadm_fails = ""
        self.dies_in_kubeadm = False
        self.file("/etc/os-release", OS[family])
        self.file("/etc/fstab", FSTAB)
        self.file("/proc/swaps", "Filename Type Size Used Priority\n/dev/vda2 partition 1000 0 -2\n")
        self.file("/proc/sys/kernel/hostname", "gpu01\n")
        for key in SYSCTLS:
            self.file(f"/proc/sys/{key}", "0\n")

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        match words:
            case (("swapoff" | "swapon") as what, "-a"):
                used = "/dev/vda2 partition 1000 0 -2\n" if what == "swapon" else ""
                self.file("/proc/swaps", f"Filename Type Size Used Priority\n{used}")
            case ("modprobe", "-a", *names) if "br_netfilter" in names:
                for key in BRIDGED:
                    self.file(f"/proc/sys/{key}", "0\n")
            case ((("kubeadm" | "kubelet") as name), ("version" | "--version"), *_):
                version = self.packages.get(name)
                return Done(0, f"Kubernetes v{version}\n", "") if version else Done(127, "", f"no {name}")
            case ("kubeadm", *rest):
                self.commands.append(" ".join(words))
                return self._kubeadm(*rest)
            case ("dpkg-query" | "rpm" | "apt-mark", *_):
                return self._packages(*words)
        if words[-4:-3] in (("--",), ("install",)) and "--simulate" not in words:
            for asked in words[-3:]:
                name, _, version = asked.partition("=" if self.family == "debian" else "-")
                self.packages[name] = version.removesuffix("-*")
        return super().run(*words, stdin=stdin, timeout_s=timeout_s)

    def _packages(self, *words: str) -> Done:
        lines: list[str] = []
        match words:
            case ("dpkg-query", *_):
                lines = [f"{name} {version}-1.1 installed" for name, version in self.packages.items()]
            case ("rpm", "-q", "--queryformat", *_):
                lines = [f"{name} {version}" for name, version in self.packages.items()]
            case ("apt-mark", "showhold", *_):
                lines = sorted(self.held)
            case ("apt-mark", what, *names):
                self.commands.append(" ".join(words))
                self.held = self.held | set(names) if what == "hold" else self.held - set(names)
        return Done(0, "".join(f"{line}\n" for line in lines), "")

    def _kubeadm(self, *words: str) -> Done:
        if "--config" in words:
            place = self.folder / words[words.index("--config") + 1].lstrip("/")
            self.configs.append((" ".join(words[:2]), place.read_text()))
            self.modes.append(place.stat().st_mode & 0o777)
        if self.kubeadm_fails:
            return Done(1, "", self.kubeadm_fails)
        match words:
            case ("init", "--config", *_):
                self._joined(plane=True)
            case ("join", "--config", *_):
                self._joined(plane="controlPlane:" in self.configs[-1][1])
            case ("reset", *_):
                for path in (KUBELET_CONFIG, ADMIN_CONFIG, CA_FILE, f"{KUBERNETES}/manifests/kube-apiserver.yaml"):
                    self.remove(path)
        return Done(0, "", "")

    def _joined(self, *, plane: bool) -> None:
        self.file(CA_FILE, CA)
        if plane:
            self.file(f"{KUBERNETES}/manifests/kube-apiserver.yaml", "kind: Pod\n")
        if self.dies_in_kubeadm:
            raise KeyboardInterrupt
        if plane:
            self.file(ADMIN_CONFIG, "kind: Config\n")
        self.file(KUBELET_CONFIG, "clusters:\n- cluster:\n    server: https://192.168.7.1:6443\n")

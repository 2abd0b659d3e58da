"""The small kernel of `kernel.py` with swap, packages and a kubeadm that leaves the files a real one leaves."""

import shutil
from pathlib import Path

import yaml

from components.hosts.program.machine import Done
from stacks.safe_yaml import LOADER, load_yaml
from tests.components.hosts.kernel import FakeHost, done

CA = "-----BEGIN CERTIFICATE-----\nbGFi\n-----END CERTIFICATE-----\n"
"""Not a certificate, but bytes in the place of one: the program only takes their digest."""

KUBERNETES = "/etc/kubernetes"
KUBELET_CONFIG, ADMIN_CONFIG, CA_FILE = (
    f"{KUBERNETES}/{name}" for name in ("kubelet.conf", "admin.conf", "pki/ca.crt")
)


class KilledError(BaseException):
    """Ends the host program like a signal, but neither the event loop nor pytest."""


class Plane:
    """What the API server of one cluster knows."""

    def __init__(self, ca: str = CA, server: str = "https://192.168.7.1:6443") -> None:
        self.ca, self.server = ca, server
        self.tokens: set[str] = set()
        self.had: list[str] = []
        """Every token that it ever knew."""
        self.certificate_keys: set[str] = set()
        self.hashes: set[str] = set()
        """What the pin of its certificate may be; empty: whatever is said."""
        self.members: list[str] = []


OS = {"debian": "ID=debian\nVERSION_ID=12\n", "rhel": 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.6"\n'}
SYSCTLS = ("net/ipv4/ip_forward",)
BRIDGED = ("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables")
FSTAB = "UUID=1 / ext4 defaults 0 1\n/dev/vda2 none swap sw 0 0\n# /swapfile none swap sw 0 0\n"


class KubeHost(FakeHost):
    """A server after its installation: swap on, no Kubernetes."""

    def __init__(self, root: Path, family: str = "debian", plane: Plane | None = None) -> None:
        super().__init__(root)
        self.family = family
        self.plane = plane or Plane()
        self.packages: dict[str, str] = {}
        self.held: set[str] = set()
        self.kubelet_at_boot = False
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

    def answer(self, words: tuple[str, ...]) -> Done | None:
        match words:
            case (("swapoff" | "swapon") as what, "-a"):
                used = "/dev/vda2 partition 1000 0 -2\n" if what == "swapon" else ""
                self.file("/proc/swaps", f"Filename Type Size Used Priority\n{used}")
            case ("modprobe", "-a", *names) if "br_netfilter" in names:
                for key in BRIDGED:
                    self.file(f"/proc/sys/{key}", "0\n")
            case ("modprobe", "-r", "br_netfilter"):
                shutil.rmtree(self.folder / "proc/sys/net/bridge")
            case ((("kubeadm" | "kubelet") as name), ("version" | "--version"), *_):
                version = self.packages.get(name)
                return Done(0, f"Kubernetes v{version}\n", "") if version else Done(127, "", f"no {name}")
            case ("kubeadm", *rest):
                return self._kubeadm(*rest)
            case ("systemctl", "is-enabled", "kubelet.service"):
                return done("enabled\n" if self.kubelet_at_boot else "disabled\n")
            case ("systemctl", (("enable" | "disable") as what), "--no-reload", "kubelet.service"):
                self.kubelet_at_boot = what == "enable"
            case ("dpkg-query" | "rpm" | "apt-mark", *_):
                return self._packages(*words)
        if words[-4:-3] in (("--",), ("install",)) and "--simulate" not in words:
            for asked in words[-3:]:
                name, _, version = asked.partition("=" if self.family == "debian" else "-")
                self.packages[name] = version.removesuffix("-*")
        return None

    def _packages(self, *words: str) -> Done:
        lines: list[str] = []
        match words:
            case ("dpkg-query", *_):
                lines = [f"{name} {version}-1.1 installed" for name, version in self.packages.items()]
            case ("rpm", "-q", "--qf", *_):
                lines = [f"{name} {version}-150500.1.1" for name, version in self.packages.items()]
            case ("apt-mark", "showhold", *_):
                lines = sorted(self.held)
            case ("apt-mark", what, *names):
                self.held = self.held | set(names) if what == "hold" else self.held - set(names)
        return done("".join(f"{line}\n" for line in lines))

    def _kubeadm(self, *words: str) -> Done:
        if "--config" in words:
            place = self.folder / words[words.index("--config") + 1].lstrip("/")
            self.configs.append((" ".join(words[:2]), place.read_text()))
            self.modes.append(place.stat().st_mode & 0o777)
        if self.kubeadm_fails:
            return Done(1, "", self.kubeadm_fails)
        given = self.configs[-1][1] if self.configs else ""
        match words:
            case ("init", "--config", *_):
                self._learns(given)
                self._joined(given, plane=True)
            case ("join", "--config", *_):
                return self._join(given)
            case ("token", "create", *_) | ("init", "phase", "upload-certs", *_):
                self._learns(given)
            case ("token", "delete", name, *_):
                self.plane.tokens = {token for token in self.plane.tokens if not token.startswith(name)}
            case ("reset", *_):
                for path in (KUBELET_CONFIG, ADMIN_CONFIG, CA_FILE, f"{KUBERNETES}/manifests/kube-apiserver.yaml"):
                    self.remove(path)
        return done()

    def _learns(self, given: str) -> None:
        documents = [document for document in yaml.load_all(given, Loader=LOADER) if isinstance(document, dict)]
        for document in documents:
            for token in document.get("bootstrapTokens", []):
                self.plane.tokens.add(token["token"])
                self.plane.had.append(token["token"])
            self.plane.certificate_keys.add(document.get("certificateKey", ""))

    def _join(self, given: str) -> Done:
        asked = load_yaml(given)
        found = asked["discovery"]["bootstrapToken"] if "discovery" in asked else {}
        if found and found["token"] not in self.plane.tokens:
            return Done(1, "", f"error: could not find a JWS signature for token {found['token']}\n")
        if found and self.plane.hashes and not set(found["caCertHashes"]) & self.plane.hashes:
            return Done(1, "", "error: none of the public keys are pinned\n")
        key = asked.get("controlPlane", {}).get("certificateKey")
        if key and key not in self.plane.certificate_keys:
            return Done(1, "", "error: the secret kubeadm-certs cannot be decrypted\n")
        self._joined(given, plane="controlPlane" in asked)
        return done()

    def _joined(self, given: str, *, plane: bool) -> None:
        self.file(CA_FILE, self.plane.ca)
        if plane:
            self.file(f"{KUBERNETES}/manifests/kube-apiserver.yaml", "kind: Pod\n")
        if self.dies_in_kubeadm:
            raise KilledError
        if plane:
            self.file(ADMIN_CONFIG, "kind: Config\n")
        first = next(yaml.load_all(given, Loader=LOADER))
        name = first.get("nodeRegistration", {}).get("name", "gpu01")
        self.file("/var/lib/kubelet/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="--hostname-override={name}"\n')
        self.file(KUBELET_CONFIG, f"clusters:\n- cluster:\n    server: {self.plane.server}\n")
        self.plane.members.append(name)

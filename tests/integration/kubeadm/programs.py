"""What the nodes run, built from pinned Go modules and Debian's packages, each once into the simulator's cache."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from engine.parts import COMPILER_FLAGS, TEST_PARTS
from engine.parts import CONTAINERD as CONTAINERD_VERSION
from engine.parts import CONTAINERD_MODULE as _CONTAINERD
from engine.places import SOURCES
from simulator.nodes.cache import made_once, run
from simulator.nodes.debian import sources
from simulator.part import Report

GO = Path(__file__).with_name("go")
MODULES = {"kube": SOURCES / "go", "containerd": SOURCES / "containerd", "tiny": GO / "tiny"}
"""Folders of the Go modules; the engine's parts are built from the first two as well."""

[VERSION] = {part.version for part in TEST_PARTS if part.name == "kubeadm"}
_KUBERNETES = f"-s -w -X k8s.io/component-base/version.gitVersion=v{VERSION}"
BUILDS = {
    # module: program, its package, what the linker is told
    "kube": (
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet", _KUBERNETES),
        ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy", _KUBERNETES),
        ("etcd", "go.etcd.io/etcd/server/v3", "-s -w"),
    ),
    "containerd": (
        (
            "containerd",
            f"{_CONTAINERD}/cmd/containerd",
            f"-s -w -X {_CONTAINERD}/version.Version={CONTAINERD_VERSION}",
        ),
        ("containerd-shim-runc-v2", f"{_CONTAINERD}/cmd/containerd-shim-runc-v2", "-s -w"),
        ("ctr", f"{_CONTAINERD}/cmd/ctr", "-s -w"),
    ),
    "tiny": (
        ("shim", "./shim", "-s -w"),
        ("pause", "./pause", "-s -w"),
        ("coredns", "./resolver", "-s -w"),
    ),
}
UNUSED = "no_btrfs,no_devmapper,no_zfs,no_tracing"
"""Parts of containerd that nothing here uses: left out, they need not be compiled."""
_FIREWALL = ("iptables", "libxtables12", "libip4tc2", "libip6tc2", "libnftnl11", "libmnl0")
_CONNECTIONS = ("conntrack", "libnetfilter-conntrack3", "libnfnetlink0")
NODE_PACKAGES = ("runc", "libseccomp2", "containernetworking-plugins", *_FIREWALL, *_CONNECTIONS)
"""What starts containers and gives pods an interface, and what kubeadm looks for before it begins: by name, with all
that the simulator's image lacks of what they need."""
PROXY_PACKAGES = ("libc6", *_FIREWALL, *_CONNECTIONS)
"""What kube-proxy calls; in its image there is nothing else."""
IPTABLES = tuple(f"{name}{end}" for name in ("iptables", "ip6tables") for end in ("", "-save", "-restore"))
"""What the package's script would link; nothing here runs it."""


def built(report: Report) -> dict[str, Path]:
    """The programs by name. The first time it takes minutes; afterwards Go's caches and ours have them."""
    found = {}
    for module, programs in BUILDS.items():
        texts = [path.read_text() for path in sorted(MODULES[module].rglob("*")) if path.is_file()]
        folder = made_once(f"go-{module}", "\n".join([repr(programs), UNUSED, *texts]), _Build(module), report)
        found.update({name: folder / name for name, _, _ in programs})
    return found


class _Build:
    """Builds the programs of one module into a folder."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __call__(self, folder: Path) -> None:
        # static: in an image there is nothing else, and a node's libraries are Debian's
        env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "-trimpath"}
        for name, package, link in BUILDS[self._module]:
            words = [
                "go",
                "build",
                "-C",
                str(MODULES[self._module]),
                "-buildvcs=false",
                "-tags",
                UNUSED,
                # as the engine's parts have them, or Go would compile once more what they share
                *(f"-gcflags={flags}" for flags in COMPILER_FLAGS),
                "-ldflags",
                link,
            ]
            run(*words, "-o", str(folder / name), package, env=env)


def packages(report: Report) -> Path:
    """A folder with Debian 12's packages, each unpacked into a folder of its name."""
    names = sorted({*NODE_PACKAGES, *PROXY_PACKAGES})

    def unpack(folder: Path) -> None:
        apt = folder / "apt"
        for name in ("lists", "archives"):
            (apt / name / "partial").mkdir(parents=True)
        suites = sources("bookworm", "bookworm-updates", "bookworm-security")
        (apt / "sources.list").write_text("\n".join(suites) + "\n")
        settings = [
            # an apt with a memory of its own: the machine's lists and packages stay as they are
            *(f"Dir::Etc::SourceList={apt}/sources.list", "Dir::Etc::SourceParts=-"),
            *(f"Dir::State={apt}", f"Dir::Cache={apt}", "APT::Sandbox::User="),
        ]
        words = ["apt-get", "-qq", *(f"-o{setting}" for setting in settings)]
        run(*words, "update")
        subprocess.run([*words, "download", *names], cwd=apt, check=True, capture_output=True)
        for package in sorted(apt.glob("*.deb")):
            run("dpkg-deb", "-x", str(package), str(folder / package.name.partition("_")[0]))
        shutil.rmtree(apt)

    return made_once("kubeadm-debian", " ".join(names), unpack, report)


def merge(unpacked: Path, names: Sequence[str], folder: Path) -> None:
    """Copies packages into a root, as one installation of them."""
    for name in names:
        run("cp", "-a", f"{unpacked / name}/.", str(folder))
    for name in IPTABLES:
        (folder / "usr/sbin" / name).symlink_to("xtables-nft-multi")

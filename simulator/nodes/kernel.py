"""The kernel of nodes with real pods: Debian's newest, in which soft-RoCE works in a pod, with a patch of it.

Linux 7.1 made soft-RoCE aware of network namespaces. Two things still differ from a real NIC's RDMA device, and
`rdma_rxe.patch` makes them alike: where the device lies in sysfs, and that it follows its interface into a pod.
"""

from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import cache_folder, made_once, need_space
from simulator.nodes.tree import Tree, handles, make_tree
from simulator.part import Report

VERSION = "7.3.4-1~bpo13+1"
"""Version of Debian's package linux in trixie-backports, which keeps only the newest. To raise it, change this and
`RELEASE`. The build stops if the patch does not apply to its source."""
RELEASE = "7.3.4+deb13-amd64"
"""Output of `uname -r`."""
_SERIES, _ABI = "7.3", RELEASE.removesuffix("-amd64")
PACKAGES = (
    *(f"linux-{part}-{RELEASE}={VERSION}" for part in ("base", "binary", "modules", "headers")),
    f"linux-headers-{_ABI}-common={VERSION}",
    f"linux-kbuild-{_ABI}={VERSION}",
    f"linux-source-{_SERIES}={VERSION}",
    *("make", "patch", "xz-utils", "kmod"),
)
BUILD = Path(__file__).with_name("kernel.sh")
PATCH = Path(__file__).with_name("rdma_rxe.patch")
ARCHIVE = "kernel.tar"
ARCHIVE_BYTES = 400 << 20
"""Space for kernel and modules, with room to spare."""


def build_kernel(report: Report) -> Path:
    """An archive with the kernel and its modules, made if the cache lacks it."""
    recipe = [BUILD.read_text(), PATCH.read_text(), *PACKAGES]
    return made_once("kernel", "\n".join(recipe), lambda folder: _make(folder, report), report) / ARCHIVE


def _make(folder: Path, report: Report) -> None:
    need_space(cache_folder(), ARCHIVE_BYTES, f"kernel {RELEASE}")
    sources = debian.sources("trixie", "trixie-updates", "trixie-backports")
    with handles(PATCH, BUILD, folder / ARCHIVE) as (patch, build, archive):
        hooks = [
            f'--customize-hook=cat {patch} > "$1"/rdma_rxe.patch; cat {build} > "$1"/build.sh',
            f'--customize-hook=chroot "$1" env RELEASE={RELEASE} sh /build.sh',
            f'--customize-hook=cat "$1"/kernel.tar > {archive}',
        ]
        tree = Tree("trixie", sources, PACKAGES, hooks, (patch, build, archive))
        make_tree(tree, f"building kernel {RELEASE}", report)

"""The nodes' image: a kernel, a tiny initrd and a Debian 12 root, built once per recipe."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import cache_folder, made_once, need_space
from simulator.nodes.tree import Handle, Tree, handles, make_tree
from simulator.part import Report

GUEST_USER = "nvidia"
GUEST_RECIPE = Path(__file__).with_name("guest.sh")
PACKAGES = (
    # a machine
    *("systemd-sysv", "dbus", "udev", "kmod", "libnss-myhostname", "linux-image-amd64", "busybox-static"),
    # as on the hosts of a lab: logins, networking, and Python for the host program
    *("openssh-server", "sudo", "iproute2", "iputils-ping", "ethtool", "pciutils", "procps", "tcpdump"),
    *("netplan.io", "python3"),
    # RDMA and its benchmarks
    *("rdma-core", "ibverbs-utils", "ibverbs-providers", "rdmacm-utils", "infiniband-diags", "perftest"),
)
_DRIVERS = "/lib/modules/*/kernel/drivers"
UNWANTED_FILES = (
    *("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/lib/modules/*/kernel/sound/*"),
    *(f"{_DRIVERS}/{kind}/*" for kind in ("gpu", "media", "iio", "staging", "net/wireless")),
)
MORE_PACKAGES = "ROCELAB_NODE_PACKAGES"
"""Variable with more packages of Debian for the image, such as an MPI or a scheduler."""
ROOT_SIZE_BYTES = 3 << 30
"""Size that the guest sees; the file is sparse."""
IMAGE_BYTES = 900 << 20
"""Space for kernel, initrd and the used part of the root, with room to spare (measured: 660 MiB)."""


@dataclass(frozen=True)
class Image:
    """The files that every node boots from."""

    folder: Path

    @property
    def root(self) -> Path:
        """Root disk, the base of every node's own disk."""
        return self.folder / "root"

    @property
    def kernel(self) -> Path:
        """Debian's kernel."""
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        """Only loads the disk's drivers and mounts the root, because emulation is slow."""
        return self.folder / "initrd"


def build_image(report: Report) -> Image:
    """The image of this recipe, made if the cache lacks it. The recipe's name does not depend on package versions."""
    packages = (*PACKAGES, *os.environ.get(MORE_PACKAGES, "").split())
    recipe = [GUEST_RECIPE.read_text(), GUEST_USER, str(ROOT_SIZE_BYTES), *packages, *UNWANTED_FILES]

    def fill(folder: Path) -> None:
        need_space(cache_folder(), IMAGE_BYTES, "the nodes' image")
        fill_image(Image(folder), Variant(packages=packages), report)

    return Image(made_once("image", "\n".join(recipe), fill, report))


@dataclass(frozen=True)
class Variant:
    """How an image differs from others of the same recipe."""

    size_bytes: int = ROOT_SIZE_BYTES
    packages: Sequence[str] = PACKAGES
    before: Sequence[str] = ()
    """Hooks of the tree, before the recipe runs in it."""
    after: Sequence[str] = ()
    inputs: Sequence[Handle] = ()
    """Files that the hooks read."""


def fill_image(image: Image, variant: Variant, report: Report) -> None:
    """Fills the files of an image."""
    suites = debian.sources("bookworm", "bookworm-updates", "bookworm-security")
    with handles(image.root, image.kernel, image.initrd) as outputs:
        os.truncate(outputs[0].descriptor, variant.size_bytes)
        root, kernel, initrd = outputs
        excluded = "".join(f"path-exclude={pattern}\n" for pattern in UNWANTED_FILES)
        guest = shlex.quote(GUEST_RECIPE.read_text())
        hooks = [
            f'--essential-hook=printf %s {shlex.quote(excluded)} > "$1"/etc/dpkg/dpkg.cfg.d/lab',
            *variant.before,
            f'--customize-hook=chroot "$1" env GUEST_USER={GUEST_USER} sh -c {guest}',
            *variant.after,
            f'--customize-hook=cat "$1"/boot/vmlinuz > {kernel}; cat "$1"/boot/initrd > {initrd}; rm "$1"/boot/*',
            # a plain bind mount shows the tree without the /proc, /sys and /dev that are mounted into it
            '--customize-hook=mkdir "$1.plain" && mount --bind "$1" "$1.plain"',
            f'--customize-hook=mke2fs -q -F -t ext4 -O ^has_journal,^metadata_csum -d "$1.plain" {root}',
            '--customize-hook=umount "$1.plain" && rmdir "$1.plain"',
        ]
        tree = Tree("bookworm", suites, variant.packages, hooks, (*variant.inputs, *outputs))
        make_tree(tree, "building the nodes' image", report)

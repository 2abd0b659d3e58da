"""What every node boots from: a kernel, a tiny initrd and a Debian 12 root, built once per recipe."""

import fcntl
import os
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import cache_folder, made_once, need_programs, need_space, run
from simulator.part import Report

GUEST_USER = "nvidia"
GUEST_RECIPE = Path(__file__).with_name("guest.sh")
PACKAGES = (
    # a machine
    *("systemd-sysv", "dbus", "udev", "kmod", "libnss-myhostname", "linux-image-amd64", "busybox-static"),
    # what the hosts of a lab have: logins, networking, and the Python on which host programs run
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
ROOT_SIZE_BYTES = 3 << 30
"""Size that the guest sees; the file is sparse."""
IMAGE_BYTES = 900 << 20
"""Space that kernel, initrd and the used part of the root take, with room to spare (measured: 660 MiB)."""
TREE_BYTES = 1500 << 20
"""Space for the tree from which the root is made, and the packages in it, while building."""
PROGRAMS = {"mke2fs": "e2fsprogs", "perl": "perl"}


@dataclass(frozen=True)
class Image:
    """The files that every node boots from."""

    folder: Path

    @property
    def root(self) -> Path:
        """Root disk, which every node's own disk is laid over."""
        return self.folder / "root"

    @property
    def kernel(self) -> Path:
        """Debian's kernel."""
        return self.folder / "kernel"

    @property
    def initrd(self) -> Path:
        """Loads the disk's drivers and hands over: nothing else, since emulated time is dear."""
        return self.folder / "initrd"


def build_image(report: Report) -> Image:
    """The image of this recipe, made when the cache lacks it. Package versions are no part of the recipe's name."""
    recipe = [GUEST_RECIPE.read_text(), GUEST_USER, str(ROOT_SIZE_BYTES), *PACKAGES, *UNWANTED_FILES]
    return Image(made_once("image", "\n".join(recipe), lambda folder: _make(folder, report), report))


def _make(folder: Path, report: Report) -> None:
    """Fills root, kernel and initrd from inside a user namespace, so that root is not needed."""
    # the namespace's ids come from /etc/subuid through newuidmap; root maps its own
    need_programs(PROGRAMS if os.geteuid() == 0 else {**PROGRAMS, "newuidmap": "uidmap"}, "building the nodes' image")
    need_space(cache_folder(), IMAGE_BYTES, "the nodes' image")
    need_space(Path(tempfile.gettempdir()), TREE_BYTES, "building the nodes' image")
    builder = debian.unpacked(("mmdebstrap",), report)
    # the machine's proxies and its rules about old mirrors hold for the guest's packages too
    rules = run("apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until")
    suites = debian.sources("bookworm", "bookworm-updates", "bookworm-security")
    outputs = _open_outputs(folder)
    run(
        *["mmdebstrap", "--mode=unshare", "--format=null", "--variant=minbase", f"--include={','.join(PACKAGES)}"],
        *[*(f"--aptopt={rule}" for rule in rules.splitlines()), *_hooks(outputs), "bookworm", "-", *suites],
        # INITRD=No: guest.sh makes the initrd, so the stock one would be built in vain
        env={**os.environ, "PATH": f"{builder}/usr/bin:{os.environ['PATH']}:/usr/sbin:/sbin", "INITRD": "No"},
        pass_fds=outputs,
    )
    for descriptor in outputs:
        os.fchmod(descriptor, 0o444)  # every node's disk is laid over the root: one write would ruin them all
        os.close(descriptor)


def _open_outputs(folder: Path) -> tuple[int, ...]:
    """Open files to fill: in the namespace we are somebody else, who may not even enter our home.

    Their numbers are above 9, because mmdebstrap hands its own to `sh`, whose redirections take one digit only.
    """
    outputs = []
    for name in ("root", "kernel", "initrd"):
        with (folder / name).open("w+b") as file:
            os.fchmod(file.fileno(), 0o666)
            outputs.append(fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 20))
    os.truncate(outputs[0], ROOT_SIZE_BYTES)
    return tuple(outputs)


def _hooks(outputs: tuple[int, ...]) -> list[str]:
    root, kernel, initrd = (f"/dev/fd/{descriptor}" for descriptor in outputs)
    excluded = "".join(f"path-exclude={pattern}\n" for pattern in UNWANTED_FILES)
    guest = shlex.quote(GUEST_RECIPE.read_text())
    return [
        f'--essential-hook=printf %s {shlex.quote(excluded)} > "$1"/etc/dpkg/dpkg.cfg.d/lab',
        f'--customize-hook=chroot "$1" env GUEST_USER={GUEST_USER} sh -c {guest}',
        f'--customize-hook=cat "$1"/boot/vmlinuz > {kernel}; cat "$1"/boot/initrd > {initrd}; rm "$1"/boot/*',
        # a plain bind mount shows the tree without the /proc, /sys and /dev that are mounted into it
        '--customize-hook=mkdir "$1.plain" && mount --bind "$1" "$1.plain"',
        f'--customize-hook=mke2fs -q -F -t ext4 -O ^has_journal,^metadata_csum -d "$1.plain" {root}',
        '--customize-hook=umount "$1.plain" && rmdir "$1.plain"',
    ]

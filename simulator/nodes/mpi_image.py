"""The system in the image of an MPIJob's pods: the packages that `rocelab image build --which mpi` takes as well."""

import shlex
from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import cache_folder, made_once, need_space
from simulator.nodes.image import UNWANTED_FILES
from simulator.nodes.tree import Tree, handles, make_tree
from simulator.part import Report
from stacks.images import MPI_PACKAGES, SSH_CLIENT, SSHD

SYSTEM_BYTES = 300 << 20
"""Space that the archive takes, with room to spare."""
# with UCX's check of destination GIDs no connection over soft-RoCE comes about: both ends give up after 30 seconds
SOFT_ROCE = ("UCX_UD_ETH_DGID_CHECK=n", "UCX_UD_VERBS_ETH_DGID_CHECK=n")
# a rank that waits polls, and takes the emulated processor from the soft-RoCE that it waits for
YIELD = "echo 'mpi_yield_when_idle = 1' >> \"$1\"/etc/openmpi/openmpi-mca-params.conf"
SETTINGS = {
    "etc/ssh/sshd_config.d/mpi.conf": SSHD,
    "etc/ssh/ssh_config.d/mpi.conf": SSH_CLIENT,
    "etc/ucx/ucx.conf": SOFT_ROCE,
}
ARCHIVE = "system.tar"


def mpi_tree(report: Report) -> Path:
    """An archive of the system, made when the cache lacks it. Package versions are no part of the recipe's name."""
    recipe = "\n".join((*MPI_PACKAGES, *UNWANTED_FILES, repr(SETTINGS), YIELD))
    return made_once("mpi", recipe, lambda folder: _make(folder, report), report) / ARCHIVE


def _make(folder: Path, report: Report) -> None:
    need_space(cache_folder(), SYSTEM_BYTES, "the image of MPI jobs")
    suites = debian.sources("bookworm", "bookworm-updates", "bookworm-security")
    excluded = "".join(f"path-exclude={pattern}\n" for pattern in UNWANTED_FILES)
    with handles(folder / ARCHIVE) as outputs:
        (archive,) = outputs
        hooks = [
            f'--essential-hook=printf %s {shlex.quote(excluded)} > "$1"/etc/dpkg/dpkg.cfg.d/lab',
            *(_written(file, lines) for file, lines in SETTINGS.items()),
            f"--customize-hook={YIELD}",
            '--customize-hook=mkdir -p "$1"/run/sshd; rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin',
            '--customize-hook=chroot "$1" /usr/sbin/sshd -t',
            # a plain bind mount shows the tree without the /proc, /sys and /dev that are mounted into it
            '--customize-hook=mkdir "$1.plain" && mount --bind "$1" "$1.plain"',
            f'--customize-hook=tar -c -C "$1.plain" . > {archive}',
            '--customize-hook=umount "$1.plain" && rmdir "$1.plain"',
        ]
        tree = Tree("bookworm", suites, sorted(MPI_PACKAGES), hooks, outputs)
        make_tree(tree, "making the image of MPI jobs", report)


def _written(file: str, lines: tuple[str, ...]) -> str:
    text = "".join(f"{line}\n" for line in lines)
    return f'--customize-hook=mkdir -p "$(dirname "$1"/{file})"; printf %s {shlex.quote(text)} > "$1"/{file}'

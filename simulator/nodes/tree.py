"""Debian trees made in a user namespace, so that root is not needed; nothing of them stays but the files taken out."""

import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simulator.nodes import debian
from simulator.nodes.cache import need_programs, need_space, run
from simulator.part import Report

TREE_BYTES = 1500 << 20
"""Space for a tree and the packages in it, while it is made."""
PROGRAMS = {"mke2fs": "e2fsprogs", "perl": "perl"}


@dataclass(frozen=True)
class Handle:
    """An open file that hooks read or write by its number.

    In the namespace we are somebody else, who may not even enter our home.
    """

    descriptor: int

    def __str__(self) -> str:
        return f"/dev/fd/{self.descriptor}"


@contextmanager
def handles(*paths: Path) -> Iterator[list[Handle]]:
    """Opens files for a tree's hooks: those that exist to be read, the others to be filled.

    What was filled is read-only afterwards. The numbers are above 9, because mmdebstrap hands its own to `sh`, whose
    redirections take one digit only.
    """
    filled = [not path.exists() for path in paths]
    opened = [_handle(path, fill) for path, fill in zip(paths, filled, strict=True)]
    try:
        yield opened
        for handle, fill in zip(opened, filled, strict=True):
            if fill:
                os.fchmod(handle.descriptor, 0o444)  # one write would ruin it for all that is laid over it
    finally:
        for handle in opened:
            os.close(handle.descriptor)


@dataclass(frozen=True)
class Tree:
    """What a tree is made of."""

    suite: str
    sources: Sequence[str]
    packages: Sequence[str]
    hooks: Sequence[str]
    """Options of mmdebstrap; for their commands `$1` is the tree."""
    files: Sequence[Handle]
    """What the hooks name."""


def make_tree(tree: Tree, purpose: str, report: Report) -> None:
    """Makes a tree with its packages and what they need, and runs its hooks."""
    # the namespace's ids come from /etc/subuid through newuidmap; root maps its own
    need_programs(PROGRAMS if os.geteuid() == 0 else {**PROGRAMS, "newuidmap": "uidmap"}, purpose)
    need_space(Path(tempfile.gettempdir()), TREE_BYTES, purpose)
    builder = debian.unpacked(("mmdebstrap",), report)
    # the machine's proxies and its rules about old mirrors hold for the tree's packages too
    rules = run("apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until")
    run(
        *["mmdebstrap", "--mode=unshare", "--format=null", "--variant=minbase", f"--include={','.join(tree.packages)}"],
        *[*(f"--aptopt={rule}" for rule in rules.splitlines()), *tree.hooks, tree.suite, "-", *tree.sources],
        # INITRD=No: the stock one takes long to make and is used by nobody
        env={**os.environ, "PATH": f"{builder}/usr/bin:{os.environ['PATH']}:/usr/sbin:/sbin", "INITRD": "No"},
        pass_fds=tuple(handle.descriptor for handle in tree.files),
    )


def _handle(path: Path, fill: bool) -> Handle:
    with path.open("w+b" if fill else "rb") as file:
        if fill:
            os.fchmod(file.fileno(), 0o666)
        return Handle(fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 20))

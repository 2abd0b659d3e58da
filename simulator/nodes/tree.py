"""Debian trees, made in a user namespace without root. Only the files that hooks take out of a tree stay."""

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
"""Space for making a tree."""
PROGRAMS = {"mke2fs": "e2fsprogs", "perl": "perl"}


@dataclass(frozen=True)
class Handle:
    """An open file that hooks read or write by its number.

    In the namespace we are another user, who may not even enter our home.
    """

    descriptor: int

    def __str__(self) -> str:
        return f"/dev/fd/{self.descriptor}"


@contextmanager
def handles(*paths: Path) -> Iterator[list[Handle]]:
    """Opens files for a tree's hooks: existing files for reading, the others for writing.

    Written files become read-only. The numbers are 20 or more: lower ones could collide with mmdebstrap's own, which
    must have one digit for `sh`.
    """
    filled = [not path.exists() for path in paths]
    opened = [_handle(path, fill) for path, fill in zip(paths, filled, strict=True)]
    try:
        yield opened
        for handle, fill in zip(opened, filled, strict=True):
            if fill:
                os.fchmod(handle.descriptor, 0o444)  # one write would break every disk that is based on it
    finally:
        for handle in opened:
            os.close(handle.descriptor)


@dataclass(frozen=True)
class Tree:
    """The recipe of a tree."""

    suite: str
    sources: Sequence[str]
    packages: Sequence[str]
    hooks: Sequence[str]
    """Options of mmdebstrap; for their commands `$1` is the tree."""
    files: Sequence[Handle]
    """Files that the hooks use."""


def make_tree(tree: Tree, purpose: str, report: Report) -> None:
    """Makes a tree with its packages and their dependencies, and runs its hooks."""
    # newuidmap takes the namespace's ids from /etc/subuid; root maps its own
    need_programs(PROGRAMS if os.geteuid() == 0 else {**PROGRAMS, "newuidmap": "uidmap"}, purpose)
    need_space(Path(tempfile.gettempdir()), TREE_BYTES, purpose)
    builder = debian.unpacked(("mmdebstrap",), report)
    # the machine's proxies and its rule about old mirrors also apply to the tree's packages
    rules = run("apt-config", "dump", "--no-empty", "Acquire::http", "Acquire::https", "Acquire::Check-Valid-Until")
    run(
        *["mmdebstrap", "--mode=unshare", "--format=null", "--variant=minbase", f"--include={','.join(tree.packages)}"],
        *[*(f"--aptopt={rule}" for rule in rules.splitlines()), *tree.hooks, tree.suite, "-", *tree.sources],
        # INITRD=No: the default initrd takes long to make and is not used
        env={**os.environ, "PATH": f"{builder}/usr/bin:{os.environ['PATH']}:/usr/sbin:/sbin", "INITRD": "No"},
        pass_fds=tuple(handle.descriptor for handle in tree.files),
    )


def _handle(path: Path, fill: bool) -> Handle:
    with path.open("w+b" if fill else "rb") as file:
        if fill:
            os.fchmod(file.fileno(), 0o666)
        return Handle(fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 20))

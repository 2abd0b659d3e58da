"""What this machine needs for building the nodes' image, checked before the minutes that building the engine takes.

The simulator checks the same when it builds the image, which comes last (simulator/nodes/image.py and debian.py).
"""

import argparse
import os
import pwd
import re
import shutil
import sys
from pathlib import Path

from engine.findings import Finding, said_by
from engine.places import cache, is_supported

TOOLS = {"mke2fs": "e2fsprogs", "apt-get": "apt", "dpkg-deb": "dpkg", "perl": "perl"}
"""Programs that the build calls, and their packages."""

SUITE = "bookworm"
SUBORDINATE_IDS = (Path("/etc/subuid"), Path("/etc/subgid"))
WANTED_BY = "make up (image of the nodes)"


def is_built() -> bool:
    """Whether the cache has any image. Its recipe may have changed since, which is rare."""
    found = (cache().parent / "nodes").glob("image-*")
    return any(path.is_dir() and not path.suffix for path in found)


def findings() -> list[Finding]:
    """Programs, package sources, and what a user namespace needs, so that the build works without root."""
    return [_tools(), _source(), *([] if os.geteuid() == 0 else [_ids(), _namespace()])]


def main(arguments: list[str] | None = None) -> int:
    """Prints what is missing and returns 1, unless an image exists. Ignores the namespace check, which may be wrong."""
    argparse.ArgumentParser(prog="python -m engine.nodes_image", description=__doc__).parse_args(arguments)
    if is_built() or not is_supported():  # elsewhere setup reports that builds are not possible
        return 0
    lacks = [one for one in findings() if one.lack and one.part != "namespace"]
    for one in lacks:
        sys.stderr.write(f"{one.part}: {one.lack} -> {one.wanted_by}; {one.remedy}\n")
    return int(bool(lacks))


def _tools() -> Finding:
    tools = TOOLS if os.geteuid() == 0 else {**TOOLS, "newuidmap": "uidmap"}
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])  # not on every user's PATH
    missing = [name for name in tools if shutil.which(name, path=path) is None]
    if not missing:
        return Finding("image tools", "-", "path")
    remedy = "install " + ", ".join(sorted({tools[name] for name in missing}))
    return Finding("image tools", "-", "-", f"no {', '.join(missing)}", WANTED_BY, remedy)


def _source() -> Finding:
    if shutil.which("apt-get") is None:
        return Finding("image source", "-", "unknown: no apt-get here")
    # without stored lists, apt names each file that it would fetch, without using the network
    listed = said_by("apt-get", "-o", "Dir::State::Lists=/nonexistent", "update", "--print-uris")
    if re.search(rf"^'\S+/dists/{SUITE}/InRelease'", listed, re.MULTILINE):
        return Finding("image source", SUITE, "apt")
    remedy = "add one under /etc/apt/sources.list.d and install debian-archive-keyring"
    return Finding("image source", "-", "-", f"apt has no source for Debian 12 ({SUITE})", WANTED_BY, remedy)


def _ids() -> Finding:
    """By name: mmdebstrap, which makes the tree, does not look for numeric ids there."""
    user = _user()
    lacking = [path for path in SUBORDINATE_IDS if user not in _owners(path)]
    if not lacking:
        return Finding("subordinate ids", "-", ", ".join(map(str, SUBORDINATE_IDS)))
    remedy = f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}"
    names = " and ".join(map(str, lacking))
    return Finding("subordinate ids", "-", "-", f"no line for {user} in {names}", WANTED_BY, remedy)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container whose user has no name
        return str(os.getuid())


def _owners(path: Path) -> set[str]:
    try:
        return {line.partition(":")[0] for line in path.read_text().splitlines()}
    except OSError:
        return set()


def _namespace() -> Finding:
    if shutil.which("unshare") is None or said_by("unshare", "--user", "--map-root-user", "id", "-u") == "0":
        return Finding("namespace", "-", "kernel")
    remedy = "allow it: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or user.max_user_namespaces above 0"
    return Finding("namespace", "-", "-", "the kernel does not let this user create user namespaces", WANTED_BY, remedy)


if __name__ == "__main__":
    sys.exit(main())

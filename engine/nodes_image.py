"""What building the nodes' image asks of this machine, found out before the minutes in which the engine is built.

The simulator asks the same when it builds the image (simulator/nodes/image.py and debian.py), which is its last step.
"""

import os
import pwd
import re
import shutil
import sys
from pathlib import Path

from engine.findings import Finding, said_by
from engine.places import cache, is_supported

TOOLS = {"mke2fs": "e2fsprogs", "apt-get": "apt", "dpkg-deb": "dpkg", "perl": "perl"}
"""Programs that the build calls, and the packages that have them."""

SUITE = "bookworm"
SUBORDINATE_IDS = (Path("/etc/subuid"), Path("/etc/subgid"))
WANTED_BY = "make up (image of the nodes)"


def is_built() -> bool:
    """Whether some image lies in the cache: then the recipe has changed at most, and that is rare."""
    found = (cache().parent / "nodes").glob("image-*")
    return any(path.is_dir() and not path.suffix for path in found)


def findings() -> list[Finding]:
    """Programs, where packages come from, and ids for a namespace in which no root is needed."""
    return [_tools(), _source(), *([] if os.geteuid() == 0 else [_ids(), _namespace()])]


def main() -> int:
    """Says what is missing, and 1, as long as no image is built. A namespace is the kernel's word, and only told."""
    if is_built() or not is_supported():  # elsewhere setup says that nothing of it works
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
        return Finding("image source", "-", "asked of apt-get, which is not here")
    # lists that are nowhere make apt name each file that it would fetch; the network is not asked
    listed = said_by("apt-get", "-o", "Dir::State::Lists=/nonexistent", "update", "--print-uris")
    if re.search(rf"^'\S+/dists/{SUITE}/InRelease'", listed, re.MULTILINE):
        return Finding("image source", SUITE, "apt")
    remedy = "add one under /etc/apt/sources.list.d and install debian-archive-keyring"
    return Finding("image source", "-", "-", f"apt has no source for Debian 12 ({SUITE})", WANTED_BY, remedy)


def _ids() -> Finding:
    """By the user's name: mmdebstrap, which makes the tree, reads no numbers there."""
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
    except KeyError:  # a container that runs as a bare number
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
    return Finding("namespace", "-", "-", "the kernel gives this user no user namespace", WANTED_BY, remedy)


if __name__ == "__main__":
    sys.exit(main())

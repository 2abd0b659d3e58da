"""Prepares a stack for the next `up` after a run was killed or the simulator was stopped.

It clears locks of dead processes, ends orphaned plugins, drops pending creates, and forgets what was in a simulated
vCenter that no longer exists.

A pending create is one that was under way when the engine died. The next `up` creates the resource again, which is safe
for every resource of this program: the host program checks before it acts, and the Kubernetes provider takes over an
object of the same name. Nothing else in the state changes.

The simulated vCenter keeps its inventory in memory, and its machines end with it. If another vCenter runs now than the
one in the state, fabric and hosts are removed from the state; cluster, measurements and configuration stay.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stacks.words import plural

Resource = dict[str, Any]  # in an exported stack

PROJECT = "rocelab"
INSTANCE = Path(".sim", "vcenter", "instance")
"""The identity of the simulated vCenter, written by `sim up`. It differs after each start."""
GONE_WITH_A_VCENTER = ("fabric:VsphereFabric", "hosts:Hosts")
"""Our components that depend on a vCenter's inventory. The machines' disks go with it, so their hosts are new too."""
IDENTIFIED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")
"""Ids of settings in a vCenter begin with its identity."""


@dataclass(frozen=True)
class Lock:
    """A lock of the file backend on a stack."""

    path: Path
    pid: int
    hostname: str

    def owner_is_dead(self) -> bool:
        """Whether the owner is known to be dead, which is only possible on this machine."""
        return self.hostname == os.uname().nodename and not _runs(self.pid)


def _runs(pid: int) -> bool:
    """Whether a process runs; a zombie, as under a process 1 that reaps no orphans, does not."""
    try:
        return _state_and_parent(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state_and_parent(pid: int) -> tuple[str, int]:
    # the command name in brackets may contain anything, so count fields from its end
    state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, int(parent)


def locks(state: Path, stack: str) -> Iterator[Lock]:
    """The locks that the file backend in `state` has on a stack."""
    for path in sorted((state / ".pulumi" / "locks" / "organization" / PROJECT / stack).glob("*.json")):
        try:
            content = json.loads(path.read_text())
            yield Lock(path, int(content["pid"]), str(content["hostname"]))
        except (OSError, ValueError, KeyError):
            yield Lock(path, 0, os.uname().nodename)  # truncated by a full disk or a kill: nobody holds it


def orphans(checkout: Path, engine: Path) -> Iterator[tuple[int, str]]:
    """Plugins of a dead engine: our binaries or interpreter, started in this checkout, without a living engine above.

    Their new parent can be process 1, a session's `systemd --user`, or a container's init.
    """
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = _words(int(entry.name))
            here = (entry / "cwd").readlink() == checkout
            plugin = _plugin(words)
            ours = plugin and (plugin.is_relative_to(engine) or "pulumi-language" in plugin.name)
            if here and plugin and ours and not _has_engine(int(entry.name)):
                yield int(entry.name), plugin.name
        except OSError:
            continue


def _has_engine(pid: int) -> bool:
    """Whether a pulumi is an ancestor of the process: the language host between them starts the program."""
    while (pid := _state_and_parent(pid)[1]) > 1:
        if Path(_words(pid)[0]).name == "pulumi":
            return True
    return False


def _plugin(words: list[str]) -> Path | None:
    """The plugin that a command line starts, directly or through an interpreter."""
    return next((path for word in words[:3] if (path := Path(word)).name.startswith("pulumi-")), None)


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def settle(exported: dict[str, object]) -> list[str]:
    """Removes the pending creates from an exported stack and returns their URNs."""
    deployment = exported.get("deployment")
    pending = deployment.get("pending_operations") if isinstance(deployment, dict) else None
    if not isinstance(deployment, dict) or not pending:
        return []
    kept = [operation for operation in pending if operation["type"] != "creating"]
    deployment["pending_operations"] = kept
    return [operation["resource"]["urn"] for operation in pending if operation["type"] == "creating"]


def remembered_vcenters(resources: list[Resource]) -> set[str]:
    """Identities of the simulated vCenters in the state; empty if any vCenter there is real."""
    servers = [_inputs(one).get("vsphereServer", "") for one in resources if one["type"] == "pulumi:providers:vsphere"]
    if not servers or not all(str(server).startswith("127.") for server in servers):
        return set()
    settings = [one for one in resources if one["type"].startswith("rocelab:fabric:")]
    found = (IDENTIFIED.match(str(one.get("id", ""))) for one in settings)
    return {match[1] for match in found if match}


def forget(exported: dict[str, object], vcenter: str) -> int:
    """Removes from an exported stack what was lost with another simulated vCenter; returns the number of resources."""
    deployment = exported.get("deployment")
    resources = deployment.get("resources") if isinstance(deployment, dict) else None
    if not isinstance(deployment, dict) or not resources or not remembered_vcenters(resources) - {vcenter}:
        return 0
    gone = {one["urn"] for one in resources if _is_gone(one["urn"])}
    kept = [one for one in resources if one["urn"] not in gone]
    for one in kept:
        # the engine refuses a state with dependencies on missing resources
        one["dependencies"] = [urn for urn in one.get("dependencies") or [] if urn not in gone]
        by_property = one.get("propertyDependencies") or {}
        one["propertyDependencies"] = {
            key: [urn for urn in urns or [] if urn not in gone] for key, urns in by_property.items()
        }
        if one.get("deletedWith") in gone:
            del one["deletedWith"]
    deployment["resources"] = kept
    pending = deployment.get("pending_operations") or []
    deployment["pending_operations"] = [one for one in pending if one["resource"]["urn"] not in gone]
    return len(gone)


def _is_gone(urn: str) -> bool:
    outermost = urn.split("::")[2].partition("$")[0]
    return outermost.removeprefix(f"{PROJECT}:") in GONE_WITH_A_VCENTER


def _inputs(resource: Resource) -> Mapping[str, object]:
    found = resource.get("inputs")
    return found if isinstance(found, dict) else {}


def recover(stack: str, checkout: Path, state: Path) -> int:
    """Brings the stack into a state from which `pulumi up` converges; returns 1 if another run holds the stack."""
    held = list(locks(state, stack))
    if alive := [lock for lock in held if not lock.owner_is_dead()]:
        _say(f"another run (pid {alive[0].pid} on {alive[0].hostname}) holds stack {stack}; wait for it or end it")
        return 1
    for lock in held:
        lock.path.unlink(missing_ok=True)
        _say(f"cleared the lock of the dead process {lock.pid}")
    for pid, name in orphans(checkout, checkout / ".engine"):
        os.kill(pid, signal.SIGTERM)
        _say(f"ended orphaned {name} ({pid})")
    if not (state / ".pulumi" / "stacks" / PROJECT / f"{stack}.json").exists():
        return 0
    exported = json.loads(_pulumi("stack", "export", "--stack", stack))
    pending, forgotten = settle(exported), _forgotten(exported, checkout)
    if pending or forgotten:
        _pulumi("stack", "import", "--stack", stack, text=json.dumps(exported))
    for urn in pending:
        _say(f"dropped a pending create, the next up creates it again: {urn.rpartition('::')[2]}")
    if forgotten:
        gone = plural(forgotten, "resource")
        _say(f"the simulated vCenter is new: {gone} were lost with the old one, the next up creates them")
    return 0


def _forgotten(exported: dict[str, object], checkout: Path) -> int:
    try:
        running = (checkout / INSTANCE).read_text().strip()
    except FileNotFoundError:
        return 0  # no vCenter was started
    # empty after a full disk or a kill: the identity is unknown
    return forget(exported, running) if running else 0


def _pulumi(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(["pulumi", *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"recover: pulumi {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"recover: {line}\n")


def main(arguments: list[str] | None = None) -> int:
    """Recovers a stack of this checkout."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(
        prog="python -m engine.recover", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stack", nargs="?", default="lab", metavar="STACK", help="default: %(default)s")
    parser.add_argument(
        "state",
        nargs="?",
        type=Path,
        default=root / ".sim" / "state",
        metavar="FOLDER",
        help="folder of the file backend",
    )
    options = parser.parse_args(arguments)
    return recover(options.stack, root, options.state)


if __name__ == "__main__":
    sys.exit(main())

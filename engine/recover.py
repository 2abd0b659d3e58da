"""After a killed run, or a simulator that was stopped: makes a stack fit for the next `up`.

It clears a lock whose owner is dead, ends orphaned plugins, settles pending creates, and forgets what was in a
simulated vCenter that is no more.

A create that was under way when the engine died is dropped from the state, and the next `up` makes it again:
every resource of this program is safe to create twice (the host program checks before it acts, the Kubernetes
provider takes over an object of the same name). Nothing that the state does not name as our own pending create
is touched.

The simulated vCenter keeps its inventory in memory, and its machines go with it. A stack that remembers another one
than runs now loses what it remembers of fabric and hosts; cluster, records of measurements and configuration stay.
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

Resource = dict[str, Any]  # as the engine exports it

PROJECT = "rocelab"
INSTANCE = Path(".sim", "vcenter", "instance")
"""The identity of the simulated vCenter, as `sim up` writes it; it is another one at each start."""
GONE_WITH_A_VCENTER = ("fabric:VsphereFabric", "hosts:Hosts")
"""Components of ours. The machines' disks go with the inventory, so their hosts are as new as the switches are."""
IDENTIFIED = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")
"""The ids of what is set in a vCenter begin with its identity."""


@dataclass(frozen=True)
class Lock:
    """Who holds a stack, as the file backend notes it."""

    path: Path
    pid: int
    hostname: str

    def owner_is_dead(self) -> bool:
        """Only a process of this machine can be known to be dead."""
        return self.hostname == os.uname().nodename and not _runs(self.pid)


def _runs(pid: int) -> bool:
    """A killed process that nobody has waited for, as below a process 1 that reaps no orphans, runs no more."""
    try:
        return _state_and_parent(pid)[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _state_and_parent(pid: int) -> tuple[str, int]:
    # the command's name stands in brackets and may hold anything, so fields are counted from its end
    state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, int(parent)


def locks(state: Path, stack: str) -> Iterator[Lock]:
    """The locks on a stack of the file backend in `state`."""
    for path in sorted((state / ".pulumi" / "locks" / "organization" / PROJECT / stack).glob("*.json")):
        try:
            content = json.loads(path.read_text())
            yield Lock(path, int(content["pid"]), str(content["hostname"]))
        except (OSError, ValueError, KeyError):
            yield Lock(path, 0, os.uname().nodename)  # cut short by a full disk or a kill: nobody holds it


def orphans(checkout: Path, engine: Path) -> Iterator[tuple[int, str]]:
    """Plugins of a dead engine: our binary or our interpreter, started in this checkout, below no engine that lives.

    Who adopts them differs: process 1, a session's `systemd --user`, a container's init.
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
    """Whether a pulumi is above the process, at once or with others between: a language host starts the program."""
    while (pid := _state_and_parent(pid)[1]) > 1:
        if Path(_words(pid)[0]).name == "pulumi":
            return True
    return False


def _plugin(words: list[str]) -> Path | None:
    """The plugin that a command line starts, by itself or through an interpreter; the checkout may be called alike."""
    return next((path for word in words[:3] if (path := Path(word)).name.startswith("pulumi-")), None)


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def settle(exported: dict[str, object]) -> list[str]:
    """Takes the pending creates out of an exported stack; returns their URNs."""
    deployment = exported.get("deployment")
    pending = deployment.get("pending_operations") if isinstance(deployment, dict) else None
    if not isinstance(deployment, dict) or not pending:
        return []
    kept = [operation for operation in pending if operation["type"] != "creating"]
    deployment["pending_operations"] = kept
    return [operation["resource"]["urn"] for operation in pending if operation["type"] == "creating"]


def remembered_vcenters(resources: list[Resource]) -> set[str]:
    """Identities of the simulated vCenters that a stack has set something in; none where one of them is a real one."""
    servers = [_inputs(one).get("vsphereServer", "") for one in resources if one["type"] == "pulumi:providers:vsphere"]
    if not servers or not all(str(server).startswith("127.") for server in servers):
        return set()
    settings = [one for one in resources if one["type"].startswith("pulumi-python:dynamic/fabric:")]
    found = (IDENTIFIED.match(str(one.get("id", ""))) for one in settings)
    return {match[1] for match in found if match}


def forget(exported: dict[str, object], vcenter: str) -> int:
    """Takes what went with another simulated vCenter than this one out of an exported stack; how much it was."""
    deployment = exported.get("deployment")
    resources = deployment.get("resources") if isinstance(deployment, dict) else None
    if not isinstance(deployment, dict) or not resources or not remembered_vcenters(resources) - {vcenter}:
        return 0
    gone = {one["urn"] for one in resources if _is_gone(one["urn"])}
    kept = [one for one in resources if one["urn"] not in gone]
    for one in kept:
        # the engine takes no state in which something waits for what is not there
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
    """Puts the stack into a state from which `pulumi up` converges; 1 when somebody else is at work."""
    held = list(locks(state, stack))
    if alive := [lock for lock in held if not lock.owner_is_dead()]:
        _say(f"another run (pid {alive[0].pid} on {alive[0].hostname}) holds stack {stack}; wait for it, or end it")
        return 1
    for lock in held:
        lock.path.unlink(missing_ok=True)
        _say(f"lock of the dead process {lock.pid} cleared")
    for pid, name in orphans(checkout, checkout / ".engine"):
        os.kill(pid, signal.SIGTERM)
        _say(f"orphaned {name} ({pid}) ended")
    if not (state / ".pulumi" / "stacks" / PROJECT / f"{stack}.json").exists():
        return 0
    exported = json.loads(_pulumi("stack", "export", "--stack", stack))
    pending, forgotten = settle(exported), _forgotten(exported, checkout)
    if pending or forgotten:
        _pulumi("stack", "import", "--stack", stack, text=json.dumps(exported))
    for urn in pending:
        _say(f"pending create dropped, the next up makes it again: {urn.rpartition('::')[2]}")
    if forgotten:
        gone = plural(forgotten, "resource")
        _say(f"the simulated vCenter is a new one: {gone} went with the old one, the next up makes them")
    return 0


def _forgotten(exported: dict[str, object], checkout: Path) -> int:
    try:
        running = (checkout / INSTANCE).read_text().strip()
    except FileNotFoundError:
        return 0  # nobody has started one, or a simulator older than this file
    # empty after a full disk or a kill: then nobody knows whether it is another one
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
        "state", nargs="?", type=Path, default=root / ".sim" / "state", metavar="FOLDER", help="of the file backend"
    )
    asked = parser.parse_args(arguments)
    return recover(asked.stack, root, asked.state)


if __name__ == "__main__":
    sys.exit(main())

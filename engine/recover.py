"""After a killed run: clears a lock whose owner is dead, ends orphaned plugins, and settles pending creates.

A create that was under way when the engine died is dropped from the state, and the next `up` makes it again:
every resource of this program is safe to create twice (the host program checks before it acts, the Kubernetes
provider takes over an object of the same name). Nothing that the state does not name as our own pending create
is touched.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = "rocelab"


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
    """Plugins of a dead engine: our binary or our interpreter, started in this checkout, adopted by process 1."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            _, parent = _state_and_parent(int(entry.name))
            words = (entry / "cmdline").read_bytes().split(b"\0")
            here = (entry / "cwd").readlink() == checkout
        except OSError:
            continue
        plugin = next((Path(word.decode(errors="replace")) for word in words[:3] if b"/pulumi-" in word), None)
        if parent == 1 and here and plugin and (plugin.is_relative_to(engine) or "pulumi-language" in plugin.name):
            yield int(entry.name), plugin.name


def settle(exported: dict[str, object]) -> list[str]:
    """Takes the pending creates out of an exported stack; returns their URNs."""
    deployment = exported.get("deployment")
    pending = deployment.get("pending_operations") if isinstance(deployment, dict) else None
    if not isinstance(deployment, dict) or not pending:
        return []
    kept = [operation for operation in pending if operation["type"] != "creating"]
    deployment["pending_operations"] = kept
    return [operation["resource"]["urn"] for operation in pending if operation["type"] == "creating"]


def recover(stack: str, checkout: Path, state: Path) -> int:
    """Puts the stack into a state from which `pulumi up` converges; 1 when somebody else is at work."""
    held = list(locks(state, stack))
    if alive := [lock for lock in held if not lock.owner_is_dead()]:
        _say(f"another run (pid {alive[0].pid} on {alive[0].hostname}) holds stack {stack}: wait for it, or end it")
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
    if pending := settle(exported):
        _pulumi("stack", "import", "--stack", stack, text=json.dumps(exported))
        for urn in pending:
            _say(f"pending create dropped, the next up makes it again: {urn.rpartition('::')[2]}")
    return 0


def _pulumi(*arguments: str, text: str | None = None) -> str:
    done = subprocess.run(["pulumi", *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"recover: pulumi {' '.join(arguments)} failed:\n{done.stderr.strip()}")
    return done.stdout


def _say(line: str) -> None:
    sys.stdout.write(f"recover: {line}\n")


if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parent.parent
    STATE = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / ".sim" / "state"
    sys.exit(recover(sys.argv[1] if len(sys.argv) > 1 else "lab", ROOT, STATE))

"""How much memory RDMA may pin, in containers and in SSH sessions that run a benchmark."""

import os
import re
from typing import Set

from ..containers import running_containers
from ..host import Document, Host
from ..step import Before, Fields, Step, section_of

RUNTIME = "containerd.service"
DROP_IN = f"/etc/systemd/system/{RUNTIME}.d/60-rocelab-memlock.conf"
DROP_IN_TEXT = "[Service]\nLimitMEMLOCK=infinity\n"
LOGINS = "/etc/security/limits.d/60-rocelab.conf"
LOGINS_TEXT = (
    "* soft memlock unlimited\n* hard memlock unlimited\nroot soft memlock unlimited\nroot hard "
    "memlock unlimited\n"
)
UNLIMITED = "unlimited"


class Memlock(Step):
    """A drop-in for the next start, and the limit of the running daemon set from outside.

    Restarting the daemon would do too, but only after a daemon-reload, and with systemd as the
    cgroup driver that takes the GPUs away from running containers. Containers inherit the limit
    when they start, so running ones keep theirs.
    """

    name = "memlock"
    order = 410
    effects = {"memlock": "none", "login_memlock": "none"}
    files = (LOGINS, DROP_IN)

    def target(self, document: Document) -> Fields:
        unlimited = section_of(document, "runtime").get("memlock") == UNLIMITED
        return {"memlock": UNLIMITED, "login_memlock": UNLIMITED} if unlimited else {}

    def observed(self, host: Host) -> Fields:
        return {
            "memlock": self._found(host),
            "login_memlock": _file_state(host, LOGINS, LOGINS_TEXT),
        }

    def apply(self, host: Host, wrong: Set[str]) -> None:
        machine = host.machine
        if "login_memlock" in wrong:
            machine.put(LOGINS, LOGINS_TEXT)
        if "memlock" not in wrong:
            return
        machine.put(DROP_IN, DROP_IN_TEXT)
        pid = _daemon(host)
        if pid:
            machine.must("prlimit", "--pid", pid, "--memlock=unlimited:unlimited")
        if not running_containers(machine):
            machine.run("systemctl", "daemon-reload")  # no container runs that could lose a GPU

    def before(self, host: Host) -> Before:
        return {"memlock": _limit(host)}

    def undo(self, host: Host, before: Before) -> None:
        machine, pid = host.machine, _daemon(host)
        for path in (DROP_IN, os.path.dirname(DROP_IN), LOGINS):
            machine.remove(path)  # the folder only when it is empty
        if pid and before["memlock"]:
            machine.run("prlimit", "--pid", pid, f"--memlock={before['memlock']}")

    def _found(self, host: Host) -> str:
        limit = _limit(host)
        if limit and limit != "unlimited:unlimited":
            return f"{limit.partition(':')[0]} bytes"
        return _file_state(host, DROP_IN, DROP_IN_TEXT)


def _file_state(host: Host, path: str, text: str) -> str:
    return "".join(host.machine.faults({path: text})) or UNLIMITED


def _daemon(host: Host) -> str:
    """The process id of the running daemon; empty when it does not run."""
    done = host.machine.run("systemctl", "show", "-p", "MainPID", "--value", RUNTIME)
    pid = done.out.strip()
    return pid if pid.isdigit() and pid != "0" else ""


def _limit(host: Host) -> str:
    """`soft:hard` of the running daemon in bytes or unlimited; empty when it does not run."""
    pid = _daemon(host)
    limit = re.search(
        r"^Max locked memory +(\S+) +(\S+)", host.machine.read(f"/proc/{pid}/limits"), re.MULTILINE
    )
    return f"{limit[1]}:{limit[2]}" if pid and limit else ""

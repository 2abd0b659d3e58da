"""One simulated host: a few files, its applied settings, and the answers of its host program.

It recognizes commands and does not run them. For hosts with a real shell, see `simulator/nodes`.
"""

import hashlib
import json
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from simulator.hosts import look
from simulator.hosts.fields import conforming
from simulator.hosts.traffic import Port

FACTORY = {"rdma_namespaces": "shared"}
"""Fields that already conform on a new machine."""
LINK_FIELDS = ("address", "mtu_bytes", "link")
"""Fields that the real program restores unless a new connection confirms them."""

STARTED = re.compile(rb"(?:.* )?exec sudo -n python3 -I -B -c '.*' (?P<verb>\w+)$", re.DOTALL)
SIZE = re.compile(rb"\.read\((\d+)\)")
"""In the first line on stdin: the size of the program behind it."""
INSTALLED = re.compile(
    rb'echo "(?P<digest>[0-9a-f]{64})  (?P<path>\S+)" \| sha256sum .*'
    rb"exec sudo -n python3 -I (?P=path) (?P<verb>\w+)\nfi\n(?P<otherwise>.*)",
    re.DOTALL,
)
LOOKED = re.compile(rb".*exec python3 -I -B -c '.*' look$", re.DOTALL)
RECEIVED = re.compile(rb'cat > "\$HOME/(?P<path>[\w.-]+)\.new" && mv ')
SAID = re.compile(rb"echo '(?P<text>.*)'|exit (?P<code>\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The result of a command."""

    out: str = ""
    err: str = ""
    code: int = 0


@dataclass
class SimHost:
    """One host, which exists only in memory."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    """sha256 of the program by path."""
    fields: dict[str, Any] = field(default_factory=lambda: dict(FACTORY))
    machine_id: str = field(default_factory=lambda: secrets.token_hex(16))
    boot_id: str = field(default_factory=lambda: secrets.token_hex(16))
    unconfirmed: dict[str, Any] | None = None
    """Link fields from before an unconfirmed apply."""
    revert_at_s: float = 0.0
    ports: list[Port] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """Verbs in order; any other command is `other`."""

    def answer(self, command: str, sent: bytes, failing: str = "") -> Answer:
        """The result of a command.

        Args:
            command: as SSH carried it.
            sent: its standard input.
            failing: step that fails in each apply; empty: none.
        """
        text = command.encode()
        if started := STARTED.match(text):
            line, _, content = sent.partition(b"\n")
            size = SIZE.search(line)
            end = int(size[1]) if size else 0
            return self._performed(started["verb"].decode(), _sha256(content[:end]), content[end:], failing)
        if installed := INSTALLED.search(text):
            digest = installed["digest"].decode()
            if self.files.get(installed["path"].decode()) == digest:
                return self._performed(installed["verb"].decode(), digest, sent, failing)
            said = SAID.search(installed["otherwise"])
            return Answer(out=(said["text"] or b"").decode(), code=int(said["code"] or 0)) if said else Answer()
        if LOOKED.match(text):
            self.commands.append("look")
            return Answer(out=look.answer(self.name, self.boot_id, self.ports))
        if received := RECEIVED.match(text):
            self.commands.append("receive")
            self.files[received["path"].decode()] = _sha256(sent)
            return Answer()
        self.commands.append("other")
        if "systemctl reboot" in command:
            self.boot_id = secrets.token_hex(16)
        return Answer(
            out="ActiveState=inactive\nExecMainExitTimestampMonotonic=9000000\n" if "ActiveState" in command else ""
        )

    def _performed(self, verb: str, digest: str, text: bytes, failing: str) -> Answer:
        self.commands.append(verb)
        document = json.loads(text)
        only = document.pop("only", None)
        target = conforming(document)
        self._revert_if_late()
        changed: list[str] = []
        failed = None
        if verb == "apply":
            wrong = [key for key in target if self.fields.get(key) != target[key] and (only is None or key in only)]
            failed = (
                {"step": failing, "reason": f"fault injected into {failing}", "hint": "remove the fault"}
                if failing
                else None
            )
            changed = [] if failed else wrong
            self._change({key: target[key] for key in changed}, document)
            self.files["/usr/local/lib/rocelab/host.pyz"] = digest
        elif verb == "confirm":
            self.unconfirmed = None
        elif verb == "undo":
            self.fields, self.unconfirmed = dict(FACTORY), None
            self.files.pop("/usr/local/lib/rocelab/host.pyz", None)
        fields = {key: self.fields.get(key, "none") for key in target} if verb != "undo" else {}
        if verb == "apply":
            fields = {key: value for key, value in fields.items() if value != target[key]}
        facts = {
            "machine_id": self.machine_id,
            "boot_id": self.boot_id,
            "kernel": "simulated",
            "carrier": {pf["interface"]: True for pf in document["pfs"]},
            "vfs_in_use": {},
            "pending": self.unconfirmed is not None,
        }
        report = {
            "schema": document["schema"],
            "host": document["host"],
            "changed": changed,
            "needs_reboot": [],
            "facts": facts if verb in ("probe", "plan", "confirm") else {},
            "fields": fields,
            "failed": failed,
        }
        return Answer(out=json.dumps(report, sort_keys=True, separators=(",", ":")) + "\n")

    def _change(self, changes: dict[str, Any], document: dict[str, Any]) -> None:
        links = {key: self.fields.get(key) for key in changes if key.rpartition(".")[2] in LINK_FIELDS}
        if links:
            self.unconfirmed = {**links, **(self.unconfirmed or {})}
            self.revert_at_s = time.monotonic() + document["revert_after_s"]
        self.fields.update(changes)

    def _revert_if_late(self) -> None:
        if self.unconfirmed is not None and time.monotonic() > self.revert_at_s:
            self.fields.update(self.unconfirmed)
            self.unconfirmed = None


def _sha256(archive: bytes) -> str:
    return hashlib.sha256(archive).hexdigest()

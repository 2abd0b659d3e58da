"""Records what readers get from a host, so that they can read the same host again elsewhere.

Passwords and keys never get into a recording, and of long outputs only the lines that a reader
uses.
"""

import base64
import errno
import json
import os
import re
import sys
import time
from typing import Any, Callable, List, Tuple

from ..carriers import NETWORK_FILESYSTEMS
from ..guest import PROFILES, RUN_PROFILES
from ..host import CHECKPOINT
from ..machine import MISSING, Done
from . import pci
from .gpu import XID
from .leaves import Json
from .read_only import ReadOnly
from .run import NICENESS, look
from .system import ARGUMENTS, KERNEL_LOG, NIC_LINE

SCHEMA = 1
DEADLINE_S = 60.0
ENVIRONMENT = re.compile(r"^/proc/\d+/environ$")
SESSION = re.compile(rb"(?:^|\0)(SSH_CONNECTION=[^\0]*)")
SECRET = re.compile(
    r"(?i)(?<![\w.-])[\"']?[\w.-]*"
    r"(?:passw(?:or)?d(?:-raw)?|passphrase\d?|psk|secret|token|private|shared|cak|key\d?|pin|"
    r"identity|permissions)"
    r"[\"']?(?:[ \t]*[=:]|[ \t])[ \t]*"
)
"""The name of a setting of netplan, NetworkManager, networkd, ifupdown, ifcfg or wpa_supplicant
whose value nobody else may know."""
OF_AN_INTERFACE = (
    "connection",
    ".nmmeta",
    "match",
    "ethernet",
    "infiniband",
    "vlan",
    "bond",
    "sriov",
    "ipv4",
    "ipv6",
)
"""The only sections of a NetworkManager profile that are recorded: a VPN's names its secrets as it
likes."""
LEFT_OUT = "(other lines were not recorded)"
ON_THE_HOST = (
    ("ip", "-V"),
    ("ip", "-d", "link", "show"),
    ("systemctl", "--version"),
    ("rdma", "link"),
    ("rdma", "system"),
    ("rdma", "resource", "show"),
    ("rdma", "resource", "show", "qp"),
    ("rdma", "-j", "resource", "show"),
    ("nvidia-smi", "topo", "-m"),
    ("ib_write_bw", "--version"),
    ("ib_write_bw", "--help"),
    ("nmcli", "-f", "all", "con"),
)
OF_A_PORT = (
    ("mlnx_qos", "-i", "PF"),
    ("dcb", "dcbx", "show", "dev", "PF"),
    ("dcb", "-j", "pfc", "show", "dev", "PF"),
    ("dcb", "-j", "-N", "app", "show", "dev", "PF", "dscp-prio"),
    ("ethtool", "-a", "PF"),
    ("ethtool", "-i", "PF"),
    ("ethtool", "--show-fec", "PF"),
    ("devlink", "dev", "eswitch", "show", "pci/SLOT"),
    ("udevadm", "info", "/sys/class/net/PF"),
)
OF_THE_FIRMWARE = (("mstconfig", "-d", "SLOT", "-e", "query"), ("mlxlink", "-d", "SLOT"))
OF_ONE_GPU = re.compile(r"(?i)uuid|serial|guid|<pdi>|process_name")
"""Lines of nvidia-smi that identify a card, or a user's program."""
MODULES = ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "rdma_cm")
FILES = (CHECKPOINT, "/etc/rdma/modules/rdma.conf")


class Recorder(ReadOnly):
    """Keeps every answer; a second question gets the first answer again."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.kept: Json = {
            key: {} for key in ("files", "folders", "links", "paths", "programs", "variables")
        }

    def _once(self, kind: str, key: str, read: Callable[[], Any]) -> Any:
        if key not in self.kept[kind]:
            self.kept[kind][key] = read()
        return self.kept[kind][key]

    def bytes_of(self, path: str) -> bytes:
        return _bytes_in(self._once("files", path, lambda: self._file(path)), path)

    def _file(self, path: str) -> Json:
        """Text or bytes of a file, or the number of the error."""
        try:
            content = _without_secrets(path, super().bytes_of(path))
        except OSError as error:
            return {"error": error.errno or errno.EIO}
        try:
            return {"text": content.decode()}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(content).decode()}

    def variable(self, name: str) -> str:
        return str(self._once("variables", name, lambda: super(Recorder, self).variable(name)))

    def exists(self, path: str) -> bool:
        return bool(self._once("paths", path, lambda: super(Recorder, self).exists(path)))

    def names(self, path: str) -> List[str]:
        return list(self._once("folders", path, lambda: super(Recorder, self).names(path)))

    def target(self, path: str) -> str:
        return str(self._once("links", path, lambda: super(Recorder, self).target(path)))

    def real(self, path: str) -> str:
        return str(self._once("links", f"real:{path}", lambda: super(Recorder, self).real(path)))

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        done = self._once(
            "programs", " ".join(words), lambda: self._ran(*words, timeout_s=timeout_s)
        )
        return Done(done["code"], "\n".join(done["out"]), done["err"])

    def _ran(self, *words: str, timeout_s: float) -> Json:
        done = super().run(*words, timeout_s=timeout_s)
        return {"code": done.code, "out": _lines(words, done.out), "err": done.err}


class Replay(Recorder):
    """Answers from a recording. What is not in it does not exist."""

    def __init__(self, recording: Json) -> None:
        super().__init__("/nonexistent")
        self.kept = recording

    def bytes_of(self, path: str) -> bytes:
        if ENVIRONMENT.match(path):  # of another process than the one that recorded
            for known, file in self.kept["files"].items():
                if ENVIRONMENT.match(known) and file.get("text"):
                    return super().bytes_of(known)
        return super().bytes_of(path)

    def variable(self, name: str) -> str:
        return str(self.kept["variables"].get(name, ""))

    def real(self, path: str) -> str:
        return str(self.kept["links"].get(f"real:{path}", path))

    def _ran(self, *words: str, timeout_s: float) -> Json:
        return {"code": MISSING, "out": [], "err": f"{words[0]} is not in the recording"}


def evidence(machine: Recorder, firmware: bool = False) -> Json:
    """A recording of all that `look` reads, and of programs that settle open questions."""
    end_s = time.monotonic() + DEADLINE_S
    look(machine, DEADLINE_S, firmware)
    for path in FILES:
        machine.content(path)
    for module in MODULES:
        machine.names(f"/sys/module/{module}/holders")
    for words in _programs(machine, firmware):
        if time.monotonic() < end_s:
            machine.run(*words)
    return {
        "schema": SCHEMA,
        "python": sys.version.split()[0],
        "root": os.geteuid() == 0,
        **machine.kept,
    }


def record_around(firmware: bool) -> int:
    """The verb: like `look`, it needs no document, takes no lock, and runs at the lowest
    priority.
    """
    os.nice(NICENESS)
    sys.stdout.write(json.dumps(evidence(Recorder(), firmware), separators=(",", ":")) + "\n")
    return 0


def _programs(machine: Recorder, firmware: bool) -> List[List[str]]:
    words = []
    for program in ON_THE_HOST:
        if program[0] != "nmcli" or machine.exists("/run/NetworkManager"):
            words.append(list(program))
    bridges = set()
    for address in (*pci.nics(machine), *pci.gpu_addresses(machine)):
        bridges.update(pci.bridges(machine, address))
    # no NIC or GPU: it would read their VPD
    words += [["lspci", "-vvv", "-s", bridge] for bridge in sorted(bridges)]
    for address in pci.nics(machine):
        device = f"{pci.DEVICES}/{address}"
        programs: List[Tuple[str, ...]] = [*OF_A_PORT]
        if firmware and machine.target(f"{device}/driver") == "mlx5_core":
            programs += OF_THE_FIRMWARE
        for interface in machine.names(f"{device}/net"):
            index = machine.read(f"/sys/class/net/{interface}/ifindex")
            machine.content(f"/run/systemd/netif/links/{index}")
            for of_port in programs:
                line = " ".join(of_port).replace("PF", interface).replace("SLOT", address)
                words.append(line.split())
    return words


def _without_secrets(path: str, content: bytes) -> bytes:
    """What of a file is recorded."""
    if ENVIRONMENT.match(path):
        session = SESSION.search(content)
        return session[1] if session else b""
    if path.startswith(pci.DEVICES) and path.endswith("/config"):
        return pci.without_serial_number(content)
    if path == "/proc/cmdline":
        return " ".join(word for word in content.decode().split() if ARGUMENTS.match(word)).encode()
    if path == "/proc/mounts":
        rows = [line for line in content.splitlines() if NETWORK_FILESYSTEMS.match(_word(line, 2))]
        return b"\n".join(rows)
    if path.startswith(("/etc/", "/run/")):
        text = content.decode(errors="replace")
        if path.startswith((PROFILES, RUN_PROFILES)):
            text = _sections(text)
        return _without_values(text).encode()
    return content


def _sections(profile: str) -> str:
    """A NetworkManager profile with the sections that set up an interface."""
    lines = []
    kept = True
    for line in profile.splitlines(keepends=True):
        if line.startswith("["):
            kept = line.strip("[] \n").replace("802-3-", "") in OF_AN_INTERFACE
        if kept:
            lines.append(line)
    return "".join(lines)


def _without_values(text: str) -> str:
    """A text without the values of secret settings, and without their continuation lines."""
    lines = []
    secret_indent = -1
    for line in text.splitlines(keepends=True):
        indent = len(line) - len(line.lstrip())
        if 0 <= secret_indent < indent or not line.strip():
            continue
        secret = SECRET.search(line)
        secret_indent = indent if secret else -1
        recorded = f"{line[: secret.end()]}REMOVED\n" if secret else line
        lines.append(recorded)
    return "".join(lines)


def _word(line: bytes, number: int) -> str:
    words = line.decode(errors="replace").split()
    return words[number] if len(words) > number else ""


def _lines(words: Any, out: str) -> List[str]:
    """What of an output is recorded."""
    lines = out.split("\n")
    if words == KERNEL_LOG and out.strip():
        return [LEFT_OUT, *(line for line in lines if NIC_LINE.search(line) or XID.search(line))]
    if words[:2] == ("nvidia-smi", "-q"):
        return [line for line in lines if not OF_ONE_GPU.search(line)]
    if words[0] == "lspci":
        return [line for line in lines if not line.startswith("\t") or "ACS" in line]
    if words == ("ib_write_bw", "--help"):
        return [
            line for line in lines if re.search(r"cuda|version|dmabuf|rocm", line, re.IGNORECASE)
        ]
    return lines


def _bytes_in(file: Json, path: str) -> bytes:
    if "error" in file:
        raise OSError(file["error"], os.strerror(file["error"]), path)
    return base64.b64decode(file["base64"]) if "base64" in file else str(file["text"]).encode()

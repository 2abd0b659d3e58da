"""A bundle of evidence: what readers got from hosts, redacted and packed for an issue.

A bundle is a folder: `manifest.json`, and for each host the recording and the inventory that the
readers make of it.
"""

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import JsonValue, TypeAdapter

from components.hosts.pack import digest
from components.hosts.program.look.record import SCHEMA, Replay
from components.hosts.program.look.run import look as look_at
from components.inventory.answer import host_of
from components.inventory.hosts import MEMLOCK, HostLooks, Say
from components.inventory.look import LookRequest
from components.inventory.model import Host
from components.inventory.redact import IPV4, Redactor, texts_of
from components.ssh.connection import keys_of
from stacks.frozen import frozen

Json = dict[str, Any]
MANIFEST = "manifest.json"
HOSTNAME = "/proc/sys/kernel/hostname"
HOST = TypeAdapter(Host)
OF_THE_READER = ("clock_synchronized", "sudo")
"""What `look` takes from its own process and not from a file or a program."""


@frozen
class Bundle:
    """Files by name, and what was removed from them."""

    files: Mapping[str, bytes]
    removed: Mapping[str, Mapping[str, str]]
    """Placeholder by value, by kind; for the person who sends the bundle alone."""
    unread: Sequence[Host]

    @property
    def text(self) -> str:
        """All files, as they are packed."""
        return "\n".join(f"=== {name}\n{content.decode()}" for name, content in self.files.items())


def gather(request: LookRequest, key: bytes, say: Say) -> Bundle:
    """Records the hosts and redacts the recordings.

    Raises:
        LabError: when the private key cannot be used.
    """
    looks = HostLooks(
        keys_of(request.private_key),
        request.known_hosts,
        sudo=request.sudo,
        firmware=request.firmware,
        say=say,
    )
    answers = asyncio.run(looks.record(request.hosts))
    recordings: dict[str, Json] = {}
    unread: list[Host] = []
    for name, answer in answers.items():
        recording = answer if isinstance(answer, Host) else recording_in(answer)
        if isinstance(recording, Host):
            unread.append(recording)
        elif recording is None:
            unread.append(Host(name=name, address="", unread="it printed no recording"))
        else:
            recordings[name] = recording
    redactor = Redactor(key)
    named = [target.address for target in request.hosts if not IPV4.fullmatch(target.address)]
    redactor.learn_names("host", [*recordings, *named])
    redactor.learn_names("user", {target.user for target in request.hosts})
    return bundle(recordings, redactor, unread)


def recording_in(text: str) -> Json | None:
    """The recording in a host's answer, with the limit of the login."""
    memlock, recording = "", None
    for line in text.splitlines():
        if line.startswith(MEMLOCK):
            memlock = line.removeprefix(MEMLOCK).strip()
        if line.startswith("{"):
            recording = json.loads(line)
    if not isinstance(recording, dict) or recording.get("schema") != SCHEMA:
        return None
    return {**recording, "memlock_kib": memlock}


def bundle(
    recordings: Mapping[str, Json], redactor: Redactor, unread: Sequence[Host] = ()
) -> Bundle:
    """The bundle of recordings."""
    for recording in recordings.values():
        redactor.learn_names("host", _host_names(recording))
        host = inventory_of(recording, "host")
        redactor.learn_names("switch", _switch_names(host))
        redactor.learn_names("name", _other_names(recording))
    texts: list[str] = []
    texts_of(dict(recordings), texts.append)
    redactor.learn(texts)
    files: dict[str, bytes] = {}
    hosts: dict[str, JsonValue] = {}
    for number, recording in enumerate(recordings.values(), 1):
        redacted = redactor.value(recording)
        redacted["files"][HOSTNAME] = {
            "text": f"host{number}"
        }  # a name of two letters is no word to search for
        host = inventory_of(redacted, f"host{number}")
        files[f"host{number}.json"] = _text(redacted)
        files[f"host{number}.inventory.json"] = _text(
            HOST.dump_python(host, mode="json", exclude_defaults=True)
        )
        hosts[f"host{number}"] = _summary(host)
    manifest: JsonValue = {
        "schema": SCHEMA,
        "taken_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "program": digest(),
        "hosts": hosts,
        "removed": {kind: len(values) for kind, values in sorted(redactor.removed.items())},
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    return Bundle(
        files={MANIFEST: _text(manifest), **files}, removed=redactor.removed, unread=unread
    )


def inventory_of(recording: Json, name: str) -> Host:
    """What the readers make of a recording."""
    answer = look_at(Replay(recording))
    for leaf in OF_THE_READER:
        answer["system"].pop(leaf, None)
    return host_of(json.dumps(answer), Host(name=name, address=""))


def archive(bundle: Bundle, folder: str) -> bytes:
    """A compressed tar archive with one folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in bundle.files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return content.getvalue()


def _summary(host: Host) -> JsonValue:
    system, pfs = host.system, host.pfs.or_else(())
    own_rdma = [rdma for pf in pfs for rdma in pf.rdma.or_else(()) if not rdma.soft]
    nics: list[JsonValue] = []
    for pf in pfs:
        words = (pf.vendor_id, pf.device_id, pf.driver, pf.firmware)
        nics.append(" ".join(word.or_else("?") for word in words))
    return {
        "simulated": not own_rdma,
        "os": system.os.or_else(""),
        "kernel": system.kernel.or_else(""),
        "nics": nics,
    }


def _host_names(recording: Json) -> list[str]:
    name = str(recording["files"].get(HOSTNAME, {}).get("text", "")).strip()
    short, _, domain = name.partition(".")
    return [name, short, domain]


def _switch_names(host: Host) -> list[str]:
    names: list[str] = []
    for pf in host.pfs.or_else(()):
        for neighbour in pf.lldp.or_else(()):
            names += [neighbour.system, neighbour.port_description]
    return names


def _other_names(recording: Json) -> list[str]:
    """Servers and folders of network filesystems, and profiles of NetworkManager."""
    names: list[str] = []
    for line in str(recording["files"].get("/proc/mounts", {}).get("text", "")).splitlines():
        source, place = [*line.split(), "", ""][:2]
        names += [part for word in (source, place) for part in word.replace(":", "/").split("/")]
    for path in (
        "/etc/NetworkManager/system-connections",
        "/run/NetworkManager/system-connections",
    ):
        names += [name.removesuffix(".nmconnection") for name in recording["folders"].get(path, [])]
    interfaces = recording["folders"].get("/sys/class/net", [])
    return [name for name in names if name not in interfaces]


def _text(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"

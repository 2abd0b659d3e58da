"""Every node's name and management address in the hosts file, for labs without a name server."""

import hashlib
import re
from typing import Iterator, List, Sequence, Set

from ..blocks import block_of, with_block
from ..cloud_init import FOLDER, CloudSetting
from ..host import Document, Host
from ..step import Fields, Step, value_or_reason

HOSTS_FILE = "/etc/hosts"
CLOUD = CloudSetting(
    FOLDER + "/99-rocelab-hosts.cfg",
    "# written by rocelab: cloud-init would rewrite the hosts file at each boot\nmanage_etc_hosts: "
    "false\n",
)
NUMBERED = re.compile(r"^(.*?)(\d+)$")


class HostsFile(Step):
    """A marked block; the rest of the file stays unchanged."""

    name = "hosts_file"
    order = 250
    effects = {"hosts_file": "none"}
    files = (HOSTS_FILE, CLOUD.path)

    def target(self, document: Document) -> Fields:
        runs = document.get("hosts_file")
        return {"hosts_file": describe(list(host_lines(runs)))} if runs else {}

    def observed(self, host: Host) -> Fields:
        machine = host.machine
        content = machine.content(HOSTS_FILE).decode(errors="replace")
        text = value_or_reason(lambda: describe(block_of(content, HOSTS_FILE)))
        kept = CLOUD.is_kept(machine)
        return {"hosts_file": text if kept else f"{text}, until cloud-init writes its own"}

    def apply(self, host: Host, wrong: Set[str]) -> None:
        CLOUD.keep(host.machine)
        self._put(host, list(host_lines(host.document["hosts_file"])))

    def undo(self, host: Host, before: object) -> None:
        host.machine.remove(CLOUD.path)
        self._put(host, [])

    def _put(self, host: Host, lines: Sequence[str]) -> None:
        before = host.machine.content(HOSTS_FILE).decode(errors="surrogateescape")
        host.machine.ensure(
            HOSTS_FILE, with_block(before, lines, HOSTS_FILE).encode(errors="surrogateescape")
        )


def host_lines(runs: Sequence[str]) -> Iterator[str]:
    """The block's lines: `10.0.0.1 gpu01 3` means three nodes with consecutive addresses and names.

    A lab of hundreds of nodes has every name on every host, and so in each host's document and in
    the state.
    """
    for run in runs:
        address, name, count = run.split()
        first = int.from_bytes(bytes(int(part) for part in address.split(".")), "big")
        numbered = NUMBERED.match(name)
        for i in range(int(count)):
            here = ".".join(str(octet) for octet in (first + i).to_bytes(4, "big"))
            yield f"{here} {name if numbered is None else count_on(numbered[1], numbered[2], i)}"


def count_on(stem: str, number: str, steps: int) -> str:
    """The name `steps` places after the given one, with the same number of digits."""
    return f"{stem}{str(int(number) + steps).zfill(len(number))}"


def describe(lines: List[str]) -> str:
    """A summary of a block, different for different blocks."""
    if not lines:
        return "no names"
    return f"{len(lines)} names, {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:8]}"

"""`rocelab look`."""

import base64
import functools
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import click

from components.cli.exits import Exit, exit_of
from components.cli.options import (
    FILE,
    NEW_FILE,
    Result,
    Verb,
    json_option,
    say,
    show,
    stack_options,
    verb,
)
from components.inventory.document import save
from components.inventory.hosts import LookTarget
from components.inventory.look import LookRequest, Unread, look, unread
from components.inventory.model import Host, Inventory, Switch
from components.inventory.switches import SwitchTarget
from components.ssh import credentials
from components.stack import Stack
from components.switches.os import SWITCH_OSES
from stacks.access import KnownHosts, known_hosts_name, read_known_hosts
from stacks.base import LabError
from stacks.files import read_text, require_writable
from stacks.frozen import frozen
from stacks.sets import folded, names_of
from stacks.words import plural

SWITCH = re.compile(r"(?P<name>[^=]+)=(?P<os>[^@]+)@(?P<address>[^:]+)(:(?P<port>\d{1,5}))?")


@frozen
class LookOptions:
    """What to read, and how: the options that `look`, `discover` and `audit` share."""

    sets: tuple[str, ...] = ()
    user: str | None = None
    port: int = 22
    known_hosts: Path | None = None
    key: Path | None = None
    kubeconfig: Path | None = None
    switches: tuple[str, ...] = ()
    switch_user: str = "admin"
    firmware: bool = False
    no_sudo: bool = False

    @property
    def private_key(self) -> str | None:
        """The key of --key; None for the ssh-agent's."""
        return read_text(self.key) if self.key else None


def look_options(run: Verb) -> Verb:
    """Adds the options of a look; the verb gets them as `options`."""

    @click.option(
        "--hosts",
        "sets",
        multiple=True,
        metavar="SET",
        help="Read these hosts instead of a lab's: a name, gpu[01-64], or NAMES=ADDRESSES. "
        "Repeat it for more.",
    )
    @click.option("--user", metavar="NAME", help="Log in to the hosts as this user.")
    @click.option(
        "--port",
        type=click.IntRange(1, 65535),
        default=22,
        show_default=True,
        help="Port of their SSH.",
    )
    @click.option(
        "--known-hosts",
        type=FILE,
        help="File of host keys; hosts missing there are not read.",
    )
    @click.option(
        "--key",
        type=FILE,
        help="Private key of the login.  [default: the ssh-agent's]",
    )
    @click.option("--kubeconfig", type=FILE, help="Read this cluster too.")
    @click.option(
        "--switch",
        "switches",
        multiple=True,
        metavar="NAME=OS@ADDRESS[:PORT]",
        help=f"Read this switch too. OS is one of {', '.join(SWITCH_OSES)}. Repeat it for more.",
    )
    @click.option(
        "--switch-user",
        default="admin",
        show_default=True,
        metavar="NAME",
        help="Log in to switches as this user.",
    )
    @click.option(
        "--firmware", is_flag=True, help="Ask NVIDIA's NICs for settings of their firmware."
    )
    @click.option(
        "--no-sudo", is_flag=True, help="Do not become root on the hosts: more stays unknown."
    )
    @functools.wraps(run)
    def with_options(*given: object, **named: Any) -> Result:
        options = LookOptions(
            **{field.name: named.pop(field.name) for field in fields(LookOptions)}
        )
        return run(*given, options=options, **named)

    return with_options


out_option = click.option(
    "--out",
    type=NEW_FILE,
    default="inventory.json",
    show_default=True,
    help="Write this.",
)


@verb(
    "rocelab look --hosts 'gpu[01-64]' --user ops --known-hosts known_hosts",
    "rocelab look --hosts 'gpu[01-64]=192.0.2.[11-74]' --user ops --known-hosts known_hosts",
    "rocelab look --hosts node1 --user ops --known-hosts known_hosts --switch "
    "leaf1=sonic@192.0.2.201",
    "rocelab look --stack dgx",
)
@stack_options
@look_options
@out_option
@json_option
def command(stack: Stack, options: LookOptions, out: Path, as_json: bool) -> Exit:
    """Read a cluster that exists, without changing anything, and write what it is to a file.

    Without --hosts it is the lab of a stack: its active nodes, its switches, and its cluster if
    that has a kubeconfig.

    Nothing is written on a host, a switch or in the cluster. The file names hosts and addresses;
    only you may read it.
    """
    inventory = looked(options, out, stack)
    missing = list(unread(inventory))
    if as_json:
        show("", _document(out, inventory, missing), as_json=True)
    else:
        summarize(out, inventory)
    return exit_of(findings=False, unreached=bool(missing))


def looked(options: LookOptions, out: Path, stack: Stack | None = None) -> Inventory:
    """Looks at the hosts of --hosts, else at those of the stack's lab, and saves what it finds."""
    require_writable(out)
    inventory = look(request_of(options, stack), say)
    save(inventory, out)
    return inventory


def request_of(options: LookOptions, stack: Stack | None) -> LookRequest:
    """The hosts of --hosts, else those of the stack's lab."""
    if stack and not options.sets:
        request = _of_stack(stack, options)
    else:
        request = _of_options(options)
    return replace(request, sudo=not options.no_sudo, firmware=options.firmware)


def summarize(out: Path, inventory: Inventory, *, err: bool = False) -> None:
    """Prints a summary, and on stderr what was not read."""
    click.echo(_summary(out, inventory), err=err)
    say(*_lines(inventory, list(unread(inventory))))


def _of_options(options: LookOptions) -> LookRequest:
    if options.user is None or options.known_hosts is None:
        raise click.UsageError("--hosts needs --user and --known-hosts")
    kubeconfig = None
    if options.kubeconfig:
        kubeconfig = read_text(options.kubeconfig)
    return LookRequest(
        hosts=_targets(options.sets, options.user, options.port),
        known_hosts=KnownHosts(read_text(options.known_hosts).splitlines()),
        private_key=options.private_key,
        kubeconfig=kubeconfig,
        switches=[_switch(text, options.switch_user) for text in options.switches],
    )


def _of_stack(stack: Stack, options: LookOptions) -> LookRequest:
    if options.user or options.known_hosts or options.key or options.switches:
        raise click.UsageError(
            "--user, --known-hosts, --key and --switch need --hosts; a lab file has its own"
        )
    kubeconfig = None
    if options.kubeconfig:
        kubeconfig = read_text(options.kubeconfig)
    lab = stack.lab()
    user = lab.access.user
    cluster_unread = ""
    if kubeconfig is None and lab.cluster is not None and lab.cluster.bootstrap is None:
        try:
            kubeconfig = credentials.kubeconfig(lab, stack.secret, stack.root)
        except LabError as error:  # hosts need neither a Pulumi login nor a passphrase
            cluster_unread = f"{error}; or name its kubeconfig with --kubeconfig"
    hosts = []
    for node in lab.active_nodes:
        address = str(node.address)
        hosts.append(LookTarget(name=node.name, address=address, ssh_port=node.ssh_port, user=user))
    switches = []
    for switch in lab.switches:
        switches.append(
            SwitchTarget(
                name=switch.name,
                os=switch.os,
                address=switch.address,
                ssh_port=switch.ssh_port,
                user=switch.user,
            )
        )
    return LookRequest(
        hosts=hosts,
        known_hosts=read_known_hosts(lab.access, stack.root),
        private_key=credentials.private_key(lab, stack.secret, stack.root),
        kubeconfig=kubeconfig,
        cluster_unread=cluster_unread,
        switches=switches,
    )


def _targets(sets: Iterable[str], user: str, port: int) -> list[LookTarget]:
    targets: dict[str, LookTarget] = {}
    for text in sets:
        left, mark, right = text.partition("=")
        try:
            names = names_of(left)
            addresses = names_of(right) if mark else names
        except ValueError as error:
            raise click.BadParameter(f"{text}: {error}", param_hint="--hosts") from None
        if len(names) != len(addresses):
            raise click.BadParameter(
                f"{text}: {len(names)} names, {len(addresses)} addresses", param_hint="--hosts"
            )
        for name, address in zip(names, addresses, strict=True):
            if name in targets:
                raise click.BadParameter(f"{name} is named twice", param_hint="--hosts")
            targets[name] = LookTarget(name=name, address=address, ssh_port=port, user=user)
    return list(targets.values())


def _switch(text: str, user: str) -> SwitchTarget:
    match = SWITCH.fullmatch(text)
    port = int(match["port"] or 22) if match else 0
    if match is None or match["os"] not in SWITCH_OSES or not 1 <= port <= 65535:
        oses = ", ".join(SWITCH_OSES)
        raise click.BadParameter(
            f"{text}: write NAME=OS@ADDRESS[:PORT], OS one of {oses}", param_hint="--switch"
        )
    try:
        address = IPv4Address(match["address"])
    except ValueError as error:
        raise click.BadParameter(f"{text}: {error}", param_hint="--switch") from None
    return SwitchTarget(
        name=match["name"], os=match["os"], address=address, ssh_port=port, user=user
    )


def _summary(out: Path, inventory: Inventory) -> str:
    read = [host for host in inventory.hosts if not host.unread]
    pfs = sum(len(host.pfs.or_else(())) for host in read)
    gpus = sum(len(host.gpus.or_else(())) for host in read)
    parts = [
        f"{len(read)} of {plural(len(inventory.hosts), 'host')}",
        plural(pfs, "NIC port"),
        plural(gpus, "GPU"),
    ]
    if inventory.switches:
        parts.append(
            plural(sum(not switch.unread for switch in inventory.switches), "switch", "switches")
        )
    if inventory.cluster is not None and not inventory.cluster.unread:
        parts.append(plural(len(inventory.cluster.nodes.or_else(())), "Kubernetes node"))
    return f"{out}: {', '.join(parts)}"


def _lines(inventory: Inventory, missing: list[Unread]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for device in missing:
        by_reason[device.reason].append(device.name)
    for reason, names in by_reason.items():
        yield f"not read: {', '.join(folded(names))}: {reason}"
    devices: list[Host | Switch] = [*inventory.hosts, *inventory.switches]
    offered = [device for device in devices if device.offered_key]
    if offered:
        yield (
            "Compare each key with the host's console, add it to the known_hosts file, and run "
            "rocelab look again:"
        )
    for host in offered:
        label = known_hosts_name(host.address, host.ssh_port)
        yield f"{label} {host.offered_key}  # {host.name} {_fingerprint(host.offered_key)}"


def _fingerprint(key: str) -> str:
    """The fingerprint of a public key, as in `ssh-keygen -l`."""
    digest = hashlib.sha256(base64.b64decode(key.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _document(out: Path, inventory: Inventory, missing: list[Unread]) -> dict[str, object]:
    unread = []
    for device in missing:
        fields = asdict(device)
        unread.append({key: text for key, text in fields.items() if text})
    return {
        "file": str(out),
        "hosts": len(inventory.hosts),
        "unread": unread,
    }

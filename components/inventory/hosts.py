"""Reads many hosts at once over SSH. A host that hangs delays no other, and none is changed."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime

from components.hosts.pack import on_stdin, read_as_root, started
from components.hosts.program.look.leaves import LATE
from components.inventory.answer import LookAnswerError, host_of
from components.inventory.model import Host
from components.ssh.connection import (
    Endpoint,
    Keys,
    NoAnswerError,
    connected,
    in_short,
    offered_key,
)
from components.ssh.session import first_answer
from components.switches.dialect import RefusedError
from stacks.access import KnownHosts, known_hosts_name
from stacks.frozen import frozen
from stacks.sets import folded

AT_ONCE = 512
"""Hosts that are read at the same time."""
GREETING_AT_ONCE = 64
"""Logins at the same time: each takes processor time here, and each has a deadline."""
START_S = 40.0
"""From the login to the first byte. A stuck host never prints one."""
LOOK_S = 45.0
"""From the first byte to the end of a look. The host stops reading after 30 s."""
RECORD_S = 120.0
"""The same for a recording, which runs more programs, each within 10 s."""
MEMLOCK = "memlock"
"""Begins the line with the limit of locked memory that the login itself has, in KiB."""
SAY_EACH_S = 5.0
KINDS = ("ssh-ed25519",)
"""Of host key: the best first; all others of the file come after."""
UNPINNED = "its host key is not in the known_hosts file"

Say = Callable[[str], None]


@frozen
class LookTarget:
    """A host to look at."""

    name: str
    address: str
    """Name or IP address."""
    ssh_port: int = 22
    user: str


class HostLooks:
    """Looks at hosts with one key and one known_hosts file.

    Args:
        keys: private keys of the login.
        known: host keys; a host that is not among them is not logged in to.
        sudo: whether to become root where the login may without a password.
        firmware: whether to ask NICs for settings that wait for a boot.
        say: gets a line about the progress now and then.
    """

    def __init__(
        self, keys: Keys, known: KnownHosts, *, sudo: bool, firmware: bool = False, say: Say
    ) -> None:
        self._keys, self._known, self._say = keys, known, say
        self._sudo, self._firmware = sudo, firmware
        self._greeting = asyncio.Semaphore(GREETING_AT_ONCE)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._done = self._unread = 0
        self._slow: list[str] = []

    async def look(self, targets: Sequence[LookTarget]) -> tuple[Host, ...]:
        """All hosts, in their order."""
        telling = asyncio.create_task(self._tell(len(targets)))
        try:
            hosts = await asyncio.gather(*(self._counted(target) for target in targets))
        finally:
            telling.cancel()
        if self._slow:
            self._say(
                f"read in part: {', '.join(folded(self._slow))}: too busy, or a driver or tool "
                "hangs. The inventory says what is missing. Run this again when they are less busy."
            )
        return tuple(hosts)

    async def _tell(self, count: int) -> None:
        begun_s = time.monotonic()
        while True:
            await asyncio.sleep(SAY_EACH_S)
            waited_s = time.monotonic() - begun_s
            self._say(
                f"{self._done} of {count} hosts after {waited_s:.0f} s, {self._unread} not read"
            )

    async def _counted(self, target: LookTarget) -> Host:
        async with self._places:
            host = await self._look_at(target)
        self._done += 1
        self._unread += bool(host.unread)
        return host

    async def record(self, targets: Sequence[LookTarget]) -> dict[str, str | Host]:
        """The recording of each host as it was printed, or the host with the reason."""
        evidence = command(sudo=self._sudo, verb="evidence", firmware=self._firmware)
        words = f'echo "{MEMLOCK} $(ulimit -l)"; {evidence}'

        async def recorded(target: LookTarget) -> str | Host:
            host = await self._reached(target)
            if host.unread:
                return host
            try:
                return await self._answer(host, words, RECORD_S)
            except NoAnswerError as error:
                return replace(host, unread=str(error))

        answers = await asyncio.gather(*(recorded(target) for target in targets))
        return {target.name: answer for target, answer in zip(targets, answers, strict=True)}

    async def _look_at(self, target: LookTarget) -> Host:
        host = await self._reached(target)
        if host.unread:
            return host
        words = command(sudo=self._sudo, firmware=self._firmware)
        read_at = datetime.now(UTC)
        try:
            answer = await self._answer(host, words, LOOK_S)
            host = host_of(answer, replace(host, read_at=read_at))
        except Exception as error:  # noqa: BLE001  # whatever one host does, the others are read
            return replace(host, unread=why_unread(error, host.address, host.ssh_port))
        if f'"{LATE} ' in answer:  # begins the reason of each value that came too late
            self._slow.append(host.name)
        return host

    async def _reached(self, target: LookTarget) -> Host:
        """The host with its address and key, or the reason why it cannot be read."""
        host = Host(
            name=target.name, address=target.address, ssh_port=target.ssh_port, user=target.user
        )
        try:
            host = replace(host, address=await _resolved(target))
            host_key = pinned(
                self._known, (target.address, target.name, host.address), target.ssh_port
            )
            if not host_key:
                return replace(host, unread=UNPINNED, offered_key=await self._offered_key(host))
        except NoAnswerError as error:
            return replace(host, unread=str(error).removeprefix(f"{host.address}:{host.ssh_port} "))
        return replace(host, host_key=host_key)

    async def _answer(self, host: Host, words: str, answer_s: float) -> str:
        endpoint = Endpoint(
            address=host.address, port=host.ssh_port, user=host.user, host_key=host.host_key
        )
        async with AsyncExitStack() as stack:
            async with self._greeting:
                opening = connected(endpoint, self._keys, pinned_in="the known_hosts file")
                connection = await stack.enter_async_context(opening)
            return await first_answer(
                connection, words, on_stdin(), start_s=START_S, answer_s=answer_s
            )

    async def _offered_key(self, host: Host) -> str:
        async with self._greeting:
            return await offered_key(host.address, host.ssh_port)


def why_unread(error: Exception, address: str, port: int) -> str:
    """Why a host or switch was not read, without its address: it is named anyway."""
    if isinstance(error, NoAnswerError | LookAnswerError | RefusedError):
        return str(error).removeprefix(f"{address}:{port} ")
    return f"{type(error).__name__}: {in_short(error)}"


def pinned(known: KnownHosts, names: Iterable[str], port: int) -> str:
    """The key of a host that is known by one of these names; empty when it is not."""
    for kinds in (KINDS, tuple(known.kinds)):
        for name in dict.fromkeys(names):
            if keys := known.keys(known_hosts_name(name, port), kinds):
                return keys[0]
    return ""


def command(*, sudo: bool, verb: str = "look", firmware: bool = False) -> str:
    """What runs on a host: as root if allowed, by the installed reader or as it was sent."""
    verb += " firmware" if firmware else ""
    if not sudo:
        return f"exec {started(verb)}"
    # sudo -n reads no stdin where it refuses, so the next command gets all of it
    return f"{read_as_root(verb)} && exit; sudo -n {started(verb)} && exit; exec {started(verb)}"


async def _resolved(target: LookTarget) -> str:
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(
            target.address, target.ssh_port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except OSError as error:
        raise NoAnswerError(
            f"{target.address} is not an address, and not a name that resolves: {error.strerror}"
        ) from None
    return str(addresses[0][4][0])

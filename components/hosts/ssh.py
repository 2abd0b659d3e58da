"""The host program over SSH: pinned host keys, a deadline on everything, and answers instead of exceptions."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import asyncssh
from pydantic import JsonValue

from components.hosts.pack import LOADER, packed
from components.hosts.program.places import DEADLINE_S, LOCK_WAIT_S
from components.hosts.records import Endpoint

T = TypeVar("T")

AT_ONCE = 64
"""Hosts that are talked to at the same time."""
CONNECT_S = 10
SPARE_S = LOCK_WAIT_S
"""The host's own bounds come first, so that its answer tells what took so long."""
SENT = "exec sudo -n python3 -I -c "


class NoAnswerError(Exception):
    """A host that could not be asked; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What the host program printed."""

    host: str
    changed: list[str] = field(default_factory=list)
    needs_reboot: list[str] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)
    fields: dict[str, JsonValue] = field(default_factory=dict)
    failed: dict[str, str] | None = None


class Hosts:
    """Calls to hosts with one key (None: the ssh-agent's), so many at once, each over a connection of its own."""

    def __init__(self, private_key: str | None) -> None:
        self._keys = [asyncssh.import_private_key(private_key)] if private_key else None
        self._places = asyncio.Semaphore(AT_ONCE)

    async def call(self, endpoint: Endpoint, verb: str, document: Mapping[str, JsonValue]) -> Report:
        """Runs a verb of the host program. A connection that breaks is tried once more: each verb may run twice.

        Raises:
            NoAnswerError: when the host cannot be asked.
        """
        command = f'{SENT}"{LOADER}" {len(packed())} {verb}'
        sent = packed() + json.dumps(document).encode()
        deadline_s = document.get("deadline_s", DEADLINE_S)
        answer_s = (deadline_s if isinstance(deadline_s, int) else DEADLINE_S) + SPARE_S
        try:
            out = await self.run(endpoint, command, sent, answer_s)
        except _BrokenError:
            await asyncio.sleep(1)
            out = await self.run(endpoint, command, sent, answer_s)
        try:
            found = json.loads(out.strip().splitlines()[-1])
            found.pop("schema")
            return Report(**found)
        except (IndexError, ValueError, TypeError, KeyError, AttributeError):
            raise NoAnswerError(f"answers {out.strip()[-200:]!r} instead of a report") from None

    async def run(self, endpoint: Endpoint, command: str, sent: bytes = b"", answer_s: float = DEADLINE_S) -> str:
        """Runs a command to its end; its stdout.

        Raises:
            NoAnswerError: when the host cannot be asked, or the command fails.
        """
        where = f"{endpoint.address}:{endpoint.port}"
        async with self._places:
            try:
                async with asyncio.timeout(answer_s), await self._connect(endpoint) as connection:
                    # an empty input would leave the other side's stdin open
                    given = {"input": sent} if sent else {"stdin": asyncssh.DEVNULL}
                    done = await connection.run(command, encoding=None, **given)
            except asyncssh.HostKeyNotVerifiable:
                raise NoAnswerError(f"{where} has another host key than known_hosts: nothing was sent") from None
            except asyncssh.PermissionDenied:
                raise NoAnswerError(f"{where} refuses the login of {endpoint.user}") from None
            except TimeoutError:
                raise NoAnswerError(f"{where} gave no answer in time") from None
            except (OSError, asyncssh.Error) as error:
                raise _BrokenError(f"{where}: {str(error) or type(error).__name__}") from None
        if done.exit_status:
            said = " / ".join(_text(done.stderr).strip().splitlines()[-2:])
            raise NoAnswerError(f"{where}: the command ended with {done.exit_status}: {said[:300]}")
        if done.exit_status is None:
            raise _BrokenError(f"{where}: the connection ended in the middle")
        return _text(done.stdout)

    async def _connect(self, endpoint: Endpoint) -> asyncssh.SSHClientConnection:
        label = endpoint.address if endpoint.port == 22 else f"[{endpoint.address}]:{endpoint.port}"
        return await asyncssh.connect(
            endpoint.address,
            endpoint.port,
            username=endpoint.user,
            client_keys=self._keys or (),
            agent_path=None if self._keys else (),
            known_hosts=asyncssh.import_known_hosts(f"{label} {endpoint.host_key}\n"),
            config=None,
            preferred_auth="publickey",
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=15,
            keepalive_count_max=4,
        )


def _text(printed: object) -> str:
    return printed.decode(errors="replace") if isinstance(printed, bytes) else ""


class _BrokenError(NoAnswerError):
    """A connection that failed or broke: worth a second try."""


async def answers(address: str, port: int, timeout_s: float) -> bool:
    """Whether an SSH server greets there; nothing is sent."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address, port)
            try:
                return (await reader.read(4)) == b"SSH-"
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def each(names: Mapping[str, T], act: Callable[[str, T], Awaitable[None]]) -> None:
    """Does something with all hosts at once."""
    await asyncio.gather(*(act(name, value) for name, value in names.items()))

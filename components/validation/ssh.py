"""Sessions on the hosts: pinned host keys, deadlines on everything, nothing left running when a session closes."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address

import asyncssh

from stacks.base import LabError

CONNECT_S = 10
KEEPALIVE_S = 5
LARGEST_OUTPUT = 1_000_000
"""Characters kept of one stream: far above what any test prints, so a host gone mad fills no memory."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """How to get into the nodes."""

    user: str
    private_key: str | None
    """Text of the key; None: the running ssh-agent has it."""
    endpoints: Mapping[str, tuple[IPv4Address, int]]
    host_keys: Mapping[str, str]
    """`ssh-ed25519 AAAA…` by node; no other key is ever accepted."""

    def __repr__(self) -> str:
        return f"Login(user={self.user!r})"  # the key stays out of every log and traceback


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """How a remote program ended."""

    code: int | None
    """None: killed by a signal, or the connection broke."""
    out: str
    err: str


@asynccontextmanager
async def connected(login: Login, node: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A connection to a node.

    Raises:
        LabError: when the node does not answer, or is not the one that it should be.
    """
    address, port = login.endpoints[node]
    where = f"{node} ({address}:{port})"
    label = str(address) if port == 22 else f"[{address}]:{port}"
    keys = [asyncssh.import_private_key(login.private_key)] if login.private_key else ()
    try:
        connection = await asyncssh.connect(
            str(address),
            port,
            username=login.user,
            client_keys=keys,
            agent_path=None if keys else (),
            known_hosts=asyncssh.import_known_hosts(f"{label} {login.host_keys[node]}\n"),
            config=None,
            preferred_auth="publickey",
            connect_timeout=CONNECT_S,
            login_timeout=CONNECT_S,
            keepalive_interval=KEEPALIVE_S,
            keepalive_count_max=3,
        )
    except asyncssh.HostKeyNotVerifiable:
        raise LabError(f"{where} has another host key than access.known_hosts_file: nothing was sent") from None
    except asyncssh.PermissionDenied:
        raise LabError(f"{where} refuses the login of {login.user}") from None
    except (OSError, asyncssh.Error, TimeoutError) as error:
        raise LabError(f"{where} does not answer over SSH: {_short(error)}") from None
    try:
        yield connection
    finally:
        connection.abort()  # at once: the remote ends of all sessions see their input close


class Session:
    """One running remote program. Leaving the block closes its input, which ends it there."""

    def __init__(self, process: asyncssh.SSHClientProcess[str]) -> None:
        self._process = process
        self._early: list[str] = []

    async def until(self, marker: str, timeout_s: float) -> bool:
        """Waits for a line on stderr; false when the program ended before it printed that."""
        async with asyncio.timeout(timeout_s):
            async for line in self._process.stderr:
                if line.strip() == marker:
                    return True
                self._early.append(line)
        return False

    async def first_line(self, timeout_s: float) -> str:
        """The first line of output; empty when the program ended without one."""
        async with asyncio.timeout(timeout_s):
            return (await self._process.stdout.readline()).strip()

    async def done(self, timeout_s: float) -> Done:
        """Waits for the end."""
        async with asyncio.timeout(timeout_s):
            out, err = await asyncio.gather(_all(self._process.stdout), _all(self._process.stderr))
            await self._process.wait_closed()
        return Done(code=self._process.exit_status, out=out, err="".join(self._early) + err)


@asynccontextmanager
async def session(connection: asyncssh.SSHClientConnection, command: str) -> AsyncIterator[Session]:
    """Starts a remote program.

    Raises:
        LabError: when the connection broke meanwhile.
    """
    try:
        async with asyncio.timeout(CONNECT_S):
            process = await connection.create_process(command, encoding="utf-8", errors="replace")
    except (OSError, asyncssh.Error) as error:
        raise LabError(f"no session: {_short(error)}") from None
    try:
        yield Session(process)
    except TimeoutError:
        raise  # an OSError too, but whoever set the time knows what it means
    except (OSError, asyncssh.Error) as error:
        raise LabError(f"the connection broke: {_short(error)}") from None
    finally:
        process.close()


async def run(connection: asyncssh.SSHClientConnection, command: str, timeout_s: float) -> Done:
    """Runs a remote program to its end.

    Raises:
        LabError: when the connection broke or time is over.
    """
    try:
        async with session(connection, command) as started:
            return await started.done(timeout_s)
    except TimeoutError:
        raise LabError(f"no answer within {timeout_s:.0f} s") from None


async def _all(reader: asyncssh.SSHReader[str]) -> str:
    kept: list[str] = []
    size = 0
    while text := await reader.read(65_536):
        size += len(text)
        if size <= LARGEST_OUTPUT:
            kept.append(text)
    return "".join(kept)


def _short(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:160]

"""Programs on a host over an open connection, each with a deadline. Nothing keeps running after a
session.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from components.ssh.connection import LOGIN_S, BrokenError, Connection, NoAnswerError, in_short
from stacks.frozen import frozen

if TYPE_CHECKING:
    import asyncssh

LARGEST_OUTPUT = 1_000_000
"""Characters kept of one stream: far more than any test prints, but a faulty host cannot fill the
memory."""
LARGEST_ANSWER_BYTES = 4_000_000
"""The most that a host may print for a look or a recording."""


@frozen
class CommandResult:
    """How a remote program ended."""

    code: int | None
    """None: killed by a signal, or the connection broke."""
    out: str
    err: str
    left_out: int = 0
    """Characters of the output beyond the limit, which are not in `out`."""


class Session:
    """One running remote program. Leaving the block closes its input, which ends it there."""

    def __init__(self, process: "asyncssh.SSHClientProcess[str]") -> None:
        self._process = process
        self._early: list[str] = []

    async def until(self, marker: str, timeout_s: float) -> bool:
        """Waits for a line on stderr; False when the program ends before it prints the line."""
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

    async def done(self, timeout_s: float, most: int = LARGEST_OUTPUT) -> CommandResult:
        async with asyncio.timeout(timeout_s):
            (out, left_out), (err, _) = await asyncio.gather(
                _all(self._process.stdout, most), _all(self._process.stderr, LARGEST_OUTPUT)
            )
            await self._process.wait_closed()
        err = "".join(self._early) + err
        return CommandResult(code=self._process.exit_status, out=out, err=err, left_out=left_out)


class Pool:
    """The connections to one host, for any number of programs at once.

    sshd limits the sessions per connection (MaxSessions in sshd_config(5), 10 by default), and only
    root can read the limit. So a refused session opens the next connection.
    """

    def __init__(self, first: Connection, connect: Callable[[], Awaitable[Connection]]) -> None:
        self._connections = [first]
        self._connect = connect
        self._started = 0
        self._opening = asyncio.Lock()

    async def create_process(
        self, command: str, **options: Any
    ) -> "asyncssh.SSHClientProcess[str]":
        """As the method of a connection."""
        process = await self._on_open_connection(command, options)
        if process is not None:
            return process
        async with self._opening:
            # another program may have opened a connection meanwhile
            process = await self._on_open_connection(command, options)
            if process is None:
                connection = await self._connect()
                process = await connection.create_process(command, **options)
                self._connections.append(connection)
            return process

    @asynccontextmanager
    async def answering(
        self, path: str, answer: Callable[[bytes], Awaitable[bytes]]
    ) -> AsyncIterator[None]:
        """Within the block, answers a line that a program on the host writes to a socket file."""

        async def handle(
            reader: "asyncssh.SSHReader[bytes]", writer: "asyncssh.SSHWriter[bytes]"
        ) -> None:
            writer.write(await answer(await reader.readline()))
            writer.close()

        listener = await self._connections[0].start_unix_server(lambda: handle, path)
        try:
            yield
        finally:
            listener.close()

    async def _on_open_connection(
        self, command: str, options: dict[str, Any]
    ) -> "asyncssh.SSHClientProcess[str] | None":
        """The program on a connection with room for it; each is the first choice in its turn."""
        import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

        self._started += 1
        first = self._started % len(self._connections)
        for connection in [*self._connections[first:], *self._connections[:first]]:
            try:
                return await connection.create_process(command, **options)
            except asyncssh.ChannelOpenError:
                if connection.is_closed():
                    raise  # the host is gone, and with it the lease of the run
        return None


@asynccontextmanager
async def session(connection: "Connection | Pool", command: str) -> AsyncIterator[Session]:
    """Starts a remote program.

    Raises:
        BrokenError: when the connection broke meanwhile.
    """
    import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

    try:
        async with asyncio.timeout(LOGIN_S):
            process = await connection.create_process(command, encoding="utf-8", errors="replace")
    except (OSError, asyncssh.Error) as error:
        raise BrokenError(f"no session: {in_short(error)}") from None
    try:
        with broken_in_words():
            yield Session(process)
    finally:
        process.close()


@contextmanager
def broken_in_words() -> Iterator[None]:
    """Raises a `BrokenError` for a connection that broke."""
    import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

    try:
        yield
    except TimeoutError:
        raise  # an OSError too, but the caller set the time and handles it
    except (OSError, asyncssh.Error) as error:
        raise BrokenError(f"the connection broke: {in_short(error)}") from None


async def run(
    connection: "Connection | Pool", command: str, timeout_s: float, most: int = LARGEST_OUTPUT
) -> CommandResult:
    """Runs a remote program to its end, and keeps that many characters of its output.

    Raises:
        NoAnswerError: when the connection broke or the time is over.
    """
    try:
        async with session(connection, command) as started:
            return await started.done(timeout_s, most)
    except TimeoutError:
        raise NoAnswerError(f"no answer within {timeout_s:.0f} s") from None


async def feed(connection: "Connection | Pool", command: str, sent: bytes) -> CommandResult:
    """Runs a remote program that reads these bytes and then the end of its input.

    Raises:
        BrokenError: when the connection broke meanwhile.
    """
    import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

    # an empty input would leave the other side's stdin open
    given = {"input": sent} if sent else {"stdin": asyncssh.DEVNULL}
    with broken_in_words():
        process = await connection.create_process(command, encoding=None, **given)
        try:
            done = await process.wait()
        finally:
            process.close()
    return CommandResult(code=done.exit_status, out=_text(done.stdout), err=_text(done.stderr))


async def first_answer(
    connection: Connection,
    command: str,
    sent: bytes,
    *,
    start_s: float,
    answer_s: float,
) -> str:
    """What a remote program prints, stderr too, up to the end of its first line with a brace.

    It does not wait for the program's end, which may never come.

    Args:
        connection: an open one.
        command: starts the program.
        sent: what the program reads.
        start_s: how long the program may take to print its first byte.
        answer_s: how long the rest may take from there.

    Raises:
        NoAnswerError: when it takes longer, or prints more than LARGEST_ANSWER_BYTES.
        BrokenError: when the connection broke meanwhile.
    """
    import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

    with broken_in_words():
        try:
            async with asyncio.timeout(start_s):
                process = await connection.create_process(
                    command, encoding=None, stderr=asyncssh.STDOUT
                )
                process.stdin.write(sent)
                process.stdin.write_eof()
                kept = bytearray(await process.stdout.read(65_536))
        except TimeoutError:
            raise NoAnswerError(f"it did not answer within {start_s:.0f} s") from None
        try:
            async with asyncio.timeout(answer_s):
                while not _ends_with_an_answer(kept):
                    part = await process.stdout.read(65_536)
                    if not part:
                        break
                    kept += part
                    if len(kept) > LARGEST_ANSWER_BYTES:
                        raise NoAnswerError(f"it prints more than {LARGEST_ANSWER_BYTES} bytes")
        except TimeoutError:
            raise NoAnswerError(f"its answer did not end within {answer_s:.0f} s") from None
    return kept.decode(errors="replace")


def _ends_with_an_answer(printed: bytearray) -> bool:
    if not printed.endswith(b"\n"):
        return False
    return printed.startswith(b"{") or b"\n{" in printed


async def _all(reader: "asyncssh.SSHReader[str]", most: int) -> tuple[str, int]:
    """The first characters of a stream, and the number of those that are left out."""
    kept: list[str] = []
    size = 0
    while text := await reader.read(65_536):
        kept += [text[: most - size]] if size < most else []
        size += len(text)
    return "".join(kept), max(0, size - most)


def _text(printed: object) -> str:
    if isinstance(printed, bytes):
        return printed.decode(errors="replace")
    return ""

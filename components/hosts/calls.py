"""Runs the host program over SSH, each call within a deadline."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TypeVar

from pydantic import JsonValue

from components.hosts.pack import digest, on_stdin, read_as_root, started
from components.hosts.program.places import DEADLINE_S, LOCK_WAIT_S, PROBE_S, SCHEMA, copy_of
from components.ssh.connection import BrokenError, Endpoint, NoAnswerError, connected, keys_of
from components.ssh.session import CommandResult, feed
from stacks.frozen import frozen
from stacks.hosts import HostPolicy

T = TypeVar("T")

AT_ONCE = 64
"""Connections at the same time."""
SPARE_S = LOCK_WAIT_S
"""More than the host's own deadline, so its answer can name the step that took too long."""
ANNOUNCE_S = 30.0
"""How often a long wait is announced."""


Say = Callable[[str], None]


def _silent(_: str) -> None:
    pass


class StuckError(NoAnswerError):
    """A host whose SSH answers, but whose command does not end."""


@asynccontextmanager
async def announced(what: Callable[[], str], say: Say) -> AsyncIterator[None]:
    """Announces at intervals what the block waits for."""
    begun_s = time.monotonic()

    async def announce() -> None:
        while True:
            await asyncio.sleep(ANNOUNCE_S)
            say(f"{what()}, for {time.monotonic() - begun_s:.0f} s now")

    task = asyncio.create_task(announce())
    try:
        yield
    finally:
        task.cancel()


@frozen
class Report:
    """What the host program printed."""

    host: str
    changed: list[str] = field(default_factory=list)
    needs_reboot: list[str] = field(default_factory=list)
    facts: dict[str, JsonValue] = field(default_factory=dict)
    fields: dict[str, JsonValue] = field(default_factory=dict)
    failed: dict[str, str] | None = None


class HostCalls:
    """Calls hosts with one private key (None: the ssh-agent's keys), each call over its own
    connection.
    """

    def __init__(self, private_key: str | None, say: Say = _silent) -> None:
        self._keys = keys_of(private_key)
        self._say = say
        self._places = asyncio.Semaphore(AT_ONCE)

    async def call(
        self,
        endpoint: Endpoint,
        verb: str,
        document: Mapping[str, JsonValue],
        *,
        copied: bool = False,
    ) -> Report:
        """Runs a verb of the host program, once more if the connection breaks: each may run twice.

        Args:
            endpoint: the host.
            verb: of the program.
            document: its input.
            copied: whether to run the copy that this run has delivered, instead of sending the
                program.

        Raises:
            NoAnswerError: when the host cannot be reached.
            StuckError: when it can, and the verb does not end in its time.
        """
        command, sent = command_of(verb), on_stdin(json.dumps(document))
        if copied:
            command, sent = start_command(verb), json.dumps(document).encode()
        deadline_s = document.get("deadline_s", DEADLINE_S)
        if verb == "probe" or not isinstance(deadline_s, int):
            deadline_s = PROBE_S if verb in ("probe", "plan") else DEADLINE_S
        answer_s = deadline_s + SPARE_S
        what = f"{document.get('host') or endpoint.place}: waiting for {verb} to end"
        async with announced(lambda: what, self._say):
            try:
                out = await self.run(endpoint, command, sent, answer_s)
            except BrokenError:
                await asyncio.sleep(1)
                out = await self.run(endpoint, command, sent, answer_s)
        return parse_report(out)

    async def run(
        self, endpoint: Endpoint, command: str, sent: bytes = b"", answer_s: float = DEADLINE_S
    ) -> str:
        """Runs a command to its end and returns its stdout.

        Raises:
            NoAnswerError: when the host cannot be reached, or the command fails.
        """
        return (await self.run_all(endpoint, {command: sent}, answer_s))[0]

    async def run_all(
        self, endpoint: Endpoint, inputs: Mapping[str, bytes], answer_s: float
    ) -> list[str]:
        """Runs commands in turn over one connection, each with its input; the stdout of each.

        Raises:
            NoAnswerError: when the host cannot be reached, or a command fails.
        """
        async with self._places:
            try:
                async with asyncio.timeout(answer_s), connected(endpoint, self._keys) as connection:
                    printed = []
                    for command, sent in inputs.items():
                        done = await feed(connection, command, sent)
                        printed.append(_printed(endpoint, done))
                    return printed
            except TimeoutError:
                raise StuckError(
                    f"{endpoint.place} gave no answer within {answer_s:.0f} s"
                ) from None


@frozen
class Crew:
    """How hosts are called, what the lab allows, and where progress goes."""

    hosts: HostCalls
    policy: HostPolicy
    say: Say


def start_command(verb: str = "apply") -> str:
    """Starts the copied program if it is the one that was sent; otherwise prints a report with that
    failure.
    """
    copy = copy_of(digest())
    failed = {
        "step": "program",
        "reason": f"~/{copy} is missing or not the one that was sent",
        "hint": "pulumi up --refresh repairs it",
    }
    report = json.dumps({"schema": SCHEMA, "host": "", "failed": failed})
    return (
        f'cd "$HOME" && if echo "{digest()}  {copy}" | sha256sum --check --status; then\n'
        f"  exec sudo -n python3 -I {copy} {verb}\n"
        f"fi\n"
        f"echo '{report}'"
    )


def command_of(verb: str) -> str:
    """The command of a call."""
    if verb == "plan":  # also for logins that may only read
        # sudo -n reads no stdin where it refuses, so the second command gets all of it
        return f"{read_as_root(verb)} && exit; exec sudo -n {started(verb)}"
    return f"exec sudo -n {started(verb)}"


def _printed(endpoint: Endpoint, done: CommandResult) -> str:
    if done.code is None:
        raise BrokenError(f"{endpoint.place}: the connection broke mid-command")
    if done.code:
        last = " / ".join(done.err.strip().splitlines()[-2:])
        raise NoAnswerError(f"{endpoint.place}: the command exited with {done.code}: {last[:300]}")
    return done.out


def parse_report(out: str) -> Report:
    """The report in the last line of a host's answer.

    Raises:
        NoAnswerError: when that line is not a report.
    """
    try:
        fields = json.loads(out.strip().splitlines()[-1])
        fields.pop("schema")
        return Report(**fields)
    except (IndexError, ValueError, TypeError, KeyError, AttributeError):
        raise NoAnswerError(f"printed {out.strip()[-200:]!r}, not a report") from None


async def each(names: Mapping[str, T], act: Callable[[str, T], Awaitable[None]]) -> None:
    """Acts on all hosts at once."""
    await asyncio.gather(*(act(name, value) for name, value in names.items()))

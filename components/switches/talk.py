"""Commands to a switch over SSH: a deadline on each, and a refusal that names its command."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from components.ssh.connection import BrokenError, Connection, Endpoint, Keys, connected
from components.ssh.session import run
from components.ssh.terminal import Terminal, terminal
from components.switches.dialect import AnswerError, ConfigSession, RefusedError

ANSWER_S = 60.0
"""For one command; a running configuration of a large switch takes seconds."""
LARGEST_ANSWER = 20_000_000
"""Characters of one answer. It has room for all tables of a large SONiC switch; beyond it, a backup
would be cut."""
REFUSAL_LINES = 5
"""A refusal is in one of an answer's first lines, such as one that points at the wrong word.
Further down, a configuration may quote any text: the lines of a login banner, for example."""


class Talk(Protocol):
    """One open connection to a switch."""

    async def ask(self, command: str) -> str:
        """Sends a command and returns what the switch prints.

        Raises:
            RefusedError: when the switch refuses it.
            AnswerError: when the answer is too large to read.
            NoAnswerError: when the switch does not answer.
        """


class Cli:
    """The interactive command line of a switch."""

    def __init__(self, opened: Terminal, refusal: re.Pattern[str]) -> None:
        self._terminal = opened
        self._refusal = refusal

    async def ask(self, command: str) -> str:
        answer = await self._terminal.ask(command)
        printed = [line for line in answer.splitlines() if line.strip()]
        if refusal := self._refusal.search("\n".join(printed[:REFUSAL_LINES])):
            raise RefusedError(f"the switch refuses `{command}`: {refusal[1].strip()}")
        return answer


class Shell:
    """A switch whose accounts have a shell: each command is a program with an exit code."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, command: str) -> str:
        done = await run(self._connection, command, ANSWER_S, LARGEST_ANSWER)
        if done.code is None:
            raise BrokenError(f"the connection broke at `{command}`")
        if done.code:
            printed = " / ".join((done.err or done.out).strip().splitlines()[-2:])
            raise RefusedError(f"the switch refuses `{command}` ({done.code}): {printed[:200]}")
        if done.left_out:
            raise AnswerError(
                f"`{command}`: the switch prints {len(done.out) + done.left_out} characters, and "
                f"rocelab reads at most {LARGEST_ANSWER}. Set switches[].apply: false and apply "
                "the output of `rocelab switches` by hand"
            )
        return done.out


@asynccontextmanager
async def talking(
    endpoint: Endpoint, keys: Keys, name: str, session: ConfigSession
) -> AsyncIterator[Talk]:
    """A connection to a switch, after its greeting.

    Raises:
        NoAnswerError: when it does not answer, or has another key than the one that is pinned.
    """
    async with connected(endpoint, keys, name=name) as connection:
        if session.talk == "shell":
            yield Shell(connection)
            return
        async with terminal(connection, ANSWER_S) as opened:
            cli = Cli(opened, session.refusal)
            for command in session.hello:
                await cli.ask(command)
            yield cli

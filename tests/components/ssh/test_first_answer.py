"""The first answer of a remote program, and how long it may take."""

import asyncio
from typing import Any

import asyncssh
import pytest

from components.ssh.connection import NoAnswerError, connected
from components.ssh.session import first_answer
from tests.components.ssh.server import USER_KEY, Serve, endpoint, server
from tests.messages import states

START_S = 1.0


def answer_of(serve: Serve, answer_s: float) -> str:
    async def asked() -> str:
        async with server(serve) as port, connected(endpoint(port), [USER_KEY]) as connection:
            return await first_answer(connection, "look", b"", start_s=START_S, answer_s=answer_s)

    return asyncio.run(asked())


def test_a_host_that_has_begun_to_answer_gets_the_time_that_it_needs() -> None:
    async def slow(process: asyncssh.SSHServerProcess[Any]) -> None:
        process.stdout.write(b"\n")
        await asyncio.sleep(START_S + 0.5)
        process.stdout.write(b'{"schema": 1}\n')
        process.exit(0)

    assert answer_of(slow, answer_s=30).strip() == '{"schema": 1}'


def test_an_answer_that_does_not_end_is_given_up() -> None:
    async def hanging(process: asyncssh.SSHServerProcess[Any]) -> None:
        process.stdout.write(b"\n")
        await asyncio.sleep(30)

    with pytest.raises(NoAnswerError) as raised:
        answer_of(hanging, answer_s=1.0)

    assert states(str(raised.value), "did not end", "1 s")

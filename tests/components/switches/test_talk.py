"""Answers of a switch whose accounts have a shell: read to their end, or refused as a whole."""

import asyncio

import asyncssh
import pytest

from components.switches import talk
from components.switches.dialect import AnswerError, ConfigSession
from tests.components.ssh.server import USER_KEY, endpoint, server
from tests.messages import stating

LINE = '"Ethernet0|3": {"scheduler": "scheduler.1"},\n'


def answer(lines: int) -> str:
    def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        process.stdout.write(LINE.encode() * lines)
        process.exit(0)

    async def ask() -> str:
        async with (
            server(serve) as port,
            talk.talking(endpoint(port), [USER_KEY], "sw1", ConfigSession(talk="shell")) as shell,
        ):
            return await shell.ask("show it")

    return asyncio.run(ask())


def test_a_configuration_of_three_megabytes_is_read_to_its_end() -> None:
    assert answer(3_000_000 // len(LINE)) == LINE * (3_000_000 // len(LINE))


def test_an_answer_beyond_the_limit_is_an_error_with_its_size_and_no_shorter_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(LINE) * 2000
    monkeypatch.setattr(talk, "LARGEST_ANSWER", size)
    assert len(answer(2000)) == size

    monkeypatch.setattr(talk, "LARGEST_ANSWER", size - 1)
    with pytest.raises(AnswerError, check=stating("`show it`", size, size - 1, "switches[].apply: false")):
        answer(2000)

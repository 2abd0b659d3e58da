"""Reading an interactive session: whatever way the device's words come in pieces, an answer ends at its own prompt."""

import asyncio

import pytest

from components.ssh.connection import BrokenError, NoAnswerError
from components.ssh.terminal import Terminal
from tests.messages import stating

PROMPT = "sw-1 [standalone: master] # "


class Process:
    """A device that says these pieces, one a read."""

    def __init__(self, *pieces: str) -> None:
        self.pieces = list(pieces)
        self.given: list[str] = []
        self.stdin = self
        self.stdout = self

    def write(self, text: str) -> None:
        self.given.append(text)

    async def read(self, _: int) -> str:
        if not self.pieces:
            await asyncio.sleep(60)
        return self.pieces.pop(0)


def answer(*pieces: str) -> str:
    async def talk() -> str:
        opened = Terminal(Process(f"Welcome > here\r\n{PROMPT}", *pieces), 0.2)  # type: ignore[arg-type]
        await opened.greet()
        return await opened.ask("show it")

    return asyncio.run(talk())


def test_the_echo_and_the_prompt_are_no_part_of_the_answer() -> None:
    assert answer(f"show it\r\none\r\ntwo\r\n{PROMPT}") == "one\ntwo"


def test_an_answer_may_come_in_any_pieces() -> None:
    text = f"show it\r\none\r\ntwo\r\n{PROMPT}"

    assert answer(*text) == "one\ntwo"


def test_a_line_that_looks_like_a_prompt_is_not_one_unless_it_has_the_devices_name() -> None:
    assert answer("show it\r\nother-switch # ", f"is quoted here\r\n{PROMPT}") == "other-switch # is quoted here"


def test_a_login_message_that_ends_like_a_prompt_is_none() -> None:
    async def talk() -> str:
        process = Process("Welcome to rack 7 #\r\n", PROMPT, f"show it\r\none\r\n{PROMPT}")
        opened = Terminal(process, 0.2)  # type: ignore[arg-type]
        await opened.greet()
        return await opened.ask("show it")

    assert asyncio.run(talk()) == "one"


def test_the_mode_in_a_prompt_may_change() -> None:
    assert answer("show it\r\nsw-1 [standalone: master] (config) # ") == ""
    assert answer("show it\r\nx\r\nsw-1(config-s-lab)#") == "x"


def test_what_a_terminal_draws_is_left_out() -> None:
    assert answer(f"\x1b[2Kshow it\r\n\x1b[1mone\x1b[0m\r\n\x1b=\x1b[?1h{PROMPT}") == "one"


def test_a_device_that_stops_talking_is_an_error_that_names_the_command() -> None:
    with pytest.raises(NoAnswerError, check=stating("0 s", "`show it`", repr("show it\none\n"))):
        answer("show it\r\none\r\n")


def test_a_closed_session_is_an_error() -> None:
    with pytest.raises(BrokenError, check=stating("`show it`")):
        answer("show it\r\n", "")

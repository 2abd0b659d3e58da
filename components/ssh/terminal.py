"""The interactive session of a device whose accounts have no shell.

Such accounts refuse a command that is sent with the connection, so rocelab uses the terminal.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from components.ssh.connection import BrokenError, Connection, NoAnswerError, in_short

if TYPE_CHECKING:
    import asyncssh

PROMPT = re.compile(r"(?:^|\n)([A-Za-z0-9][\w.-]{0,62})[^\n]{0,120}?[>#] ?\Z")
"""`sw1 [standalone: master] (config) # ` of Onyx, `sw1(config-s-name)#` of EOS: name, anything,
then > or #, and no end of the line, which a message such as `Welcome to rack 7 #` has."""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x07")
COLUMNS, LINES = 500, 1000
"""Of the terminal: so large that no command is broken into lines."""


class Terminal:
    """One open session; the name in its first prompt distinguishes later prompts from answers that
    look like one.
    """

    def __init__(self, process: "asyncssh.SSHClientProcess[str]", answer_s: float) -> None:
        self._process = process
        self._answer_s = answer_s
        self._name: str | None = None

    async def greet(self) -> None:
        await self._until_prompt("login")

    async def ask(self, command: str) -> str:
        """Sends a command; returns what the device prints before its next prompt, without the echo.

        Raises:
            NoAnswerError: when no prompt comes in time, or the connection breaks.
        """
        self._process.stdin.write(command + "\n")
        text = await self._until_prompt(command)
        first, _, rest = text.partition("\n")
        return rest if command in first else text

    async def _until_prompt(self, command: str) -> str:
        import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

        text = ""
        try:
            async with asyncio.timeout(self._answer_s):
                while True:
                    read = await self._process.stdout.read(65_536)
                    if not read:
                        raise BrokenError(f"the session was closed at `{command}`")
                    text = ESCAPES.sub("", text + read).replace("\r", "")
                    if end := self._prompt(text):
                        return text[: end.start()]
        except TimeoutError:
            raise NoAnswerError(
                f"no prompt within {self._answer_s:.0f} s of `{command}`: {text[-80:]!r}"
            ) from None
        except (OSError, asyncssh.Error) as error:
            raise BrokenError(f"the connection broke at `{command}`: {in_short(error)}") from None

    def _prompt(self, text: str) -> re.Match[str] | None:
        prompt = PROMPT.search(text)
        if prompt and self._name is None:
            self._name = prompt[1]
        if prompt and prompt[1] == self._name:
            return prompt
        return None


@asynccontextmanager
async def terminal(connection: Connection, answer_s: float) -> AsyncIterator[Terminal]:
    """A session after its first prompt.

    Raises:
        NoAnswerError: when the device gives no terminal, or no prompt.
    """
    import asyncssh  # noqa: PLC0415  # loaded by the connection anyway

    try:
        process = await connection.create_process(
            term_type="dumb", term_size=(COLUMNS, LINES), encoding="utf-8", errors="replace"
        )
    except (OSError, asyncssh.Error) as error:
        raise BrokenError(f"no terminal: {in_short(error)}") from None
    try:
        opened = Terminal(process, answer_s)
        await opened.greet()
        yield opened
    finally:
        process.close()

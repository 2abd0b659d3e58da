"""Messages for the person who runs Pulumi; the engine shows them beside the resource."""

import sys
from collections.abc import Callable
from contextvars import ContextVar

URN: ContextVar[str] = ContextVar("URN", default="")
"""The resource that the current operation works on."""


def _print(severity: str, message: str, _urn: str) -> None:
    sys.stderr.write(f"{severity}: {message}\n")


send: Callable[[str, str, str], None] = _print
"""Takes severity, message and URN: to the engine in the provider, else to stderr."""


def info(message: str) -> None:
    send("info", message, URN.get())


def warn(message: str) -> None:
    send("warning", message, URN.get())

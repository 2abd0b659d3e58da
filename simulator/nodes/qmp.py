"""QEMU's monitor: one question, one answer, over a unix socket in the node's folder."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from simulator.part import SimulatorError

SOCKET = "monitor.sock"
_TIMEOUT_S = 120
"""A snapshot is written in under a second; a machine busy with other work has taken twenty."""


def ask(folder: Path, execute: str, **arguments: object) -> object:
    """Gives QEMU one command and returns what it answers.

    Raises:
        SimulatorError: when QEMU refuses the command, does not listen, or ends while it is at it.
    """
    try:
        with _connect(folder) as connection, connection.makefile("r") as lines:
            # QEMU greets first, and takes commands only after its capabilities were agreed upon
            _send(connection, "qmp_capabilities", {})
            _send(connection, execute, arguments)
            answers = _answers(json.loads(line) for line in lines)
            next(answers)
            return next(answers)
    except StopIteration:
        raise SimulatorError(f"{folder.name}: QEMU ended during {execute}") from None
    except (OSError, ValueError) as error:
        raise SimulatorError(f"{folder.name}: no answer from QEMU's monitor to {execute}: {error}") from error


def human(folder: Path, command: str) -> None:
    """Gives QEMU a command of its human monitor, which prints nothing when all went well."""
    if complaint := ask(folder, "human-monitor-command", **{"command-line": command}):
        raise SimulatorError(f"{folder.name}: {command}: {str(complaint).strip()}")


def _connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_TIMEOUT_S)
    # a socket's path holds 107 bytes at most; this one is short wherever the checkout lies
    directory = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection


def _send(connection: socket.socket, execute: str, arguments: dict[str, object]) -> None:
    connection.sendall(json.dumps({"execute": execute, "arguments": arguments}).encode() + b"\n")


def _answers(said: Iterator[dict[str, object]]) -> Iterator[object]:
    """The answers among greeting and events."""
    for message in said:
        if "error" in message:
            raise ValueError(str(message["error"]))
        if "return" in message:
            yield message["return"]

"""QEMU's monitor: one command and its answer over a unix socket in the node's folder."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from simulator.part import SimulatorError

SOCKET = "monitor.sock"
_TIMEOUT_S = 120
"""Writing a snapshot takes under a second, but took 20 s on a busy machine."""


def ask(folder: Path, execute: str, **arguments: object) -> object:
    """Sends QEMU a command and returns its answer.

    Raises:
        SimulatorError: if QEMU refuses the command, does not listen, or ends during it.
    """
    try:
        with _connect(folder) as connection, connection.makefile("r") as lines:
            # QEMU sends a greeting, and accepts commands only after capabilities are negotiated
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
    """Sends a command to QEMU's human monitor, which prints nothing on success."""
    if complaint := ask(folder, "human-monitor-command", **{"command-line": command}):
        raise SimulatorError(f"{folder.name}: {command}: {str(complaint).strip()}")


def _connect(folder: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_TIMEOUT_S)
    # a socket's path has at most 107 bytes; this one is short in any checkout
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

"""A machine that cannot be changed: reads and programs with a bound on their time and their
size.
"""

import os
import signal
import subprocess
import threading
from typing import IO, Dict, List, Set, Union, cast

from ..machine import MISSING, Done, Machine

LARGEST_FILE = 1_000_000
PART_BYTES = 16_384
"""A buffer of LARGEST_FILE for each of a thousand small files would cost most of their time."""
LARGEST_OUTPUT = 2_000_000
"""Bytes of a program's output; a program that prints more is killed, and its output is
discarded."""
PROGRAM_S = 10.0
PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/mellanox/iproute2/sbin"
TOO_LONG, TOO_MUCH = 124, 125
LOADS_A_MODULE = {"nvidia-smi": "/proc/driver/nvidia/version", "rdma": "/sys/module/ib_core"}
"""Programs whose start loads a kernel module, each with what is there once that module is
loaded."""


class ReadOnly(Machine):
    """Refuses every change of the host, and bounds the time of every program."""

    def __init__(self, root: str = "", path: str = PATH, program_s: float = PROGRAM_S) -> None:
        super().__init__(root)
        self._environment = {"PATH": path, "LC_ALL": "C", "PYTHONDONTWRITEBYTECODE": "1"}
        self._program_s = program_s
        self._hung: Set[str] = set()
        self._remembered: Dict[str, Done] = {}
        self._guards: Dict[str, threading.Lock] = {}

    def text(self, path: str) -> str:
        """The stripped text of a file."""
        return self.bytes_of(path).decode(errors="replace").strip()

    def content(self, path: str) -> bytes:
        try:
            return self.bytes_of(path)
        except OSError:
            return b""

    def bytes_of(self, path: str) -> bytes:
        """The first bytes of a file. Every read of a file ends here."""
        content = b""
        with open(self.path(path), "rb", buffering=0) as file:
            while len(content) < LARGEST_FILE:
                part = file.read(PART_BYTES)
                if not part:
                    break
                content += part
        return content[:LARGEST_FILE]

    def installed(self, program: str) -> bool:
        """Whether a program is on the path of this machine."""
        folders = self._environment["PATH"].split(":")
        return any(os.access(f"{folder}/{program}", os.X_OK) for folder in folders)

    def once(self, *words: str) -> Done:
        """The answer of a program that reports on the whole host; it runs only once."""
        key = " ".join(words)
        with self._guards.setdefault(key, threading.Lock()):
            if key not in self._remembered:
                self._remembered[key] = self.run(*words)
        return self._remembered[key]

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        """Runs a program that only reads. One that hangs is killed and left, and is not started a
        second time.
        """
        if words[0] in self._hung:
            return Done(TOO_LONG, "", f"{words[0]} hung before on this host")
        loaded = LOADS_A_MODULE.get(words[0])
        if loaded and not self.exists(loaded):
            return Done(MISSING, "", f"{words[0]} was not started: it would load a kernel module")
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # so that its children are killed with it
            )
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            reason = "is not installed" if missing else f"cannot start: {error.strerror}"
            return Done(MISSING, "", f"{words[0]} {reason}")
        return self._ended(process, words[0], min(timeout_s, self._program_s))

    def _ended(self, process: "subprocess.Popen[bytes]", name: str, within_s: float) -> Done:
        out, err = (_Stream(cast(IO[bytes], stream)) for stream in (process.stdout, process.stderr))
        for stream in (out, err):
            stream.start()
        out.join(within_s)
        late = out.is_alive()
        if not late and not out.too_much:
            try:
                process.wait(within_s)
            except subprocess.TimeoutExpired:
                late = True
        if late or out.too_much:
            _kill(process)
            self._hung |= {name} if late else set()
            if late:
                return Done(TOO_LONG, "", f"{name} did not end within {within_s:.0f} s")
            return Done(TOO_MUCH, "", f"{name} printed more than {LARGEST_OUTPUT} bytes")
        err.join(1)
        return Done(process.returncode, out.text(), err.text())

    def write(self, path: str, value: str) -> None:
        raise ReadOnlyError(path)

    def put(self, path: str, content: Union[str, bytes], mode: int = 0o644) -> None:
        raise ReadOnlyError(path)

    def make_folder(self, path: str) -> None:
        raise ReadOnlyError(path)

    def remove(self, path: str) -> bool:
        raise ReadOnlyError(path)


class ReadOnlyError(Exception):
    """A change that this read-only program must not make: a bug."""


class _Stream(threading.Thread):
    """Reads one output of a program to its end, or to the bound."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._parts: List[bytes] = []
        self.too_much = False

    def run(self) -> None:
        size = 0
        with self._stream:
            while not self.too_much:
                part = os.read(self._stream.fileno(), 65536)
                if not part:
                    return
                size += len(part)
                self._parts.append(part)
                self.too_much = size > LARGEST_OUTPUT

    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kills a program and its children; one that hangs in a system call does not die, so the wait
    is short.
    """
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(1)
    except (OSError, subprocess.TimeoutExpired):
        return

"""Files and programs of the host. Steps read and change the host only through this module."""

import json
import os
import re
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Union

SELINUX = "security.selinux"
MISSING = 127
"""Exit code of a program that is not installed."""
KILL_WAIT_S = 2
"""A killed program ends at once, unless it hangs in the kernel: then nothing ends it, and the run
leaves it behind."""


class RunError(Exception):
    """Why a run ends early, and what to do about it."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class StepError(RunError):
    """A step that failed: the reason, and what to do about it. Every function of a step may raise
    it.
    """


class OutOfTimeError(RunError):
    """The run has used up its time. It is no StepError, after which other steps still run."""


class Done(NamedTuple):
    """A program that has ended."""

    code: int
    out: str
    err: str


class Machine:
    """Files and programs of the host. Tests give it another root and other answers."""

    awaited = ""
    """The program that runs, or the file that is read: what a run that takes too long waits for."""

    def __init__(self, root: str = "") -> None:
        self.root = root

    def path(self, path: str) -> str:
        """Where a file of the host lies under the root."""
        return self.root + path

    def exists(self, path: str) -> bool:
        """Whether there is such a file, folder or link, dangling ones included."""
        return os.path.lexists(self.path(path))

    def read(self, path: str) -> str:
        """The stripped text; empty when it cannot be read."""
        return self.content(path).decode("utf-8", errors="replace").strip()

    def write(self, path: str, value: str) -> None:
        """Sets a kernel attribute in one write; the kernel refuses it with an error."""
        descriptor = os.open(self.path(path), os.O_WRONLY)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def content(self, path: str) -> bytes:
        """All bytes of a file; none when it cannot be read."""
        self.awaited = path
        try:
            with open(self.path(path), "rb", buffering=0) as file:
                return file.read()
        except OSError:
            return b""
        finally:
            self.awaited = ""

    def put(self, path: str, content: Union[str, bytes], mode: int = 0o644) -> None:
        """Writes a file atomically: after a crash there is the old one or the new one."""
        target = self.path(path)
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        data = content.encode() if isinstance(content, str) else content
        with open(target + ".new", "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            _label_as(target, file.fileno())
            os.fsync(file.fileno())
        os.replace(target + ".new", target)

    def ensure(self, path: str, content: Union[str, bytes], mode: int = 0o644) -> bool:
        """Writes a file unless it has this content already; returns whether it was written."""
        if not self.faults({path: content}):
            return False
        self.put(path, content, mode)
        return True

    def faults(self, files: Mapping[str, Union[str, bytes]]) -> List[str]:
        """The files that do not have this content, each with the word missing or altered."""
        right = {
            path: text.encode() if isinstance(text, str) else text for path, text in files.items()
        }
        wrong = [path for path, content in right.items() if self.content(path) != content]
        return [f"{path} {'altered' if self.exists(path) else 'missing'}" for path in wrong]

    def snapshot(self, path: str) -> Optional[str]:
        """The text of a file as an undo needs it; None when there is no such file."""
        return self.content(path).decode(errors="replace") if self.exists(path) else None

    def restore(self, path: str, text: Optional[str]) -> None:
        """Puts a file back as `snapshot` found it."""
        if text is None:
            self.remove(path)
        else:
            self.put(path, text)

    def make_folder(self, path: str) -> None:
        """Creates a folder if there is none. In configfs that creates a kernel object."""
        os.makedirs(self.path(path), exist_ok=True)

    def remove(self, path: str) -> bool:
        """Removes a file, a link or an empty folder; returns whether there was one."""
        target = self.path(path)
        try:
            (
                os.rmdir(target)
                if os.path.isdir(target) and not os.path.islink(target)
                else os.remove(target)
            )
        except OSError:
            return False
        return True

    def names(self, path: str) -> List[str]:
        """What a folder holds; nothing when there is no such folder."""
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def target(self, path: str) -> str:
        """Last part of a link's target; empty when it is not a link."""
        try:
            return os.path.basename(os.readlink(self.path(path)))
        except OSError:
            return ""

    def variable(self, name: str) -> str:
        """A variable of this process; empty without one."""
        return os.environ.get(name, "")

    def real(self, path: str) -> str:
        """The path without links."""
        return os.path.realpath(self.path(path))

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        """Runs a program within a time limit; one that is not installed ends with `MISSING`."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin", "LC_ALL": "C"}
        pipe = subprocess.PIPE
        self.awaited = " ".join(words)
        try:
            process = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment
            )
        except FileNotFoundError:
            self.awaited = ""
            return Done(MISSING, "", f"{words[0]} is not installed")
        try:
            out, err = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Done(124, "", f"{words[0]} did not end within {timeout_s:.0f} s")
        except BaseException:
            _kill(process)
            raise
        finally:
            self.awaited = ""
        return Done(process.returncode, out, err)

    def must(self, *words: str, stdin: str = "", timeout_s: float = 30) -> str:
        """Runs a program that must succeed, and returns what it printed."""
        done = self.run(*words, stdin=stdin, timeout_s=timeout_s)
        if done.code:
            last_lines = " / ".join((done.err or done.out).strip().splitlines()[-3:])
            raise StepError(
                f"{' '.join(words)} failed ({done.code}): {last_lines}",
                f"run it on the host; input: {stdin!r}",
            )
        return done.out

    def unload(self, names: Iterable[str]) -> None:
        """Unloads the kernel modules that are loaded and not in use."""
        for name in names:
            if self.read(f"/sys/module/{name}/refcnt") == "0":
                self.run("modprobe", "-r", name)

    def now_s(self) -> float:
        """Seconds since the machine started; a change of its clock does not affect them."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, ready: Callable[[], bool], timeout_s: float) -> bool:
        """Waits for a condition; returns whether it was met in time."""
        end = self.now_s() + timeout_s
        while not ready():
            if self.now_s() > end:
                return False
            self.pause(0.1)
        return True


def _kill(process: "subprocess.Popen[str]") -> None:
    """Ends a program, without `with`, which would wait for as long as it hangs in the kernel."""
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()
    try:
        process.wait(KILL_WAIT_S)
    except subprocess.TimeoutExpired:
        return


def _label_as(target: str, descriptor: int) -> None:
    """Gives a new file the SELinux label of the file that it replaces; confined services depend on
    it.
    """
    try:
        os.setxattr(descriptor, SELINUX, os.getxattr(target, SELINUX))
    except OSError:
        return  # there is no such file yet, or no SELinux


def first_match(pattern: str, text: str) -> str:
    """The first group of a pattern in a text of several lines; empty without a match."""
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""


def load_json(machine: Machine, path: str) -> Dict[str, Any]:
    """A JSON file that this program wrote; empty when it is missing."""
    text = machine.read(path)
    try:
        document = json.loads(text) if text else {}
    except ValueError:
        raise StepError(f"{path} is damaged", "move it aside; its records are lost") from None
    return document if isinstance(document, dict) else {}


def load_names(machine: Machine, path: str) -> List[str]:
    """A list of names; empty when it is missing or damaged."""
    try:
        return [str(item) for item in json.loads(machine.read(path))]
    except (ValueError, TypeError):
        return []

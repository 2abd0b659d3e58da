"""The package repository as a part of the simulator."""

import os
import shutil
import sys
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from simulator.nodes.cache import digest
from simulator.nodes.image import build_image
from simulator.nodes.machine import REPOSITORY
from simulator.packages.repository import SNIPPET, kernel_release, make_repository
from simulator.part import CHECKOUT, Report, Status
from simulator.process import Daemon, refuse_a_taken_port

START_S = 30


class Packages:
    """The only repository that the nodes' package managers can reach."""

    name = "packages"

    def __init__(self, state: Path, place: tuple[str, int] = REPOSITORY) -> None:
        self.folder = state.absolute() / "packages"
        self._place = place
        self._daemon = Daemon("packages", self.folder)

    @property
    def repository(self) -> Path:
        """The served folder, named after a hash of its recipe."""
        code = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
        return self.folder / f"repository-{digest(*code)}"

    def up(self, report: Report) -> None:
        """Makes the repository if its recipe has changed, and serves it."""
        if not self.repository.exists():
            self._daemon.stop()
            self.make(kernel_release(build_image(report).kernel))
            report("made the repository")
        if self._daemon.resume():
            report("a signal had suspended the server; it continues")
        if self._daemon.pid() is None:
            if self._daemon.pid_file.exists():
                report("the server had died; started again")
            address, port = self._place
            refuse_a_taken_port(self.name, address, port)
            command = [sys.executable, "-m", "simulator.packages.server", str(self.repository), address, str(port)]
            self._daemon.start(command, cwd=CHECKOUT)
        self._daemon.wait_until(self._answers, START_S, "answer over HTTP", report)
        report(f"ready; for a stack file: {os.path.relpath(self.repository / SNIPPET, CHECKOUT)}")

    def make(self, kernel: str) -> None:
        """Makes the repository. The folder gets its name only when complete."""
        shutil.rmtree(self.folder, ignore_errors=True)
        partial = self.folder / "partial"
        partial.mkdir(parents=True)
        make_repository(partial, kernel)
        partial.rename(self.repository)

    def status(self) -> list[Status]:
        """One line."""
        where, pid = "{}:{}".format(*self._place), self._daemon.pid()
        if trouble := self._daemon.trouble(self.name, where):
            return [trouble]
        if not self._answers():
            return [Status(self.name, where, "not answering", self._daemon.last_words(), pid)]
        return [Status(self.name, where, "running", "stand-ins for a vendor's packages", pid)]

    def reset(self, report: Report) -> None:
        """Nothing to reset: nobody writes to the repository."""
        self.up(report)

    def down(self, report: Report) -> None:
        """Stops the server."""
        ran = self._daemon.pid() is not None
        self._daemon.stop()
        if ran:
            report("stopped")

    def _answers(self) -> bool:
        connection = HTTPConnection(*self._place, timeout=5)
        try:
            connection.request("HEAD", "/dists/stable/Release")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

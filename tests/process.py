"""The process that all tests share: what of it a test must leave as it was."""

import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIGNALS = (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
PYTESTS = "PYTEST_CURRENT_TEST"
"""Set and changed by pytest itself."""


@dataclass(frozen=True)
class Process:
    """Whatever a test changes of it decides how later ones end, which nobody sees while the order is the same."""

    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    folder: Path = field(default_factory=Path.cwd)
    import_path: list[str] = field(default_factory=lambda: list(sys.path))
    handlers: dict[signal.Signals, Any] = field(
        default_factory=lambda: {sign: signal.getsignal(sign) for sign in SIGNALS}
    )

    def restore(self) -> list[str]:
        """Puts everything back; what had changed, by name."""
        now = Process()
        names = sorted(
            name
            for name in {*self.environment, *now.environment} - {PYTESTS}
            if self.environment.get(name) != now.environment.get(name)
        )
        told = [f"variable {name}" for name in names]
        for name in names:
            if name in self.environment:
                os.environ[name] = self.environment[name]
            else:
                del os.environ[name]
        if now.folder != self.folder:
            told.append(f"folder {now.folder}")
            os.chdir(self.folder)
        if now.import_path != self.import_path:
            told.append("sys.path")
            sys.path[:] = self.import_path
        for sign, handler in self.handlers.items():
            if now.handlers[sign] != handler:
                told.append(f"handler of {sign.name}")
                signal.signal(sign, handler)
        return told

"""One line of the doctor's table."""

import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One checked item; missing if `lack` is set."""

    part: str
    version: str
    origin: str
    """Where it comes from: `path`, `official`, `built`, `stand-in`, or a remark."""

    lack: str = ""
    wanted_by: str = ""
    """The commands that do not work without it."""

    remedy: str = ""

    def to_json(self) -> dict[str, str | bool]:
        """The finding as `--json` prints it."""
        fields = {"part": self.part, "version": self.version, "origin": self.origin}
        if not self.lack:
            return {**fields, "missing": False}
        return {**fields, "missing": True, "lack": self.lack, "wanted_by": self.wanted_by, "remedy": self.remedy}


def said_by(*command: str) -> str:
    """What a program prints; empty if it is not installed or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""

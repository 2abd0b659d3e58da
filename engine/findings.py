"""One line of the doctor's table, and how programs are asked for it."""

import shutil
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something looked at. It is missing when `lack` says so."""

    part: str
    version: str
    origin: str
    """Where it comes from: `path`, `official`, `built`, `stand-in`, or a remark."""

    lack: str = ""
    wanted_by: str = ""
    """The commands that do not work without it."""

    remedy: str = ""

    def to_json(self) -> dict[str, str | bool]:
        """The finding for programs."""
        fields = {"part": self.part, "version": self.version, "origin": self.origin}
        if not self.lack:
            return {**fields, "missing": False}
        return {**fields, "missing": True, "lack": self.lack, "wanted_by": self.wanted_by, "remedy": self.remedy}


def said_by(*command: str) -> str:
    """What a program prints, or nothing when it is not there or fails."""
    if shutil.which(command[0]) is None:
        return ""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""

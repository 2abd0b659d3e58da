"""One line of the doctor's table."""

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

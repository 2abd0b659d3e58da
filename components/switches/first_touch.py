"""What ports were before a lab's first change to them, in a file.

A run that is killed has changed a switch and written no state: the next one would take its values for those it found.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from components.switches.settings import PortSettings


class FirstTouch:
    """One switch's file beside its backups. It counts only for ports that carry the lab's marker and no state knows."""

    def __init__(self, folder: Path, switch: str) -> None:
        self._file = folder / f"{switch}-before.json"

    def read(self) -> dict[str, PortSettings]:
        """By port; empty without a file, or with one of another version of us."""
        try:
            content = json.loads(self._file.read_text())
            return {port: PortSettings.model_validate(settings) for port, settings in content.items()}
        except (OSError, ValueError, AttributeError, ValidationError):
            return {}

    def add(self, before: Mapping[str, PortSettings]) -> None:
        """Before the first line is sent; a port that was given up and taken again gets its new values."""
        self._write({**self.read(), **before})

    def drop(self, ports: Iterable[str]) -> None:
        """When they are as they were."""
        given_up = set(ports)
        self._write({port: settings for port, settings in self.read().items() if port not in given_up})

    def _write(self, before: Mapping[str, PortSettings]) -> None:
        if not before:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = self._file.with_suffix(".partial")
        unfinished.touch(mode=0o600)
        plain = {port: settings.model_dump(mode="json", exclude_defaults=True) for port, settings in before.items()}
        unfinished.write_text(json.dumps(plain, sort_keys=True))
        unfinished.replace(self._file)

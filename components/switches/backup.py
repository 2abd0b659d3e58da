"""What this machine keeps of a switch before a change: its running configuration, and the first
settings of its ports.

A running configuration holds password hashes, so its text never enters the state, an output or a
log.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from components.switches.settings import PortSettings, ports_in, ports_text
from stacks.files import state_folder, write_file

KEPT = 20
"""Backups of a switch that stay; older ones are removed."""


def folder_of(lab: str, root: Path, *, simulated: bool) -> Path:
    """Folder of a lab's backups: in the simulator's state, else in the user's state folder
    (XDG).
    """
    if simulated:
        return root / ".sim" / "backups"
    return state_folder(lab) / "switches"


def write_backup(folder: Path, switch: str, text: str) -> str:
    """Writes a backup; returns its file name, which ends with the first digits of its SHA-256."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = f"{switch}-{digest[:16]}.txt"
    _put(folder / name, text)
    files = sorted(folder.glob(f"{switch}-*.txt"), key=lambda path: path.stat().st_mtime)
    for old in files[:-KEPT]:
        old.unlink(missing_ok=True)
    return name


class FirstTouch:
    """Settings of a switch's ports before the lab's first change, in a file beside its backups.

    An interrupted run has changed a switch and written no state: without the file, the next one
    would take its values for the earlier ones. It counts only for ports that carry the lab's marker
    and that no state knows.
    """

    def __init__(self, folder: Path, switch: str) -> None:
        self._file = folder / f"{switch}-before.json"

    def read(self) -> dict[str, PortSettings]:
        """Settings by port; empty without a file that this version can read."""
        try:
            return ports_in(self._file.read_text())
        except (OSError, ValueError):
            return {}

    def add(self, before: Mapping[str, PortSettings]) -> None:
        """Call this before the first line is sent. A port that was released and taken again gets
        its new values.
        """
        self._write({**self.read(), **before})

    def drop(self, ports: Iterable[str]) -> None:
        """Forgets ports that are restored."""
        given_up = set(ports)
        self._write(
            {port: settings for port, settings in self.read().items() if port not in given_up}
        )

    def _write(self, before: Mapping[str, PortSettings]) -> None:
        if before:
            _put(self._file, ports_text(before))
        else:
            self._file.unlink(missing_ok=True)


def _put(file: Path, text: str) -> None:
    """Writes a file that only its owner reads, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_file(file, text, private=True)

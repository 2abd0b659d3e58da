"""The running configuration of a switch before it is changed: a file only its owner reads, its digest in the state.

A running configuration holds password hashes, so its text never enters the state, an output or a log.
"""

import hashlib
import os
from pathlib import Path

KEPT = 20
"""Backups of a switch that stay; older ones are removed."""


def folder_of(lab: str, root: Path, *, simulated: bool) -> Path:
    """Where a lab's backups lie: with the simulator's state, else in the user's state folder (XDG)."""
    if simulated:
        return root / ".sim" / "backups"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "rocelab" / lab / "switches"


def write_backup(folder: Path, switch: str, text: str) -> str:
    """Writes a backup; its file name, which ends with the begin of its SHA-256."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = f"{switch}-{digest[:16]}.txt"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = folder / f".{name}.partial"
    unfinished.touch(mode=0o600)
    unfinished.write_text(text)
    unfinished.replace(folder / name)
    files = sorted(folder.glob(f"{switch}-*.txt"), key=lambda path: path.stat().st_mtime)
    for old in files[:-KEPT]:
        old.unlink(missing_ok=True)
    return name

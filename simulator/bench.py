"""Times of what a user waits for, warm: `make bench`. Each figure is one run on this machine, so compare ratios."""

import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900

STAGES = (
    ("nothing running, no stack", "make destroy down", None),
    ("up from nothing", "make up", 120),
    ("second up, no change", "make up", 15),
    ("preview", "make preview", 5),
    ("drift", "make drift", None),
    ("destroy", "make destroy", None),
    ("stop", "make down", None),
)
"""What, its command, and the bound that the README promises in seconds."""


def timed(command: str) -> tuple[float, str]:
    """Wall time of a command, and what it printed if it failed."""
    begin = time.monotonic()
    done = subprocess.run(
        command.split(),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return time.monotonic() - begin, "" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]


def main() -> int:
    """Runs all stages in order; the first, which only prepares, may fail."""
    table = Table("stage", "command", "seconds", "promised", title=f"load {os.getloadavg()[0]:.1f} before")
    for position, (what, command, promised_s) in enumerate(STAGES):
        seconds, trouble = timed(command)
        if position and trouble:
            sys.stderr.write(f"{command} failed:\n{trouble}\n")
            return 1
        table.add_row(what, command, f"{seconds:.1f}", f"{promised_s}" if promised_s else "")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())

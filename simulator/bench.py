"""Times of what a user waits for, warm: `make bench`. Each figure is of this machine, so compare ratios."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulator.hosts.bench import Figure
from simulator.hosts.bench import measure as measure_many_hosts
from simulator.part import SimulatorError

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".sim" / "bench"
LIMIT_S = 900
LAST_LINES = 15

STAGES = (
    ("nothing running, no stack", "make destroy down", None),
    ("up from nothing", "make up", 120.0),
    ("second up, no change", "make up", 15.0),
    ("preview", "make preview", 5.0),
    ("drift", "make drift", None),
    ("destroy", "make destroy", None),
    ("stop", "make down", None),
)
"""What, its command, and the bound that the README promises in seconds."""


def timed(command: str, log: Path) -> tuple[float, bool]:
    """Wall time of a command, and whether it succeeded; all that it prints goes to the log."""
    begin = time.monotonic()
    with log.open("w") as printed:
        done = subprocess.run(
            command.split(),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        )
    return time.monotonic() - begin, done.returncode == 0


def reference_lab() -> list[Figure]:
    """The stages of the reference lab in order; the first, which only prepares, may fail.

    Raises:
        SimulatorError: with the end of the log of a stage that failed.
    """
    figures = []
    for position, (what, command, bound_s) in enumerate(STAGES):
        log = LOGS / f"{position}-{command.replace(' ', '-')}.log"
        seconds, succeeded = timed(command, log)
        if position and not succeeded:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
            raise SimulatorError(f"{command} failed, all of it in {log}:\n{end}")
        figures.append(Figure(what=what, command=command, value=seconds, unit="s", bound=bound_s))
    return figures


def validation_of_many_hosts(folder: Path) -> list[Figure]:
    """Every pair of 64 hosts on two rails: what the validation costs beside the tests themselves.

    Raises:
        SimulatorError: when it did not end well.
    """
    command = [sys.executable, "-m", "tests.components.validation.scale", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode:
        raise SimulatorError(f"the validation of many hosts failed:\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    what, shown = f"validation, {found['transfers']} transfers", " ".join(command[1:3])
    total_s = found["schedule_and_run_s"] + found["judge_and_store_s"]
    return [
        Figure(what=f"{what}: schedule, run, judge", command=shown, value=total_s, unit="s", bound=60.0),
        Figure(what=f"{what}: memory", command=shown, value=found["memory_mbyte"], unit="MB", bound=300.0),
    ]


def main(arguments: list[str]) -> int:
    """Measures all, or what the arguments name of `lab`, `scale` and `validation`."""
    LOGS.mkdir(parents=True, exist_ok=True)
    title = f"load {os.getloadavg()[0]:.1f} before"
    table = Table("stage", "command", "measured", "promised", "processor time", title=title)
    figures: list[Figure] = []
    try:
        if not arguments or "lab" in arguments:
            figures += reference_lab()
        if not arguments or "scale" in arguments:
            figures += measure_many_hosts(LOGS / "scale")
        if not arguments or "validation" in arguments:
            figures += validation_of_many_hosts(LOGS / "validation")
    except SimulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for figure in figures:
        bound = f"{figure.bound:g} {figure.unit}" if figure.bound else ""
        cpu = f"{figure.cpu_s:.1f} s" if figure.cpu_s else ""
        table.add_row(figure.what, figure.command, f"{figure.value:.1f} {figure.unit}", bound, cpu)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

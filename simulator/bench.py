"""Measures what you wait for, with warm caches: `make bench`. Results depend on the machine, so compare ratios."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from simulator import bench_validation
from simulator.hosts.bench import Figure
from simulator.hosts.bench import measure as measure_many_hosts
from simulator.part import SimulatorError

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / ".sim" / "bench"
LIMIT_S = 900
LAST_LINES = 15
PARTS = ("lab", "scale", "validation", "localisation", "verdicts")
PIPED_COLUMNS = 160

STAGES = (
    ("nothing running, no stack", "make destroy down", None),
    ("up from nothing", "make up", 120.0),
    ("second up, no change", "make up", 15.0),
    ("preview", "make preview", 5.0),
    ("drift", "make drift", None),
    ("destroy", "make destroy", None),
    ("stop", "make down", None),
)
"""Stage, command, and its promised bound in seconds."""


def timed(command: str, log: Path) -> tuple[float, bool]:
    """Wall time of a command, and whether it succeeded. Its output goes to the log."""
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
    """Measures the stages of the reference lab in order. The first only prepares and may fail.

    Raises:
        SimulatorError: with the end of the failed stage's log.
    """
    figures = []
    for position, (what, command, bound_s) in enumerate(STAGES):
        log = LOGS / f"{position}-{command.replace(' ', '-')}.log"
        seconds, succeeded = timed(command, log)
        if position and not succeeded:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
            raise SimulatorError(f"{command} failed; full log: {log}\n{end}")
        figures.append(Figure(what=what, command=command, value=seconds, unit="s", bound=bound_s))
    return figures


def main(arguments: list[str]) -> int:
    """Measures all parts, or those named."""
    options = _parser().parse_args(arguments)
    parts: dict[str, Callable[[], Iterable[Figure]]] = {
        "lab": reference_lab,
        "scale": lambda: measure_many_hosts(LOGS / "scale"),
        "validation": lambda: bench_validation.many_hosts(LOGS / "validation"),
        "localisation": lambda: bench_validation.localisation(whole=options.whole),
        "verdicts": lambda: bench_validation.verdicts(whole=options.whole),
    }
    LOGS.mkdir(parents=True, exist_ok=True)
    title = f"load {os.getloadavg()[0]:.1f} before"
    try:
        figures = [figure for part in options.parts or PARTS for figure in parts[part]()]
    except SimulatorError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS).print(as_table(figures, title))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulator.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", type=_part, metavar="PART", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument(
        "--whole", action="store_true", help="simulate as many fabrics as docs/localise.md; takes an hour per part"
    )
    return parser


def _part(word: str) -> str:
    if word not in PARTS:
        raise argparse.ArgumentTypeError(f"{word!r} is none of {', '.join(PARTS)}")
    return word


def as_table(figures: Iterable[Figure], title: str) -> Table:
    """Measured beside promised values; marks those over the bound."""
    table = Table("stage", "command", "measured", "promised", "processor time", title=title)
    for figure in figures:
        bound = f"{figure.bound:.4g} {figure.unit}" if figure.bound is not None else ""
        over = figure.bound is not None and figure.value > figure.bound
        cpu = f"{figure.cpu_s:.1f} s" if figure.cpu_s else ""
        value = figure.value if figure.unit.startswith("of ") else round(figure.value, 1)
        table.add_row(figure.what, figure.command, f"{value:g} {figure.unit}{' OVER' if over else ''}", bound, cpu)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

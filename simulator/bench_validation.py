"""Measures the cost of validating a large lab, and how often the search for faults is right."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from simulator.hosts.bench import Figure
from simulator.part import SimulatorError

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900
WHOLE_LIMIT_S = 4 * 3600

RUN_AND_REPORT_S, MEMORY_MBYTE, PAGE_MBYTE = 60.0, 300.0, 5.0
"""Bounds for every pair of 64 nodes on two rails, without the time of the benchmarks themselves."""
WRONG_SHARE, ACCUSED_SHARE = 0.01, 1 / 2000
"""Bounds: wrong answers on simulated fabrics with a fault, and accused fabrics without one."""
FEW_SEEDS, FEW_CLEAN, FEW_DRAWS = 10, 240, 20
SEEDS, CLEAN, DRAWS = 200, 2000, 1000

RIGHT = re.compile(r"^.{12} +\d+ nodes \d+ rails: (?P<good>\d+)/(?P<all>\d+) .* search <= (?P<seconds>[\d.]+) s$")
VERDICTS = re.compile(
    r"^ *\d+ nodes \d+ rails: (?P<passed>\d+)/(?P<all>\d+) healthy pass, "
    r"(?P<found>\d+)/\d+ slow nodes found$"
)
ACCUSED = re.compile(r"^clean fabrics accused: (?P<accused>\d+) of (?P<all>\d+),")


def many_hosts(folder: Path) -> Iterator[Figure]:
    """Measures the validation of every pair of 64 hosts on two rails, without the benchmarks themselves.

    Raises:
        SimulatorError: if it failed.
    """
    module = "tests.components.validation.scale"
    found, shown = json.loads(_printed(module, str(folder))), f"python -m {module}"
    what = f"validation, {found['transfers']} transfers"
    total_s = found["schedule_and_run_s"] + found["judge_and_store_s"] + found["render_s"]
    cpu_s = found["cpu_s"] + found["render_cpu_s"]
    memory = max(found["memory_mbyte"], found["render_memory_mbyte"])
    first = f"{what}: schedule, run, judge, report"
    yield Figure(what=first, command=shown, value=total_s, unit="s", bound=RUN_AND_REPORT_S, cpu_s=cpu_s)
    for name, value, unit, bound in (
        ("of which the report", found["render_s"], "s", None),
        ("memory at most", memory, "MB", MEMORY_MBYTE),
        ("page of the report", found["page_mbyte"], "MB", PAGE_MBYTE),
        ("verdict in the state", found["state_kbyte"], "kB", None),
    ):
        yield Figure(what=f"{what}: {name}", command=shown, value=value, unit=unit, bound=bound)


def localisation(*, whole: bool) -> Iterator[Figure]:
    """Measures how often exactly the known fault is named, and how often a fabric without faults is accused.

    Args:
        whole: as many fabrics as docs/localise.md lists, which takes an hour; otherwise a few of each size.

    Raises:
        SimulatorError: if it failed.
    """
    module = "tests.components.validation.judging.simulation"
    options = ["--seeds", str(SEEDS if whole else FEW_SEEDS), "--clean", str(CLEAN if whole else FEW_CLEAN)]
    shown = " ".join(("python -m", module, *options))
    yield from read_matrix(_printed(module, *options, limit_s=WHOLE_LIMIT_S if whole else LIMIT_S), shown)


def read_matrix(printed: str, command: str) -> Iterator[Figure]:
    """The figures in the output of the simulation.

    Raises:
        SimulatorError: if the output has no matrix.
    """
    lines = [found for line in printed.splitlines() if (found := RIGHT.match(line))]
    clean = [found for line in printed.splitlines() if (found := ACCUSED.match(line))]
    if not lines or len(clean) != 1:
        raise SimulatorError(f"{command} printed no matrix:\n{printed[-2000:]}")
    fabrics, good = (sum(int(found[key]) for found in lines) for key in ("all", "good"))
    sound, accused = int(clean[0]["all"]), int(clean[0]["accused"])
    slowest_s = max(float(found["seconds"]) for found in lines)
    for what, value, unit, bound in (
        ("localisation: wrong answers", fabrics - good, f"of {fabrics}", WRONG_SHARE * fabrics),
        ("localisation: sound fabrics accused", accused, f"of {sound}", ACCUSED_SHARE * sound),
        ("localisation: longest search", slowest_s, "s", None),
    ):
        yield Figure(what=what, command=command, value=value, unit=unit, bound=bound)


def verdicts(*, whole: bool) -> Iterator[Figure]:
    """Measures how often healthy labs of 2 to 256 nodes pass, and a node at 85 % is found.

    Args:
        whole: a thousand labs of each size, which takes an hour; otherwise a few.

    Raises:
        SimulatorError: if it failed.
    """
    module = "tests.components.validation.judging.healthy"
    options = ["--draws", str(DRAWS if whole else FEW_DRAWS)]
    shown = " ".join(("python -m", module, *options))
    yield from read_verdicts(_printed(module, *options, limit_s=WHOLE_LIMIT_S if whole else LIMIT_S), shown)


def read_verdicts(printed: str, command: str) -> Iterator[Figure]:
    """The figures in the output of the drawn labs.

    Raises:
        SimulatorError: if the output has none.
    """
    lines = [found for line in printed.splitlines() if (found := VERDICTS.match(line))]
    if not lines:
        raise SimulatorError(f"{command} printed no verdicts:\n{printed[-2000:]}")
    drawn, passed, named = (sum(int(line[key]) for line in lines) for key in ("all", "passed", "found"))
    for what, value in (("healthy labs that do not pass", drawn - passed), ("slow nodes not found", drawn - named)):
        yield Figure(what=f"verdicts: {what}", command=command, value=value, unit=f"of {drawn}", bound=0)


def _printed(module: str, *arguments: str, limit_s: float = LIMIT_S) -> str:
    """The output of a test module, run as a separate process to measure its memory."""
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise SimulatorError(f"{module} did not end within {limit_s:.0f} s") from None
    if done.returncode:
        raise SimulatorError(f"{module} failed:\n{done.stderr[-2000:]}")
    return done.stdout

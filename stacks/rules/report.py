"""Rules about what is kept of a lab's measurements."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from stacks.report import Report
from stacks.rules.parts import Fault, Parts

THROWN_AWAY = (".sim", ".engine", ".venv")
"""Folders of a checkout that `make clean` removes."""


def _measurements_of_hardware_outlive_the_simulator(parts: Parts) -> Iterator[Fault]:
    report = parts.section("report", Report)
    if report is None or report.store is None or parts.kind != "hardware":
        return
    first = PurePosixPath(report.store).parts[0]
    if first in THROWN_AWAY:
        yield Fault(
            ("report", "store"),
            f"{report.store} is inside {first}, which `make clean` removes; use another folder, or remove store",
        )


REPORT_RULES = (_measurements_of_hardware_outlive_the_simulator,)

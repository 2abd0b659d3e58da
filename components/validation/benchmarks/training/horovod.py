"""Horovod's synthetic ResNet-50, the DeepOps RoCE guide's second test: `Img/sec per GPU` over ten
iterations.
"""

import re
from statistics import fmean, pstdev

from pydantic import JsonValue

from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.validation.benchmarks.training import (
    SCRIPTS,
    LogReading,
    TrainingBenchmark,
    horovod_variables,
)
from components.validation.parsers import (
    INTEGER,
    Line,
    ResultFormatError,
    integer,
    lines_of,
    number,
    of_one_rank,
)
from stacks.frozen import frozen
from stacks.words import plural

_VALUE = r"[0-9]{1,9}\.[0-9]"
_ITERATION = re.compile(rf"^Iter #({INTEGER}): ({_VALUE}) img/sec per (GPU|CPU)\s*$")
_MEAN = re.compile(rf"^Img/sec per (GPU|CPU): ({_VALUE}) \+-({_VALUE})\s*$")
_TOTAL = re.compile(rf"^Total img/sec on ({INTEGER}) (GPU|CPU)\(s\): ({_VALUE}) \+-({_VALUE})\s*$")
_DEVICES = re.compile(rf"^Number of (?:GPU|CPU)s: ({INTEGER})\s*$")
_BEGINS = ("Iter #", "Img/sec per ", "Total img/sec on ")
ROUNDING = 0.05
"""Half of the one decimal that everything is printed with."""
CONFIDENCE = 1.96
"""The printed `+-` is this times the population's deviation over the iterations: no interval of the
mean."""


class Horovod(TrainingBenchmark):
    """Ten iterations of ten batches, with synthetic data."""

    def program(self, workers: Workers, *, by_hand: bool = False) -> MpiProgram:
        del by_hand  # ten iterations end by themselves
        script = f"{SCRIPTS}/tensorflow2_synthetic_benchmark.py"
        words = (
            "python3",
            script,
            "--model",
            "ResNet50",
            "--batch-size",
            "32",
            "--num-iters",
            "10",
        )
        return MpiProgram(words=words, variables=horovod_variables(workers))

    def read(self, log: str, ranks: int) -> LogReading:
        del ranks  # the log says itself how many devices took part
        training = parse_training(log)
        details: dict[str, JsonValue] = {
            "total_img_s": training.printed_total,
            "devices": training.devices,
            "mean_img_s": round(training.mean_per_device, 2),
            "spread_img_s": round(training.spread_per_device, 2),
        }
        return LogReading(samples=training.iterations_per_device, details=details)


@frozen
class Training:
    """One run. Everything is images a second."""

    devices: int
    """GPUs over all nodes."""
    iterations_per_device: tuple[float, ...]
    """The measured values, each confirmed by the summary within its rounding."""
    printed_mean: float
    printed_spread: float
    printed_total: float

    @property
    def mean_per_device(self) -> float:
        """Over all iterations, outliers included."""
        return fmean(self.iterations_per_device)

    @property
    def total(self) -> float:
        """Over all devices."""
        return self.devices * self.mean_per_device

    @property
    def spread_per_device(self) -> float:
        """The value after `+-`, computed again."""
        return CONFIDENCE * pstdev(self.iterations_per_device)


def parse_training(text: str) -> Training:
    """Reads a run; the iterations count, and the three summaries have to agree with them.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = lines_of(text)
    results = of_one_rank([line for line in lines if line.text.startswith(_BEGINS)], "results")
    if not results:
        raise ResultFormatError(f"no training benchmark among {plural(len(lines), 'line')}")
    iterations = [
        _only(_ITERATION, line.text) for line in results if line.text.startswith(_BEGINS[0])
    ]
    means = [_only(_MEAN, line.text) for line in results if line.text.startswith(_BEGINS[1])]
    totals = [_only(_TOTAL, line.text) for line in results if line.text.startswith(_BEGINS[2])]
    if not iterations or not means or not totals:
        raise ResultFormatError(
            f"the training benchmark breaks off after {plural(len(iterations), 'iteration')}"
        )
    if len(means) > 1 or len(totals) > 1:
        raise ResultFormatError("two training benchmarks in one log")
    if [integer(match[1], "iteration") for match in iterations] != list(range(len(iterations))):
        raise ResultFormatError(
            f"iterations of a training benchmark are missing or doubled: {len(iterations)} found"
        )
    if len({match[3] for match in iterations} | {means[0][1], totals[0][2]}) > 1:
        raise ResultFormatError("some lines of the training benchmark are per GPU and some per CPU")
    training = Training(
        devices=integer(totals[0][1], "devices"),
        iterations_per_device=tuple(number(match[2], "iteration") for match in iterations),
        printed_mean=number(means[0][2], "mean"),
        printed_spread=number(means[0][3], "spread"),
        printed_total=number(totals[0][3], "total"),
    )
    listed = _listed_devices(lines)
    if training.devices < 1 or listed not in (None, training.devices):
        raise ResultFormatError(f"{training.devices} and {listed} devices contradict each other")
    _refuse_contradictions(training, number(totals[0][4], "spread of the total"))
    return training


def _refuse_contradictions(training: Training, total_spread: float) -> None:
    n = training.devices
    pairs = (
        ("mean", training.mean_per_device, training.printed_mean, 2 * ROUNDING),
        # the total is the unrounded mean times n, so it is more precise than the mean's own line
        ("total", training.total, training.printed_total, (n + 1) * ROUNDING),
        ("total", n * training.printed_mean, training.printed_total, (n + 1) * ROUNDING),
        (
            "spread",
            training.spread_per_device,
            training.printed_spread,
            (CONFIDENCE + 1) * ROUNDING,
        ),
        ("spread of the total", n * training.printed_spread, total_spread, (n + 1) * ROUNDING),
    )
    for what, computed, printed, allowed in pairs:
        if abs(computed - printed) > allowed * 1.001:
            raise ResultFormatError(
                f"{what}: {printed} printed and {computed:.2f} computed contradict each other"
            )


def _listed_devices(lines: list[Line]) -> int | None:
    for line in lines:
        match = _DEVICES.match(line.text)
        if match:
            return int(match[1])
    return None


def _only(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.match(text)
    if match is None:
        raise ResultFormatError(f"a damaged line of a training benchmark: {text[:80]!r}")
    return match

"""tf_cnn_benchmarks, the vSphere RDG's test, alone or under Horovod, where every rank prints."""

import re

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
)
from stacks.words import plural

_VALUE = r"[0-9]{1,12}\.[0-9]{1,3}"
_STEP = re.compile(
    rf"^({INTEGER})\timages/sec: ({_VALUE}) \+/- {_VALUE} \(jitter = "
    rf"{_VALUE}\)\t(?:nan|[0-9.]{{1,30}})(?:\t|$)"
)
_TOTAL = re.compile(rf"^total images/sec: ({_VALUE})\s*$")
_GLOBAL = re.compile(rf"^Batch size:\s+({INTEGER}) global\s*$")
_PER_DEVICE = re.compile(rf"^\s+({INTEGER}) per device\s*$")
BATCHES = 200
"""Enough for its mean: the first hundred batches are not counted by its own default."""
BATCHES_BY_HAND = 10_000
"""As in the vSphere RDG; the job's deadline ends them."""
RANKS_APART = 0.02
"""How far the totals of ranks that run in step may differ."""
STEPS_APART = 0.10
"""The last step's mean leaves out what passes between steps, such as checkpoints; the total does
not."""


class TfCnnBenchmark(TrainingBenchmark):
    """ResNet-50 with synthetic data and the options of the vSphere RDG."""

    def program(self, workers: Workers, *, by_hand: bool = False) -> MpiProgram:
        script = f"{SCRIPTS}/tf_cnn_benchmarks/tf_cnn_benchmarks.py"
        options = (
            "--model=resnet50",
            "--batch_size=32",
            "--variable_update=horovod",
            "--use_fp16",
            "--xla=True",
        )
        batches = BATCHES_BY_HAND if by_hand else BATCHES
        words = ("python3", script, *options, f"--num_batches={batches}")
        # under Horovod each rank prints its own steps and total
        return MpiProgram(words=words, variables=horovod_variables(workers), tagged=True)

    def read(self, log: str, ranks: int) -> LogReading:
        total = total_of(log, ranks)
        details: dict[str, JsonValue] = {"total_img_s": round(total, 2), "ranks": ranks}
        return LogReading(samples=(total / ranks,), details=details)


def total_of(text: str, workers: int) -> float:
    """Images a second over all workers; every rank prints its own lines, which the launcher tags.

    Args:
        text: the log.
        workers: ranks of the job, which decide whether a printed total is of all of them or of one.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = lines_of(text)
    totals: dict[str | None, float] = {}
    for line in lines:
        if "total images/sec" in line.text:
            if line.rank in totals:
                raise ResultFormatError(
                    "two totals of one rank: two runs in one log, or ranks without tags"
                )
            totals[line.rank] = number(_matched(_TOTAL, line)[1], "total")
    if not totals:
        raise ResultFormatError(
            f"no total of tf_cnn_benchmarks among {plural(len(lines), 'line')}: it did not end"
        )
    values = sorted(totals.values())
    if values[0] <= 0 or values[-1] - values[0] > RANKS_APART * values[-1]:
        raise ResultFormatError(
            f"totals from {values[0]} to {values[-1]} images a second: two runs, or a damaged one"
        )
    _refuse_other_workers(lines, workers)
    of_one = set()
    for rank, total in totals.items():
        last_step = _last_step([line for line in lines if line.rank == rank])
        of_one.add(_is_one_worker_s(total, last_step, workers))
    if len(of_one) > 1:
        raise ResultFormatError(
            "by the steps of some ranks the total is that of all workers, by others' that of one"
        )
    middle = values[len(values) // 2]
    return middle * workers if of_one.pop() else middle


def _last_step(lines: list[Line]) -> float:
    """The mean of one worker since the start, as the last of its progress lines has it."""
    steps, images_s = [], 0.0
    for line in lines:
        if "images/sec:" in line.text and "total" not in line.text:
            match = _matched(_STEP, line)
            steps.append(integer(match[1], "step"))
            images_s = number(match[2], "images a second")
    if not steps:
        raise ResultFormatError("tf_cnn_benchmarks printed a total and no step: cut short")
    if steps != sorted(set(steps)):
        raise ResultFormatError(
            "steps of tf_cnn_benchmarks do not grow: ranks without tags, or two runs"
        )
    return images_s


def _refuse_other_workers(lines: list[Line], workers: int) -> None:
    """The global batch is that of a device times the devices of all workers."""
    batches, devices = _numbers(_GLOBAL, lines), _numbers(_PER_DEVICE, lines)
    if len(batches) > 1 or len(devices) > 1:
        raise ResultFormatError("batch sizes of tf_cnn_benchmarks differ between the ranks")
    if batches and devices:
        batch, device = batches.pop(), devices.pop()
        if not device or batch % (device * workers):
            raise ResultFormatError(
                f"a batch of {batch} over all and {device} a device cannot be of {workers} workers"
            )


def _is_one_worker_s(total: float, last_step: float, workers: int) -> bool:
    """The total against the last step's speed of one worker: the same, or as many times it as there
    are workers.

    With several devices in one worker both are that worker's, hence the same.
    """
    for times in (workers, 1):
        if last_step > 0 and abs(total / (times * last_step) - 1) <= STEPS_APART:
            return times == 1 and workers > 1
    raise ResultFormatError(
        f"a total of {total} images a second is neither one nor {workers} times the last step's "
        f"{last_step}"
    )


def _numbers(pattern: re.Pattern[str], lines: list[Line]) -> set[int]:
    matches = [pattern.match(line.text) for line in lines]
    return {integer(match[1], "batch size") for match in matches if match}


def _matched(pattern: re.Pattern[str], line: Line) -> re.Match[str]:
    match = pattern.match(line.text)
    if match is None:
        raise ResultFormatError(f"a damaged line of tf_cnn_benchmarks: {line.text[:80]!r}")
    return match

"""The training benchmarks, a file for each, named as `application.program` names it."""

from abc import ABC, abstractmethod
from typing import ClassVar

from pydantic import JsonValue

from components.by_name import class_named
from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.validation.records import Unit
from stacks.frozen import frozen

SCRIPTS = "/opt/benchmarks"


@frozen
class LogReading:
    """The numbers of a log."""

    samples: tuple[float, ...]
    """In the benchmark's unit, for one GPU; their median is the value."""
    details: dict[str, JsonValue]


class TrainingBenchmark(ABC):
    """One benchmark that the lab's training image holds.

    >>> class ToyNet(TrainingBenchmark):
    ...     def program(self, workers, *, by_hand=False):
    ...         return MpiProgram(words=("toy-net", "--epochs", "1"), variables={})
    ...
    ...     def read(self, log, ranks):
    ...         images_s = float(log.partition("images/s: ")[2])
    ...         return LogReading(samples=(images_s / ranks,), details={"ranks": ranks})
    >>> ToyNet().read("images/s: 680.5", ranks=2).samples
    (340.25,)
    """

    unit: ClassVar[Unit] = "img/s"
    about_s: ClassVar[float] = 180.0
    """Assumed for the estimate of a run: start of the framework, building the graph, all
    iterations."""

    @abstractmethod
    def program(self, workers: Workers, *, by_hand: bool = False) -> MpiProgram:
        """The command that the launcher runs; by hand it may take as long as the job's deadline
        allows.
        """

    @abstractmethod
    def read(self, log: str, ranks: int) -> LogReading:
        """The numbers of the launcher's log.

        Raises:
            ResultFormatError: when it holds none, or contradicts itself.
        """


def training_benchmark(name: str) -> TrainingBenchmark:
    """The benchmark that `benchmarks.application.program` names."""
    benchmark: type[TrainingBenchmark] = class_named(__name__, name, TrainingBenchmark)
    return benchmark()


def horovod_variables(workers: Workers) -> dict[str, str]:
    """With RDMA, Horovod must not use MPI from several threads; over TCP it may (vSphere RDG)."""
    return {"HOROVOD_MPI_THREADS_DISABLE": "0" if workers.transport == "tcp" else "1"}

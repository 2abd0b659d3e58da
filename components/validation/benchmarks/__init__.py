"""The benchmarks. A training benchmark is a file, named by `application.program`; the others have a folder."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

from components.by_name import class_named
from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.validation.records import Unit

SCRIPTS = "/opt/benchmarks"
"""Where the training image keeps the scripts that it fetched at their pinned commits."""
ALL_REDUCE, MPI_ALL_REDUCE = "nccl_all_reduce", "mpi_all_reduce"
"""The collectives on GPUs and on CPUs; they are not training benchmarks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogReading:
    """The numbers of a log."""

    samples: tuple[float, ...]
    """In the benchmark's unit, for one GPU; their median is the value."""
    details: dict[str, JsonValue]
    """Shown, never judged."""


class TrainingBenchmark(ABC):
    """One benchmark that the lab's training image holds."""

    unit: ClassVar[Unit] = "img/s"
    about_s: ClassVar[float] = 180.0
    """Assumed for the estimate of a run: start of the framework, building the graph, all iterations."""

    @abstractmethod
    def program(self, workers: Workers, *, by_hand: bool = False) -> MpiProgram:
        """The command that the launcher runs; by hand it may take as long as the job's deadline allows."""

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


def unit_of(program: str) -> Unit:
    """Unit of a job's value."""
    return "GB/s" if program in {ALL_REDUCE, MPI_ALL_REDUCE} else training_benchmark(program).unit

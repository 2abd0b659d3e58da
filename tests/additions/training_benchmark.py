"""A benchmark that prints one number, as `components/validation/benchmarks/training/toy_net.py`."""

from components.jobs.mpijob import MpiProgram
from components.jobs.workers import Workers
from components.validation.benchmarks.training import LogReading, TrainingBenchmark


class ToyNet(TrainingBenchmark):
    about_s = 60.0

    def program(self, workers: Workers, *, by_hand: bool = False) -> MpiProgram:
        return MpiProgram(words=("toy-net", "--epochs", "9" if by_hand else "1"), variables={})

    def read(self, log: str, ranks: int) -> LogReading:
        return LogReading(samples=(float(log) / ranks,), details={"ranks": ranks})

"""The tests of a plan in their order, and how long each takes: pure, from assumed speeds."""

from collections.abc import Iterator
from typing import Literal

from components.validation.planning.schedule import Schedule
from components.validation.records import Flow, Frozen, Outcome, TransferResult
from stacks.benchmarks import Shape, VerbsTest

HARDWARE_RUN_S = 2.5
"""Around the data of one run: server, rendezvous, memory registration, client."""
SIMULATED_RUN_S = 2.0
"""Little memory to register, and slow machines."""
HARDWARE_GBIT_S = 22.5
"""Assumed for the estimate only: a 25 Gbit/s NIC, the slowest that is sold for RoCE, at 90 %."""
SIMULATED_GBIT_S = 0.1
"""Soft-RoCE between emulated NICs carries 0.02 to 0.2 Gbit/s; it takes what the machine has left."""
HARDWARE_ROUND_TRIP_S = 10e-6
SIMULATED_ROUND_TRIP_S = 3e-3
MOST_QUEUE_PAIRS = 64
"""The most that are tried where the lab leaves their number open."""
MOST_AUTO_RUNS = 4
"""Runs that finding the number of queue pairs usually takes: up to 2, and two that no longer help."""


class Stage(Frozen):
    """One test in one shape."""

    test: VerbsTest
    shape: Shape = "one_way"
    message_bytes: int
    """0 for shape sizes."""
    iterations: int
    repeats: int = 1

    @property
    def name(self) -> str:
        """The name in progress lines and raw outputs."""
        return self.test if self.shape == "one_way" else f"{self.test}-{self.shape}"

    @property
    def bandwidth(self) -> bool:
        """Whether it measures a bandwidth."""
        return self.test.endswith("_bw")

    def result(self, flow: Flow, outcome: Outcome, *reasons: str) -> TransferResult:
        """A result without a value."""
        return TransferResult(test=self.test, shape=self.shape, **flow._asdict(), outcome=outcome, reasons=reasons)


class VerbsPlan(Frozen):
    """perftest between the PFs."""

    tests: tuple[VerbsTest, ...]
    """Bandwidths first."""
    schedule: Schedule
    samples: int = 0
    """Rounds of random pairs of schedule sampled."""
    both_ways: bool = False
    sizes: tuple[int, ...] = ()
    size_pairs: int = 1
    incast: int = 0
    message_bytes: int
    latency_bytes: int
    iterations: int
    latency_iterations: int
    size_iterations: int
    duration_s: int | None = None
    """Bandwidths for a time instead of `iterations`."""
    traffic_class: int | None = None
    """TOS byte of the lab's RoCE traffic; None where the lab has no quality of service."""
    rdma_cm: bool = False
    """Whether queue pairs are connected by the RDMA connection manager."""
    queue_pairs: int | Literal["auto"]
    first_port: int
    timeout_s: int
    repeats: int

    @property
    def test(self) -> VerbsTest:
        """The one by which rails are compared."""
        return self.tests[0]

    @property
    def pinned_bytes(self) -> int:
        """Memory that the largest run pins, without its queues.

        perftest has a buffer to send from and another one to receive into for each queue pair (perftest_resources.c).
        """
        queue_pairs = MOST_QUEUE_PAIRS if self.queue_pairs == "auto" else self.queue_pairs
        return 2 * max(self.message_bytes * queue_pairs, *self.sizes, 0)

    def duration_of(self, stage: Stage) -> int | None:
        """Seconds of one of its runs; None where messages are counted, as for latencies and each point of a curve."""
        return self.duration_s if stage.bandwidth and stage.shape != "sizes" else None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All tests in the order in which they run: a later one only where the earlier ones worked."""
        return tuple(self._stages())

    def _stages(self) -> Iterator[Stage]:
        bandwidths = [test for test in self.tests if test.endswith("_bw")]
        latencies = [test for test in self.tests if test.endswith("_lat")]
        count = {"message_bytes": self.message_bytes, "iterations": self.iterations}
        for test in bandwidths:
            yield Stage(test=test, repeats=self.repeats, **count)
        if self.both_ways:
            for test in bandwidths:
                yield Stage(test=test, shape="both_ways", repeats=self.repeats, **count)
        for test in latencies:
            yield Stage(
                test=test, message_bytes=self.latency_bytes, iterations=self.latency_iterations, repeats=self.repeats
            )
        if self.sizes:
            for test in (*bandwidths[:1], *latencies[:1]):
                yield Stage(test=test, shape="sizes", message_bytes=0, iterations=self.size_iterations)
        if self.incast:
            yield Stage(test=bandwidths[0], shape="incast", repeats=self.repeats, **count)


def stage_s(verbs: VerbsPlan, stage: Stage, rounds: int, *, simulated: bool) -> float:
    """How long a stage of so many rounds takes."""
    if stage.shape == "sizes":
        return rounds * sum(_run_s(verbs, stage, size, simulated=simulated) for size in verbs.sizes)
    shared = verbs.incast if stage.shape == "incast" else 1  # the senders share the receiver's port
    return rounds * stage.repeats * _run_s(verbs, stage, stage.message_bytes * shared, simulated=simulated)


def warm_up_s(verbs: VerbsPlan, *, simulated: bool) -> float:
    """The rounds before those that count."""
    stage = verbs.stages[0]
    runs = MOST_AUTO_RUNS if stage.bandwidth and verbs.queue_pairs == "auto" else 1
    return runs * _run_s(verbs, stage, stage.message_bytes, simulated=simulated)


def _run_s(verbs: VerbsPlan, stage: Stage, message_bytes: int, *, simulated: bool) -> float:
    around_s = SIMULATED_RUN_S if simulated else HARDWARE_RUN_S
    if (duration_s := verbs.duration_of(stage)) is not None:
        return around_s + duration_s
    rate = SIMULATED_GBIT_S if simulated else HARDWARE_GBIT_S
    data_s = stage.iterations * message_bytes * 8 / 1e9 / rate
    if stage.bandwidth:
        return around_s + data_s
    return around_s + 2 * data_s + stage.iterations * (SIMULATED_ROUND_TRIP_S if simulated else HARDWARE_ROUND_TRIP_S)

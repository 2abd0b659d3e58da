"""The tests between PFs: their order and time, and rounds of transfers that share no NIC. Pure."""

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from components.physics.ceilings import Operation
from components.validation.benchmarks.verbs.perftest import ROUND_TRIP
from components.validation.records import Flow, Frozen, Outcome, TransferResult
from stacks.benchmarks import Shape, VerbsTest
from stacks.frozen import frozen

Schedule = Literal["pairs", "ring", "sampled"]
Pairs = list[tuple[str, str]]


class Transfer(NamedTuple):
    """One directed run: the client writes into the server's memory over one rail."""

    rail: str
    client: str
    server: str
    port: int
    """TCP port where the two ends meet; of its own for each rail, since a node serves all its rails
    at once."""

    @property
    def flow(self) -> Flow:
        """The transfer in any schedule of any run."""
        return Flow(self.rail, self.client, self.server)


def pair_rounds(names: Sequence[str]) -> Iterator[Pairs]:
    """Rounds of disjoint pairs, each unordered pair exactly once (circle method: one stays, the
    others rotate).
    """
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in range(len(circle) - 1):
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in pairs if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]


def ring_rounds(names: Sequence[str]) -> Iterator[Pairs]:
    """Each with the next one, the last with the first: two rounds, and a third where the count is
    odd.
    """
    steps = []
    if len(names) > 2:
        steps = [(names[i], names[(i + 1) % len(names)]) for i in range(len(names))]
    if len(names) == 2:
        yield [(names[0], names[1])]
    even = len(steps) - len(steps) % 2
    for pairs in (steps[0:even:2], steps[1:even:2], steps[even:]):
        if pairs:
            yield pairs


def sampled_rounds(names: Sequence[str], samples: int, seed: str) -> Iterator[Pairs]:
    """The ring, then rounds of random pairs that have not met; the same seed and names give the
    same rounds.
    """
    met: set[frozenset[str]] = set()
    for pairs in ring_rounds(names):
        met.update(map(frozenset, pairs))
        yield pairs
    shuffled = list(names)
    number = int.from_bytes(hashlib.sha256("\n".join((seed, *names)).encode()).digest())
    random.Random(number).shuffle(shuffled)  # noqa: S311  # a sample, nothing to keep secret
    # of a circle in random order any round is a random pairing, and no two rounds repeat a pair
    for pairs in islice(pair_rounds(shuffled), samples):
        if rest := [(a, b) for a, b in pairs if frozenset((a, b)) not in met]:
            yield rest


def rounds_of(schedule: Schedule, names: Sequence[str], samples: int, seed: str) -> Iterator[Pairs]:
    """The rounds of pairs that a schedule is."""
    if schedule == "ring":
        return ring_rounds(names)
    if schedule == "pairs":
        return pair_rounds(names)
    return sampled_rounds(names, samples, seed)


def directed(
    rounds: Iterator[Pairs], ends: Mapping[str, Sequence[str]], first_port: int
) -> Iterator[list[Transfer]]:
    """Both directions of each round in turn, on all rails that the two nodes have in common.

    Args:
        rounds: of pairs.
        ends: the nodes of each rail; a node may miss one.
        first_port: of the first rail; each further rail takes the next one.
    """
    for pairs in rounds:
        for turned in (False, True):
            if transfers := _on_rails(
                [(b, a) if turned else (a, b) for a, b in pairs], ends, first_port
            ):
                yield transfers


def in_one_direction(
    rounds: Iterator[Pairs], ends: Mapping[str, Sequence[str]], first_port: int
) -> Iterator[list[Transfer]]:
    """Each pair once, for tests in which both directions run at the same time."""
    for pairs in rounds:
        if transfers := _on_rails(pairs, ends, first_port):
            yield transfers


def incast_rounds(
    ends: Mapping[str, Sequence[str]], senders: int, first_port: int
) -> Iterator[list[Transfer]]:
    """On one rail after the other, `senders` nodes send to the first node; any port would do."""
    for rail, nodes in ends.items():
        if len(nodes) > senders:
            server, *clients = nodes[: senders + 1]
            numbered = enumerate(clients, first_port)
            yield [Transfer(rail, client, server, port) for port, client in numbered]


def _on_rails(pairs: Pairs, ends: Mapping[str, Sequence[str]], first_port: int) -> list[Transfer]:
    rails = list(zip(ends, map(frozenset, ends.values()), strict=True))
    transfers = []
    for client, server in pairs:
        for port, (rail, members) in enumerate(rails, first_port):
            if client in members and server in members:
                transfers.append(Transfer(rail, client, server, port))
    return transfers


HARDWARE_RUN_S = 2.5
"""Around the data of one run: server, rendezvous, memory registration, client."""
SIMULATED_RUN_S = 2.0
HARDWARE_GBIT_S = 22.5
"""Assumed for the estimate only: a 25 Gbit/s NIC, the slowest that is sold for RoCE, at 90 %."""
SIMULATED_GBIT_S = 0.1
"""Soft-RoCE between emulated NICs carries 0.02 to 0.2 Gbit/s; it takes what the machine has
left."""
HARDWARE_ROUND_TRIP_S = 10e-6
SIMULATED_ROUND_TRIP_S = 3e-3
MOST_QUEUE_PAIRS = 64
MOST_AUTO_RUNS = 4
"""Runs that finding the number of queue pairs usually takes: up to 2, and two that no longer
help."""


@frozen
class VerbsProgram:
    """One program; its name ends in `_bw` or `_lat`."""

    title: str
    operation: Operation | None = None
    server_sends: bool = False

    @property
    def round_trip(self) -> bool:
        """Whether a latency is that of the way there and back; the others print half of it."""
        return self.operation is None and self.title.split()[0] in ROUND_TRIP


PROGRAMS: dict[VerbsTest, VerbsProgram] = {
    "ib_write_bw": VerbsProgram(title="RDMA_Write BW Test", operation="write"),
    "ib_send_bw": VerbsProgram(title="Send BW Test", operation="send"),
    "ib_read_bw": VerbsProgram(title="RDMA_Read BW Test", operation="read", server_sends=True),
    "ib_write_lat": VerbsProgram(title="RDMA_Write Latency Test"),
    "ib_send_lat": VerbsProgram(title="Send Latency Test"),
    "ib_read_lat": VerbsProgram(title="RDMA_Read Latency Test"),
}


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
        if self.shape == "one_way":
            return self.test
        return f"{self.test}-{self.shape}"

    @property
    def bandwidth(self) -> bool:
        """Whether it measures a bandwidth."""
        return self.test.endswith("_bw")

    @property
    def program(self) -> VerbsProgram:
        """What runs it."""
        return PROGRAMS[self.test]

    @property
    def title(self) -> str:
        """The title that its program prints."""
        title = self.program.title
        if self.shape == "both_ways":
            return title.replace(" BW", " Bidirectional BW")
        return title

    def result(self, flow: Flow, outcome: Outcome, *reasons: str) -> TransferResult:
        """A result without a value."""
        return TransferResult(
            test=self.test, shape=self.shape, **flow._asdict(), outcome=outcome, reasons=reasons
        )


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

        perftest has a buffer to send from and another one to receive into for each queue pair
        (perftest_resources.c).
        """
        if self.queue_pairs == "auto":
            queue_pairs = MOST_QUEUE_PAIRS
        else:
            queue_pairs = self.queue_pairs
        return 2 * max(self.message_bytes * queue_pairs, *self.sizes, 0)

    def duration_of(self, stage: Stage) -> int | None:
        """Seconds of one of its runs; None where messages are counted, as for latencies and each
        point of a curve.
        """
        if stage.bandwidth and stage.shape != "sizes":
            return self.duration_s
        return None

    @property
    def stages(self) -> tuple[Stage, ...]:
        """All tests in the order in which they run: a later one only where the earlier ones
        worked.
        """
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
                test=test,
                message_bytes=self.latency_bytes,
                iterations=self.latency_iterations,
                repeats=self.repeats,
            )
        if self.sizes:
            for test in (*bandwidths[:1], *latencies[:1]):
                yield Stage(
                    test=test, shape="sizes", message_bytes=0, iterations=self.size_iterations
                )
        if self.incast:
            yield Stage(test=bandwidths[0], shape="incast", repeats=self.repeats, **count)


def stage_s(verbs: VerbsPlan, stage: Stage, rounds: int, *, simulated: bool) -> float:
    """How long a stage of so many rounds takes."""
    if stage.shape == "sizes":
        return rounds * sum(_run_s(verbs, stage, size, simulated=simulated) for size in verbs.sizes)
    shared = verbs.incast if stage.shape == "incast" else 1  # the senders share the receiver's port
    return (
        rounds
        * stage.repeats
        * _run_s(verbs, stage, stage.message_bytes * shared, simulated=simulated)
    )


def warm_up_s(verbs: VerbsPlan, *, simulated: bool) -> float:
    """The rounds before those that count."""
    stage = verbs.stages[0]
    runs = 1
    if stage.bandwidth and verbs.queue_pairs == "auto":
        runs = MOST_AUTO_RUNS
    return runs * _run_s(verbs, stage, stage.message_bytes, simulated=simulated)


def _run_s(verbs: VerbsPlan, stage: Stage, message_bytes: int, *, simulated: bool) -> float:
    around_s = SIMULATED_RUN_S if simulated else HARDWARE_RUN_S
    if (duration_s := verbs.duration_of(stage)) is not None:
        return around_s + duration_s
    rate = SIMULATED_GBIT_S if simulated else HARDWARE_GBIT_S
    data_s = stage.iterations * message_bytes * 8 / 1e9 / rate
    if stage.bandwidth:
        return around_s + data_s
    return (
        around_s
        + 2 * data_s
        + stage.iterations * (SIMULATED_ROUND_TRIP_S if simulated else HARDWARE_ROUND_TRIP_S)
    )

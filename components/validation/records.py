"""The record of a run: measured facts, without any verdict that a threshold could change."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Sized
from statistics import median
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from stacks.benchmarks import Shape, VerbsTest
from stacks.frozen import frozen

Outcome = Literal["measured", "failed", "skipped", "error"]
"""failed: it ran and did not do what the plan demands. skipped: it was not run, on purpose. error:
it could not be run, or its output cannot be read, so nothing is known about the fabric. Only
measured is ever a pass."""

Unit = Literal["Gbit/s", "us", "GB/s", "img/s"]
"""Gbit/s are 10^9 bits, GB/s 10^9 bytes a second; us one way, but for ib_read_lat, which is a round
trip."""


def outcome_of(faults: Sized) -> Outcome:
    """The outcome of what ran, and contradicts its plan in so many ways."""
    return "failed" if faults else "measured"


def unit_of(test: VerbsTest) -> Unit:
    """The unit of a test's values."""
    return "Gbit/s" if test.endswith("_bw") else "us"


def unit_text(unit: str) -> str:
    """A unit as text for people."""
    return "µs" if unit == "us" else unit


def raw_names(rail: str, stage: str, client: str, server: str, runs: int) -> tuple[str, ...]:
    """Names of the client outputs of a transfer, from which its values were read; the server's are
    named alike.
    """
    return tuple(f"{rail}/{stage}/{client}-to-{server}/{number}.client" for number in range(runs))


class Frozen(BaseModel):
    """Base of everything that is stored: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def replace(self, **fields: object) -> Self:
        """A copy with other values in these fields, which are not checked again."""
        return self.model_copy(update=fields)


class Flow(NamedTuple):
    """One directed transfer; a plain tuple of the three is the same key."""

    rail: str
    client: str
    server: str

    def __str__(self) -> str:
        return f"{self.rail} {self.client} to {self.server}"


class CurvePoint(Frozen):
    """One message size of a test over many."""

    message_bytes: int
    value: float
    tail: float | None = None
    """99th percentile of a latency."""
    time_us: float | None = Field(default=None, exclude_if=lambda time: time is None)
    """How long a collective of this size took; None for other tests."""


class HcaCount(Frozen):
    """All traffic that the physical HCA below one end counted, and what was written through it."""

    machine: str
    way: Literal["sent", "received"]
    hca: str = ""
    """ESXi host and RDMA device, such as `esx1 vmrdma0`; empty where it is unknown."""
    written_bytes: int = 0
    """Payload of all transfers through it at that time in this direction."""
    counted_bytes: int | None = None
    why: str = ""


class FlowResult(Frozen):
    """What became of one directed transfer."""

    rail: str
    client: str
    """Node that sent and measured."""
    server: str
    outcome: Outcome

    @property
    def flow(self) -> Flow:
        """Between which nodes, on which rail."""
        return Flow(self.rail, self.client, self.server)

    def ends_at(self, nodes: Container[str]) -> bool:
        """Whether one of these nodes is an end of it."""
        return self.client in nodes or self.server in nodes


class TransferResult(FlowResult):
    """One directed perftest run between two PFs of a rail, repeats included."""

    test: VerbsTest = "ib_write_bw"
    shape: Shape = "one_way"
    reasons: tuple[str, ...] = ()
    samples: tuple[float, ...] = ()
    """One value a repeat: average bandwidth, or typical latency."""
    tail_us: tuple[float, ...] = ()
    """99th percentile of each repeat of a latency test."""
    curve: tuple[CurvePoint, ...] = ()
    """Values by message size, of shape sizes."""
    retest: tuple[float, ...] = ()
    """Values with half as many at once; 0 for a repetition that failed."""
    retest_raw: tuple[str, ...] = ()
    retest_at_once: int = 0
    """Most transfers at once during the repetitions."""
    failed_once: str = ""
    """Why one of its tries failed, as `outcome: reason`; another one was measured."""
    failed_at_once: int = 0
    """Transfers at once during the try that failed."""
    at_once: int = 0
    """Transfers at once, this one included; 0 if unknown."""
    after_s: float = 0
    """Seconds from the start of the run to its own, which shows drift."""
    path_mtu_bytes: int | None = None
    """As the client's header printed it; without rdma_cm that is what the queue pair used."""
    queue_pairs: int | None = None
    """The number from which more did not help."""
    line_rate_gbit_s: float | None = None
    """Of the slower port; None where a port reports none."""
    pcie_gbit_s: float | None = None
    """Data that the narrower of the two PCIe links carries."""
    ports_on_slot: int = 1
    """Rails that ran at once over that link."""
    client_gid_index: int | None = None
    server_gid_index: int | None = None
    counters: dict[str, int] = {}
    """Growth of the ports' error and congestion counters."""
    hcas: tuple[HcaCount, ...] = ()
    """Of a bandwidth over PVRDMA: the sender, then the receiver of the data."""
    same_host: str = ""
    """ESXi host of both ends: a memory copy does not use the fabric, so it was left out."""
    raw: tuple[str, ...] = ()
    """Names of the outputs in the run's bundle."""

    @property
    def unit(self) -> Unit:
        """The unit of the samples."""
        return unit_of(self.test)

    @property
    def value(self) -> float:
        """The median over the repeats."""
        return median(self.samples)

    @property
    def has_value(self) -> bool:
        """Whether it was measured and has one value, not a curve of them."""
        return self.outcome == "measured" and bool(self.samples)

    @property
    def second_try(self) -> bool:
        """Whether it failed in its round, and its values are those of a try with fewer at once."""
        return bool(self.failed_once) and not self.retest


def outcome_counts(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many results have each outcome, by the names of `JudgedTest`."""
    count = Counter(outcomes)
    return {
        "measured": count["measured"],
        "failed": count["failed"],
        "skipped": count["skipped"],
        "errors": count["error"],
    }


def median_of(transfers: Iterable[TransferResult]) -> float | None:
    """Median over the measured transfers; None without one."""
    values = []
    for t in transfers:
        if t.outcome == "measured" and t.samples:
            values.append(t.value)
    return round(median(values), 6) if values else None


@frozen
class RailTest:
    """One test on one rail, pair by pair."""

    transfers: Sequence[TransferResult]
    values: Mapping[tuple[str, str], float]
    """By client and server."""
    reference: float
    """The value of a share of 1."""
    basis: str

    @property
    def test(self) -> str:
        return self.transfers[0].test

    @property
    def shape(self) -> str:
        return self.transfers[0].shape

    @property
    def rail(self) -> str:
        return self.transfers[0].rail

    @property
    def unit(self) -> Unit:
        return self.transfers[0].unit

    @property
    def nodes(self) -> list[str]:
        return sorted({node for t in self.transfers for node in (t.client, t.server)})

    def share(self, pair: tuple[str, str]) -> float:
        """How good a pair is against the reference: 1 is as good as it, less is worse, whatever the
        unit.
        """
        value = self.values[pair]
        if value <= 0 or self.reference <= 0:
            return 0.0
        if self.unit == "us":
            return self.reference / value
        return value / self.reference


class LogResult(Frozen):
    """What became of one MPIJob, as far as every launcher's log shows it."""

    outcome: Outcome
    reasons: tuple[str, ...] = ()
    job: str = ""
    replayed: bool = False
    """A simulated node replayed a log of other machines."""
    off_rail: tuple[str, ...] = ()
    """A few channels of NCCL off the rails or across them, in words."""
    unchecked: tuple[str, ...] = ()
    """A few hosts whose channels use adapters that NCCL's log does not name."""
    curve: tuple[CurvePoint, ...] = ()
    """Out-of-place busbw by message size, of a collective."""
    raw: str = ""

    def shown(self, value: float | None, unit: str) -> str:
        """What became of it in a progress line."""
        replayed = " (replayed)" if self.replayed else ""
        if value is None:
            number = "; ".join(self.reasons)
        else:
            number = f"{value:.2f} {unit}"
        return f"{self.outcome}{replayed}: {number}"


class NcclResult(LogResult):
    """One all-reduce job over all nodes."""

    busbw_gbyte_s: float | None = None
    """Out-of-place busbw of the largest row, in 10^9 bytes a second."""
    average_busbw_gbyte_s: float | None = None
    """Mean over all sizes: no metric, as it depends on them; it proves that the table is whole."""
    wrong: int | None = None
    """Elements that came out wrong; None where the run did not check."""
    transport: Literal["ib", "socket"] | None = None
    network: dict[str, JsonValue] = {}


class GpuTransfer(FlowResult):
    """One transfer between the memories of the GPUs nearest to its two NICs; skipped where a host
    cannot do that.
    """

    reason: str = ""
    gbit_s: float | None = None
    host_gbit_s: float | None = None
    """The same transfer between the hosts' memories, earlier in the run."""
    gpus: tuple[str, ...] = ()
    """perftest's options for the memory of client and server."""
    far: tuple[str, ...] = ()
    """Nodes whose NIC and GPU are on different NUMA nodes: the value is not judged."""
    raw: str = ""

    @property
    def ratio(self) -> float:
        """GPU memory to host memory; 0 where either is not known."""
        if self.host_gbit_s:
            return (self.gbit_s or 0.0) / self.host_gbit_s
        return 0.0


class Loopback(Frozen):
    """A NIC that wrote to itself, without any network."""

    node: str
    rail: str
    outcome: Outcome
    reason: str = ""
    gbit_s: float | None = None
    line_rate_gbit_s: float | None = None
    pcie_gbit_s: float | None = None
    gpu: str = ""
    """PCI address of the nearest GPU; empty where there is none."""
    far: bool = False
    """Whether NIC and GPU are on different NUMA nodes."""
    gpu_gbit_s: float | None = None
    """The same from and to that GPU's memory."""
    gpu_reason: str = ""
    raw: str = ""

    @property
    def place(self) -> str:
        return f"{self.node} {self.rail}"


class GpuCopy(Frozen):
    """Copies between the host's pinned memory and a GPU, in 10^9 bytes a second."""

    node: str
    gpu: str
    """PCI address; empty for all GPUs of the node."""
    outcome: Outcome
    reason: str = ""
    to_gpu_gbyte_s: float | None = None
    to_host_gbyte_s: float | None = None
    ceiling_gbyte_s: float | None = None

    @property
    def place(self) -> str:
        return f"{self.node} {self.gpu or 'GPUs'}"


class NodesAlone(Frozen):
    """Every node by itself."""

    loopbacks: tuple[Loopback, ...] = ()
    copies: tuple[GpuCopy, ...] = ()


class NodeRing(Frozen):
    """The all-reduce within one node alone."""

    node: str
    """The pod instead, if its node is unknown."""
    outcome: Outcome
    reason: str = ""
    busbw_gbyte_s: float | None = None
    through_host: bool = False
    """Whether GPUs exchanged data through the host's memory."""

    @property
    def of_itself(self) -> float:
        """Its busbw; 0 where it has none."""
        return self.busbw_gbyte_s or 0.0


class RingResult(Frozen):
    """NCCL's ring over some of the nodes, run because the one over all was slow."""

    nodes: tuple[str, ...]
    busbw_gbyte_s: float | None
    """None: it failed."""


class RailInPods(Frozen):
    """One rail as the pods of all nodes reported it, in numbers."""

    rail: str
    pods: int
    pairs: int
    reached: int
    """Pairs whose pods answered frames of the full MTU."""
    apart: int = 0
    """Interfaces of other rails that rightly did not answer on this one."""
    mtu_bytes: dict[str, int] = {}


class PodFault(Frozen):
    """One fault of a rail in a pod."""

    code: str
    node: str
    """Both nodes of a pair; empty: all nodes of the rail."""
    rail: str = ""
    """Empty: all rails."""
    what: str
    hint: str = ""


class PodRails(Frozen):
    """The rails from inside pods, one on each node."""

    outcome: Outcome
    reason: str = ""
    played: bool = False
    """Skipped since no pod of this lab is real: it enters no verdict."""
    rails: tuple[RailInPods, ...] = ()
    faults: tuple[PodFault, ...] = ()
    left_out: int = 0


class JobResult(LogResult):
    """One job of a comparison of transports or of an application; a transport may have several, in
    their order.
    """

    program: str
    transport: Literal["roce", "tcp", "host"]
    unit: Unit
    samples: tuple[float, ...] = ()
    """Per iteration, or one value."""
    dropped: tuple[float, ...] = ()
    """Outliers among the samples, which keep them."""
    value: float | None = None
    """Median without the outliers."""
    details: dict[str, JsonValue] = {}
    """Other facts from the log: shown, never judged."""


class MeasuredHost(Frozen):
    """A host as it was measured. NIC and kernel are what it reported to the Fleet."""

    nic: str = ""
    driver: str = ""
    firmware: str = ""
    kernel: str = ""
    cpu_vendor: str = ""
    """As /proc/cpuinfo has it, such as `AuthenticAMD`; empty on Arm, which has none."""
    perftest: str = ""
    mtu_bytes: dict[str, int] = {}
    line_rate_gbit_s: dict[str, float] = {}
    """By RDMA device."""
    pcie: dict[str, str] = {}
    """By RDMA device, such as `16.0 GT/s x16`."""
    numa_node: dict[str, int] = {}
    """By RDMA device."""
    slot: dict[str, str] = {}
    """PCI address without the function, by RDMA device: the ports of a NIC share its link."""


class RunHead(Frozen):
    """Which run something belongs to."""

    run_id: str
    started_at: str
    """RFC 3339, UTC."""
    duration_s: float
    simulated: bool
    fingerprint: str = ""
    """Digest of what makes the run obsolete; empty for a run by hand."""
    raw_sha256: str = ""
    """Digest of the raw outputs' file."""

    @property
    def head(self) -> dict[str, Any]:
        """These fields alone."""
        return {name: getattr(self, name) for name in RunHead.model_fields}


class RunRecord(RunHead):
    """The measurements of one run, from which the verdict follows."""

    plan_digest: str
    alone: NodesAlone | None = Field(default=None, exclude_if=lambda alone: alone is None)
    transfers: tuple[TransferResult, ...]
    pods: PodRails | None = None
    gpu_memory: tuple[GpuTransfer, ...] = ()
    rings: tuple[NodeRing, ...] = ()
    nccl: NcclResult | None = None
    smaller_rings: tuple[RingResult, ...] = Field(default=(), exclude_if=lambda rings: not rings)
    jobs: tuple[JobResult, ...] = ()
    hosts: dict[str, MeasuredHost] = {}
    unmeasured: dict[str, str] = Field(default={}, exclude_if=lambda why: not why)
    """Why a node took no part in the tests between nodes, by node."""
    notes: tuple[str, ...] = ()

    def rail_tests(self, ceilings: Mapping[tuple[str, str, str | None], float]) -> list[RailTest]:
        """Each test that measured pairs, in the order in which they ran.

        Args:
            ceilings: by test, shape and rail; a test without one is compared with its median.
        """
        by_test: dict[tuple[str, str, str], list[TransferResult]] = {}
        for t in self.transfers:
            if t.shape in ("one_way", "both_ways"):
                by_test.setdefault((t.test, t.shape, t.rail), []).append(t)
        tests = []
        for key, transfers in by_test.items():
            values = {(t.client, t.server): t.value for t in transfers if t.has_value}
            if not values:
                continue
            reference, basis = median(values.values()), "the median of the rail"
            if key in ceilings:
                reference, basis = ceilings[key], "the ceiling"
            test = RailTest(transfers=transfers, values=values, reference=reference, basis=basis)
            tests.append(test)
        return tests

    def transfers_of(self, test: str, shape: str, rail: str) -> list[TransferResult]:
        """The results of one test on one rail, whatever their outcome."""
        return [t for t in self.transfers if (t.test, t.shape, t.rail) == (test, shape, rail)]

    def measured_of(self, test: str, shape: str, rail: str) -> list[TransferResult]:
        """Those of them that were measured."""
        return [t for t in self.transfers_of(test, shape, rail) if t.outcome == "measured"]

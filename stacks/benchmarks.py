"""What is measured on the finished lab, how long that may take, and which values pass."""

from typing import Literal, Self

from pydantic import Field, model_validator

from stacks.base import Name, Ratio, Seconds, Section, repeated
from stacks.bill import Image
from stacks.delivery import LabelKey, LabelValue
from stacks.transports import Application, Comparison, Runner

VerbsTest = Literal[
    "ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat", "ib_send_lat", "ib_read_lat"
]
Shape = Literal["one_way", "both_ways", "sizes", "incast"]
"""both_ways: the value is the sum of the directions. sizes: one transfer over many message sizes.
incast: n to one."""

MOST_SENDERS = 8
"""Enough to send several times what one port receives."""
LARGEST_MESSAGE_BYTES = 8_388_608
"""The end of perftest's own sweep, 2^23."""
ITERATIONS = 5000
"""Messages of a bandwidth run where neither a count nor a time is given."""
HARDWARE_DURATION_S = 5
CURVE_BYTES = (2, 16, 128, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576, 8_388_608)


class Threshold(Section):
    """Ratios of a measured median to its ceiling. Published health checks agree on 90 to 95 % of
    the line rate.
    """

    fail_below: Ratio = 0.90
    warn_below: Ratio = 0.97

    @model_validator(mode="after")
    def _fail_lies_below_warn(self) -> Self:
        if self.fail_below > self.warn_below:
            raise ValueError(
                f"fail_below {self.fail_below} is above warn_below {self.warn_below}; swap them"
            )
        return self


class LatencyThreshold(Section):
    """Microseconds for a typical small message. Latency has no ceiling, so the bounds are
    absolute.
    """

    warn_above_us: float = Field(default=5.0, gt=0)
    fail_above_us: float = Field(default=10.0, gt=0)

    @model_validator(mode="after")
    def _warn_lies_below_fail(self) -> Self:
        if self.warn_above_us > self.fail_above_us:
            raise ValueError(
                f"warn_above_us {self.warn_above_us} is above fail_above_us {self.fail_above_us}; "
                "swap them"
            )
        return self


class Verbs(Section):
    """perftest between the hosts, on each rail and in both directions."""

    tests: tuple[VerbsTest, ...] = Field(default=("ib_write_bw", "ib_write_lat"), min_length=1)
    """Bandwidths are measured before latencies, whatever the order here."""
    schedule: Literal["auto", "pairs", "ring", "sampled"] = "auto"
    """pairs: each with each. ring: each with its neighbours. sampled: the ring and `samples` rounds
    of random pairs.

    auto: pairs up to 16 nodes and while they fit into budget_s, else sampled with as many samples
    as fit.
    """
    samples: int = Field(default=15, ge=1, le=256)
    """Rounds of random disjoint pairs beside the ring; auto may take fewer."""
    both_ways: bool = False
    """Measures each bandwidth also with both directions at once; the value is their sum."""
    sizes: tuple[int, ...] = CURVE_BYTES
    """Message sizes in bytes of the curve, one run each; empty for no curve."""
    size_pairs: int = Field(default=1, ge=1, le=32)
    """How many disjoint pairs the curve is measured on, on each of their rails."""
    incast: int = Field(default=0, ge=0, le=MOST_SENDERS)
    """Number of nodes that send to one at the same time; 0 skips the test. It can stop a fabric
    without PFC."""
    message_bytes: int = Field(default=65_536, ge=2, le=LARGEST_MESSAGE_BYTES)
    latency_bytes: int = Field(default=2, ge=1, le=LARGEST_MESSAGE_BYTES)
    iterations: int | None = Field(default=None, ge=100, le=1_000_000)
    """Messages of a bandwidth run that counts them; 5000 in the simulator, whose links carry about
    a thousandth of a real one. Without it, hardware measures for a time."""
    latency_iterations: int = Field(default=1000, ge=100, le=1_000_000)
    size_iterations: int = Field(default=1000, ge=5, le=1_000_000)
    """Messages of each point of a curve."""
    duration_s: int | None = Field(default=None, ge=2, le=600)
    """Seconds of a bandwidth run, whatever `iterations` says; 5 on hardware unless `iterations` is
    set. A count is over too soon to judge a fast link by (5000 messages of 64 KiB take 6.6 ms at
    400 Gbit/s), and trouble with PFC or ECN needs seconds to show."""
    rdma_cm: bool = False
    """Connects by the RDMA connection manager (`-R`), as the DeepOps RoCE guide does. The main
    routing table must then route to a rail's peers over that rail."""
    queue_pairs: int | Literal["auto"] = Field(default="auto")
    """Queue pairs of a bandwidth test; auto: doubled until more does not help, and recorded."""
    first_port: int = Field(default=18515, ge=1024, le=65_535)
    """TCP rendezvous port of the first rail; further rails follow it."""
    timeout_s: Seconds = 120
    """Time limit of one run, on client and server."""
    threshold: Threshold = Threshold()
    """Bounds for ib_write_bw and ib_send_bw."""
    threshold_read: Threshold = Threshold(fail_below=0.85, warn_below=0.95)
    """Bounds for ib_read_bw. Reads also depend on how many requests may be outstanding."""
    threshold_both_ways: Threshold = Threshold(fail_below=0.85, warn_below=0.92)
    threshold_pvrdma: Threshold = Threshold(fail_below=0.70, warn_below=0.85)
    threshold_pair: Threshold = Threshold(fail_below=0.90, warn_below=0.95)
    """Ratio of a pair to the median of its rail. A pair fails only after a second run with fewer
    others."""
    latency: LatencyThreshold = LatencyThreshold()
    latency_pvrdma: LatencyThreshold = LatencyThreshold(warn_above_us=15.0, fail_above_us=50.0)

    @model_validator(mode="after")
    def _tests_can_be_run(self) -> Self:
        if twice := repeated(self.tests):
            raise ValueError(f"tests lists {', '.join(twice)} twice; remove one")
        if (self.both_ways or self.incast) and not self.bandwidths:
            what = "both_ways" if self.both_ways else "incast"
            raise ValueError(
                f"{what} measures bandwidth, but tests lists only latency tests; add ib_write_bw"
            )
        if isinstance(self.queue_pairs, int) and not 1 <= self.queue_pairs <= 64:
            raise ValueError(f"queue_pairs is {self.queue_pairs}; set 1 to 64, or auto")
        return self

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        outside = [size for size in self.sizes if not 2 <= size <= LARGEST_MESSAGE_BYTES]
        if outside:
            raise ValueError(
                f"sizes has {outside[0]} bytes, but perftest sends 2 to {LARGEST_MESSAGE_BYTES}"
            )
        if list(self.sizes) != sorted(set(self.sizes)):
            raise ValueError("sizes are not ascending; write each size once, the smallest first")
        return self

    @model_validator(mode="after")
    def _a_run_ends_before_its_bound(self) -> Self:
        duration_s = self.duration_of(simulated=False)
        if duration_s is not None and self.timeout_s < duration_s + 10:
            raise ValueError(
                f"timeout_s {self.timeout_s} ends a run of duration_s {duration_s} before it can "
                f"report; set at least {duration_s + 10}"
            )
        return self

    def duration_of(self, *, simulated: bool) -> int | None:
        """Seconds of a bandwidth run; None where messages are counted."""
        by_default = None if simulated or self.iterations is not None else HARDWARE_DURATION_S
        return by_default if self.duration_s is None else self.duration_s

    @property
    def bandwidths(self) -> tuple[VerbsTest, ...]:
        """The bandwidth tests, ib_write_bw first: the others are compared with it."""
        bandwidth_tests = (test for test in self.tests if test.endswith("_bw"))
        return tuple(sorted(bandwidth_tests, key=lambda test: test != "ib_write_bw"))

    @property
    def latencies(self) -> tuple[VerbsTest, ...]:
        return tuple(test for test in self.tests if test.endswith("_lat"))

    def threshold_of(self, test: VerbsTest, shape: Shape, *, pvrdma: bool = False) -> Threshold:
        if pvrdma:
            return self.threshold_pvrdma
        if shape == "both_ways":
            return self.threshold_both_ways
        return self.threshold_read if test == "ib_read_bw" else self.threshold

    def latency_of(self, *, pvrdma: bool = False) -> LatencyThreshold:
        return self.latency_pvrdma if pvrdma else self.latency


def _refuse_swapped_bounds(smallest_bytes: int, largest_bytes: int | None) -> None:
    if largest_bytes is not None and smallest_bytes > largest_bytes:
        raise ValueError(
            f"smallest_bytes {smallest_bytes} is above largest_bytes {largest_bytes}; swap"
        )


def _refuse_pods_without_image(runner: Runner, image: str | None) -> None:
    if runner == "pods" and image is None:
        raise ValueError(
            "image is missing, and pods run it; name one, or set runner to ssh or slurm"
        )


class Nccl(Section):
    """NCCL all-reduce over all active nodes, by default as an MPIJob: the DeepOps RoCE guide's."""

    runner: Runner = "pods"
    """What starts it: pods | ssh | slurm. Only pods need a cluster and an image."""
    image: Image | None = None
    """Benchmark image, by tag or, better, by digest."""
    program: str = Field(default="all_reduce_perf", pattern=r"^[A-Za-z0-9_./+-]+$")
    """With ssh and slurm: nccl-tests' program on the nodes, built with MPI: a path, or on PATH."""
    smallest_bytes: int = Field(default=8, ge=4)
    largest_bytes: int | None = Field(default=None, ge=4, le=68_719_476_736)
    """The message by which the all-reduce is judged. By default 1 GiB per rail up to 64 GPUs and 2
    GiB per rail above, from 2 to 16 GiB; a comparison of transports then ends at 2 GiB."""
    timeout_s: Seconds = 900
    threshold: Threshold = Threshold(fail_below=0.85, warn_below=0.93)
    """Bounds when the ceiling is computed, because no rail's bandwidth was measured."""
    threshold_measured: Threshold = Threshold(fail_below=0.90, warn_below=0.95)
    """Bounds when the ceiling is what the verbs tests of this run measured on the same rails."""

    @model_validator(mode="after")
    def _there_is_something_to_run(self) -> Self:
        _refuse_swapped_bounds(self.smallest_bytes, self.largest_bytes)
        _refuse_pods_without_image(self.runner, self.image)
        return self


class Mpi(Section):
    """MPI all-reduce on the CPUs of all active nodes: Open MPI over UCX. For labs without GPUs."""

    runner: Runner = "pods"
    """What starts it: pods | ssh | slurm. Without pods the nodes need Open MPI, UCX and mpi4py."""
    image: Image | None = None
    """Image with Open MPI, UCX, mpi4py and sshd; `rocelab image push --which mpi` builds one."""
    transports: tuple[Literal["roce", "tcp"], ...] = Field(default=("tcp", "roce"), min_length=1)
    """roce: verbs on the rails. tcp: the pod network. Two run forth and back, as in the comparison;
    in simulated labs each runs once."""
    ranks_per_node: int = Field(default=1, ge=1, le=256)
    smallest_bytes: int = Field(default=8, ge=4, multiple_of=4)
    largest_bytes: int = Field(default=67_108_864, le=1_073_741_824)
    timeout_s: Seconds = 900

    @model_validator(mode="after")
    def _there_is_something_to_run(self) -> Self:
        _refuse_swapped_bounds(self.smallest_bytes, self.largest_bytes)
        _refuse_pods_without_image(self.runner, self.image)
        if repeated(self.transports):
            raise ValueError("transports lists one twice; remove one")
        return self


class Toleration(Section):
    """A taint that the benchmarks' pods tolerate, in Kubernetes' own words."""

    key: LabelKey | None = None
    """None: every taint; then write `operator: Exists`."""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue | None = Field(default=None, exclude_if=lambda value: value is None)
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """None: all three."""

    @model_validator(mode="after")
    def _kubernetes_accepts_it(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError(
                f"operator Exists takes no value, but value is {self.value}; remove one"
            )
        if self.operator == "Equal" and self.key is None:
            raise ValueError("without a key it is for every taint; write operator: Exists")
        return self


OWN_KEYS = ("rocelab.dev/", "training.kubeflow.org/", "k8s.v1.cni.cncf.io/")
"""Prefixes of the labels and annotations by which rocelab, the MPI operator and Multus know a
pod."""


class Benchmarks(Section):
    """The validation of the lab. Its verdict has two axes: function, and performance where it can
    be rated.
    """

    mode: Literal["off", "warn", "enforce"] = "warn"
    """enforce: a failed verdict fails the deployment, after every result is written."""
    rerun: Literal["on_change", "asked"] = "on_change"
    """on_change: measures again when the image, nodes, drivers, MTU or the plan changed, when the
    last run was incomplete, or when a failed verdict fails every `pulumi up`.

    asked: measures only with ROCELAB_VALIDATE=again in the environment, or by `make validate`;
    until then the verdict says that it is stale.
    """
    namespace: Name = "rocelab-bench"
    tolerations: tuple[Toleration, ...] = ()
    """Taints of your GPU nodes, besides `nvidia.com/gpu`, which every job tolerates."""
    labels: dict[LabelKey, LabelValue] = Field(default={})
    """Labels of each MPIJob, and of each pod that a benchmark starts. The queue of Kueue is such a
    label, `kueue.x-k8s.io/queue-name`; its ClusterQueue must cover `nvidia.com/gpu` and the
    resource of each rail."""
    annotations: dict[LabelKey, str] = Field(default={})
    """Annotations of the same objects."""
    budget_s: Seconds = 900
    """Time limit of the plan. With verbs.schedule auto, a longer plan samples its pairs; otherwise
    it is refused."""
    repeats: int = Field(default=3, ge=1, le=20)
    """Runs of each verbs test per pair of nodes. Repeats reveal outliers."""
    verbs: Verbs = Verbs()
    nccl: Nccl | None = None
    mpi: Mpi | None = Field(default=None, exclude_if=lambda mpi: mpi is None)
    comparison: Comparison | None = None
    """RoCE against TCP and the hosts' own network; needs nccl, whose image it runs."""
    application: Application | None = None
    """Needs images.training."""

    @model_validator(mode="after")
    def _labels_are_not_rocelab_s_own(self) -> Self:
        for key in (*self.labels, *self.annotations):
            if key.startswith(OWN_KEYS):
                raise ValueError(
                    f"rocelab, the MPI operator or Multus sets {key} itself; remove it"
                )
        return self

    @model_validator(mode="after")
    def _a_comparison_has_an_image(self) -> Self:
        if self.comparison and (self.nccl is None or self.nccl.image is None):
            raise ValueError(
                "comparison runs the image of nccl, but that section is missing; add nccl.image"
            )
        return self

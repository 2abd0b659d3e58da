"""Every parser as the fuzz test sees it: which numbers it returned, and what in the text confirms each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from components.validation.benchmarks.nccl.log import parse_nccl_log, rail_faults, rails_by_order
from components.validation.benchmarks.nccl.table import NcclTable, parse_nccl
from components.validation.benchmarks.training.horovod import parse_training
from components.validation.benchmarks.training.tf_cnn import total_of
from components.validation.benchmarks.verbs.perftest import parse_bandwidth, parse_latency
from components.validation.parsers import ResultFormatError
from tests.components.validation.samples import composed, sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The numbers of one text."""

    confirmed: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Said twice by the text: value, and how far the roundings of both leave it open."""
    once: dict[str, float] = field(default_factory=dict)
    """Said once: another digit in the only place where it stands is another well-formed text."""


Read = Callable[[str], Reading]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A whole text and how it is read."""

    name: str
    text: str
    read: Read
    also: tuple[str, ...] = ()
    """Further texts whose numbers are as true: a log of several ranks tells the same without one of them."""

    def known(self) -> dict[str, set[float]]:
        """Every true value of each number."""
        found: dict[str, set[float]] = {}
        for text in (self.text, *self.also):
            reading = self.read(text)
            for name, value in [*((n, v) for n, (v, _) in reading.confirmed.items()), *reading.once.items()]:
                found.setdefault(name, set()).add(value)
        return found


def _bandwidth(title: str, sizes: list[int], iterations: int) -> Read:
    """As the runner reads it: title, sizes and iterations are compared with what was asked for (running/checks.py)."""

    def read(text: str) -> Reading:
        run = parse_bandwidth(text)
        if run.title != title or [row.message_bytes for row in run.rows][: len(sizes)] != sizes:
            raise ResultFormatError("not the test that was asked for")
        if any(row.iterations != iterations for row in run.rows):
            raise ResultFormatError("not the iterations that were asked for")
        found: dict[str, tuple[float, float]] = {}
        for row in run.rows[: len(sizes)]:
            # the rate has six decimals and the average two (six below 0.1), each rounded
            open_gbit_s = 2 * (0.5e-6 * row.message_bytes * 8e-3 + 0.0085)
            found[f"{row.message_bytes} average"] = row.value, open_gbit_s
        return Reading(confirmed=found)

    return read


def _latency(title: str, sizes: list[int]) -> Read:
    def read(text: str) -> Reading:
        run = parse_latency(text)
        if run.title != title or [row.message_bytes for row in run.rows][: len(sizes)] != sizes:
            raise ResultFormatError("not the test that was asked for")
        found = {
            f"{row.message_bytes} {name}": getattr(row, name)
            for row in run.rows[: len(sizes)]
            for name in ("value", "tail")
            if getattr(row, name) is not None
        }
        if "t_typical[usec]" not in text:  # a mean, which the rate confirms
            return Reading(confirmed={name: (value, 0.0101) for name, value in found.items()})
        return Reading(once=found)

    return read


def _of_table(log: NcclTable, *, names_collective: bool) -> Iterator[tuple[str, tuple[float, float]]]:
    yield "mean", (log.average_busbw_gbyte_s, 0.0111)
    yield "wrong", (log.wrong or 0, 0)
    yield "busbw", (log.busbw_gbyte_s, 0.0101)
    for row in log.rows:
        for place, half in zip(("out", "in"), row.halves, strict=False):
            # two decimals, and what the rounding of the time leaves open where it is short
            open_us = 0.005 if half.time_us < 100 or (names_collective and half.time_us < 1e4) else 0.05
            open_gbyte_s = 0.0101 + 2 * half.busbw_gbyte_s * open_us / half.time_us
            yield f"{row.size_bytes} {place} busbw", (half.busbw_gbyte_s, open_gbyte_s)
            yield f"{row.size_bytes} {place} algbw", (half.algbw_gbyte_s, open_gbyte_s)


def _nccl(text: str) -> Reading:
    log = parse_nccl(text)
    times = {
        f"{row.size_bytes} {place} time": half.time_us
        for row in log.rows
        for place, half in zip(("out", "in"), row.halves, strict=False)
    }
    # versions that name the collective print more decimals
    new = "# Collective test starting" in text
    return Reading(confirmed=dict(_of_table(log, names_collective=new)), once=times)


def _training(text: str) -> Reading:
    run = parse_training(text)
    n = run.devices
    iterations = {
        # the mean and the spread over the iterations are printed with one decimal
        f"iteration {i}": (value, 0.1055 * len(run.iterations_per_device))
        for i, value in enumerate(run.iterations_per_device)
    }
    return Reading(
        confirmed={
            "devices": (n, 0),
            "mean": (run.mean_per_device, 0.1055),
            "total": (run.total, 0.1055 * n),
            "printed total": (run.printed_total, 0.1055 * n),
            "printed mean": (run.printed_mean, 0.1555),
            "printed spread": (run.printed_spread, 0.31),
            **iterations,
        }
    )


def _tf_cnn(workers: int) -> Read:
    def read(text: str) -> Reading:
        total = total_of(text, workers)
        if text.count("total images/sec") > 1:  # ranks confirm each other, but each takes its own time
            return Reading(confirmed={"total": (total, 0.02 * total)})
        return Reading(once={"total": total})

    return read


def _nccl_log(text: str) -> Reading:
    network = parse_nccl_log(text)
    rail_faults(network, rails_by_order(network))
    return Reading()


WRITE, SEND, READ = "RDMA_Write BW Test", "Send BW Test", "RDMA_Read BW Test"
POWERS = [2**i for i in range(1, 24)]


def _cases() -> Iterator[Case]:
    for name, title, iterations in (
        ("deepops.client", WRITE, 5000),
        ("wbw.client", WRITE, 1000),
        ("wbw.server", WRITE, 1000),
        ("wbwR.client", WRITE, 5000),
        ("vf_wbw.client", WRITE, 500),
        ("rbw.client", READ, 500),
        ("sbw.client", SEND, 1000),
        ("sbw_default.server", SEND, 1000),
        ("v45_both_ways.client", "RDMA_Write Bidirectional BW Test", 200),
        ("v45_four_queue_pairs.client", WRITE, 400),
        ("v45_read_cpu.client", READ, 374),
    ):
        yield Case(name=name, text=sample(f"perftest/{name}.txt"), read=_bandwidth(title, [65536], iterations))
    for name, title, sizes, iterations in (
        ("all_sizes_mib", WRITE, POWERS, 1000),
        ("all_sizes_mb", WRITE, POWERS, 1000),
        ("duration", WRITE, [65536], 1120364),
        ("bidirectional", "RDMA_Write Bidirectional BW Test", [65536], 5000),
        ("cpu_util", READ, [65536], 1000),
        ("per_port", WRITE, [65536], 5000),
        ("qos", SEND, [65536], 1000),
        ("counters", WRITE, [65536], 5000),
    ):
        yield Case(name=name, text=composed(f"perftest_{name}.txt"), read=_bandwidth(title, sizes, iterations))
    for name in ("wlat.client", "wlat.server", "v45_latency.client"):
        yield Case(name=name, text=sample(f"perftest/{name}.txt"), read=_latency("RDMA_Write Latency Test", [2]))
    yield Case(name="slat.client", text=sample("perftest/slat.client.txt"), read=_latency("Send Latency Test", [2]))
    for name, title, sizes in (
        ("latency", "RDMA_Write Latency Test", [2]),
        ("latency_before_percentiles", "RDMA_Write Latency Test", [2]),
        ("latency_duration", "Send Latency Test", [2]),
        ("read_latency", "RDMA_Read Latency Test", POWERS),
    ):
        yield Case(name=name, text=composed(f"perftest_{name}.txt"), read=_latency(title, sizes))
    for name in ("deepops", "nvlink_allreduce", "broadcast", "tagged_debug"):
        yield Case(name=f"nccl {name}", text=sample(f"nccl/{name}.txt"), read=_nccl)
    for name in ("timestamps", "per_iteration", "sendrecv"):
        yield Case(name=f"nccl {name}", text=composed(f"nccl_{name}.txt"), read=_nccl)
    yield Case(name="nccl log 2.5", text=composed("nccl_log_2_5.txt"), read=_nccl_log)
    yield Case(name="nccl log 2.28", text=composed("nccl_log_2_28.txt"), read=_nccl_log)
    yield Case(name="horovod", text=sample("training/deepops.txt"), read=_training)
    yield Case(name="ddp", text=composed("ddp_tagged.txt"), read=_training)
    ranks = composed("tf_cnn_horovod.txt")
    ones = tuple("\n".join(line for line in ranks.splitlines() if tag not in line) for tag in ("[1,0]", "[1,1]"))
    yield Case(name="tf_cnn 2", text=ranks, read=_tf_cnn(2), also=ones)
    yield Case(name="tf_cnn 1", text=composed("tf_cnn_one_worker.txt"), read=_tf_cnn(1))


CASES = tuple(_cases())

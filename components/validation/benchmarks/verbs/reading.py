"""Reads one run of a test from the outputs of both ends, and compares it with the plan. Pure."""

from dataclasses import dataclass, field

from components.validation.benchmarks.verbs.commands import Side
from components.validation.benchmarks.verbs.perftest import (
    Bandwidth,
    BandwidthRow,
    Header,
    Latency,
    LatencyRow,
    header_of,
    parse_bandwidth,
    parse_latency,
)
from components.validation.benchmarks.verbs.programs import PROGRAMS
from components.validation.parsers import ResultFormatError, lines_of
from components.validation.planning.plan import End, PlannedRail
from components.validation.planning.stages import Stage, VerbsPlan
from stacks.base import LabError


class NoResultError(LabError):
    """Nothing is known of the fabric: a host took no part, or its output cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """The expected output of one end of a transfer."""

    stage: Stage
    verbs: VerbsPlan
    rail: PlannedRail
    side: Side
    peer: End


@dataclass(frozen=True, kw_only=True, slots=True)
class PerftestRun:
    """The value of one run, and its contradictions with the plan."""

    value: float
    """Average bandwidth in Gbit/s, or typical latency in microseconds."""
    tail_us: float | None = None
    """99th percentile of a latency, where the run has one."""
    path_mtu_bytes: int
    faults: tuple[str, ...]
    counters: dict[str, int] = field(default_factory=dict)


def read(client: Expected, server: Expected, client_out: str, server_out: str) -> PerftestRun:
    """Reads a run. The client's value counts: in most tests the server only repeats it.

    Raises:
        NoResultError: when an output gives no number.
    """
    try:
        end = client.side.end
        run: Bandwidth | Latency
        run = parse_bandwidth(client_out) if client.stage.bandwidth else parse_latency(client_out)
        end = server.side.end
        if client.stage.bandwidth:
            other = parse_bandwidth(server_out)
            faults = faults_of_end(other, server, other.rows[0])
        else:
            # the server of a read prints no table: it has nothing to do while its memory is read
            faults = faults_of_end(header_of([line.text for line in lines_of(server_out)]), server)
    except ResultFormatError as error:
        raise NoResultError(f"{end.node}: {error}") from None
    row = run.rows[0]
    return PerftestRun(
        value=row.value_us if isinstance(row, LatencyRow) else row.average_gbit_s,
        tail_us=row.p99_us if isinstance(row, LatencyRow) else None,
        path_mtu_bytes=run.path_mtu_bytes,
        faults=(*faults_of_end(run, client, row), *faults),
    )


def title_of(stage: Stage) -> str:
    """The title that a test prints."""
    title = PROGRAMS[stage.test].title
    return title.replace(" BW", " Bidirectional BW") if stage.shape == "both_ways" else title


def faults_of_end(run: Header, expected: Expected, row: BandwidthRow | LatencyRow | None = None) -> list[str]:
    """Contradictions between one end's output and the plan; empty if the transfer ran as planned."""
    side, end = expected.side, expected.side.end
    planned: list[tuple[str, object, object]] = [
        ("test", run.title, title_of(expected.stage)),
        ("RDMA device", run.device, end.device),
        ("link type", run.link_type, "Ethernet"),
        ("path MTU", run.path_mtu_bytes, expected.rail.path_mtu_bytes),
        ("GID index", run.gid_index, side.gid_index),
        ("rdma_cm", run.rdma_cm, expected.verbs.rdma_cm),
        ("own GID", run.local_gid, end.address),
        ("peer's GID", run.remote_gid, expected.peer.address),
    ]
    if row is not None:
        planned.append(("message size", row.message_bytes, side.message_bytes))
        if expected.verbs.duration_of(expected.stage) is None:
            planned.append(("iterations", row.iterations, expected.stage.iterations * side.queue_pairs))
    return [
        f"{end.node}: {what} is {printed}, the lab says {want}" for what, printed, want in planned if printed != want
    ]

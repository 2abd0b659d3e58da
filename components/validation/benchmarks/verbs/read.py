"""Reads one run of a test from the outputs of both ends, and compares it with the plan. Pure."""

from dataclasses import dataclass, field

from components.physics.ceilings import Operation
from components.validation.benchmarks.verbs.commands import Side, Sides
from components.validation.benchmarks.verbs.perftest import (
    ROUND_TRIP,
    Header,
    PrintedRow,
    header_of,
    parse_bandwidth,
    parse_latency,
)
from components.validation.benchmarks.verbs.plan import Stage, VerbsPlan
from components.validation.parsers import ResultFormatError, lines_of
from stacks.base import LabError
from stacks.benchmarks import VerbsTest


@dataclass(frozen=True, kw_only=True, slots=True)
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


class NoResultError(LabError):
    """Nothing is known of the fabric: a host took no part, or its output cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PerftestRun:
    """The value of one run, and its contradictions with the plan."""

    value: float
    """Average bandwidth in Gbit/s, or typical latency in microseconds."""
    tail_us: float | None = None
    path_mtu_bytes: int
    faults: tuple[str, ...]
    counters: dict[str, int] = field(default_factory=dict)


def read(stage: Stage, verbs: VerbsPlan, sides: Sides, outs: tuple[str, str]) -> PerftestRun:
    """Reads a run by what client and server printed.

    The client's value counts: mostly the server only repeats it.

    Raises:
        NoResultError: when an output gives no number.
    """
    client, server = sides
    try:
        printed_by = client
        run = parse_bandwidth(outs[0]) if stage.bandwidth else parse_latency(outs[0])
        printed_by = server
        if stage.bandwidth:
            other = parse_bandwidth(outs[1])
            faults = faults_of_end(stage, verbs, server, other, other.rows[0])
        else:
            # the server of a read prints no table: it has nothing to do while its memory is read
            faults = faults_of_end(
                stage, verbs, server, header_of([line.text for line in lines_of(outs[1])])
            )
    except ResultFormatError as error:
        raise NoResultError(f"{printed_by.end.node}: {error}") from None
    row = run.rows[0]
    return PerftestRun(
        value=row.value,
        tail_us=row.tail,
        path_mtu_bytes=run.path_mtu_bytes,
        faults=(*faults_of_end(stage, verbs, client, run, row), *faults),
    )


def title_of(stage: Stage) -> str:
    """The title that a test prints."""
    title = PROGRAMS[stage.test].title
    return title.replace(" BW", " Bidirectional BW") if stage.shape == "both_ways" else title


def faults_of_end(
    stage: Stage,
    verbs: VerbsPlan,
    side: Side,
    run: Header,
    row: PrintedRow | None = None,
) -> list[str]:
    """Contradictions between one end's output and the plan.

    Empty if the transfer ran as planned.
    """
    end = side.end
    planned: list[tuple[str, object, object]] = [
        ("test", run.title, title_of(stage)),
        ("RDMA device", run.device, end.device),
        ("link type", run.link_type, "Ethernet"),
        ("path MTU", run.path_mtu_bytes, side.path_mtu_bytes),
        ("GID index", run.gid_index, side.gid_index),
        ("rdma_cm", run.rdma_cm, verbs.rdma_cm),
        ("own GID", run.local_gid, end.address),
        ("peer's GID", run.remote_gid, side.peer.address),
    ]
    if row is not None:
        planned.append(("message size", row.message_bytes, side.message_bytes))
        if verbs.duration_of(stage) is None:
            planned.append(("iterations", row.iterations, stage.iterations * side.queue_pairs))
    faults = []
    for what, printed, expected in planned:
        if printed != expected:
            faults.append(f"{end.node}: {what} is {printed}, the lab says {expected}")
    return faults

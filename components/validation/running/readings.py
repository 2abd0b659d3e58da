"""What one run of a test says, read from both ends' outputs and held against the plan. Pure."""

from dataclasses import dataclass, field

from components.validation.parsers.lines import lines_of
from components.validation.parsers.perftest import ResultFormatError, parse_bandwidth, parse_latency
from components.validation.parsers.perftest.header import header_of
from components.validation.planning.plan import End, PlannedRail
from components.validation.planning.stages import Stage
from components.validation.running.checks import Expected, faults_of_end
from stacks.base import LabError


class NotToldError(LabError):
    """Nothing is known of the fabric: a host took no part, or what it wrote cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ends:
    """Both ends of a transfer."""

    rail: PlannedRail
    client: End
    server: End
    client_gid_index: int
    server_gid_index: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What the two programs were told to do."""

    stage: Stage
    message_bytes: int
    iterations: int | None
    """Over all queue pairs; None: it ran for a time."""
    rdma_cm: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One run: a value, and what contradicts the plan."""

    value: float
    """Average bandwidth in Gbit/s, or typical latency in microseconds."""
    tail_us: float | None
    """99th percentile of a latency, where the run has one."""
    path_mtu_bytes: int
    faults: tuple[str, ...]
    counters: dict[str, int] = field(default_factory=dict)


def read(ends: Ends, asked: Asked, client: str, server: str) -> Reading:
    """Reads a run. The client's value counts: of most tests the server only repeats it.

    Raises:
        NotToldError: when an output gives no number.
    """
    wanted = [
        Expected(
            stage=asked.stage,
            rail=ends.rail,
            end=end,
            peer=peer,
            gid_index=index,
            message_bytes=asked.message_bytes,
            iterations=asked.iterations,
            rdma_cm=asked.rdma_cm,
        )
        for end, peer, index in (
            (ends.client, ends.server, ends.client_gid_index),
            (ends.server, ends.client, ends.server_gid_index),
        )
    ]
    return _bandwidth(wanted, client, server) if asked.stage.bandwidth else _latency(wanted, client, server)


def _bandwidth(wanted: list[Expected], client: str, server: str) -> Reading:
    try:
        run = parse_bandwidth(client)
    except ResultFormatError as error:
        raise NotToldError(f"{wanted[0].end.node}: {error}") from None
    try:
        echo = parse_bandwidth(server)
    except ResultFormatError as error:
        raise NotToldError(f"{wanted[1].end.node}: {error}") from None
    return Reading(
        value=run.rows[0].average_gbit_s,
        tail_us=None,
        path_mtu_bytes=run.path_mtu_bytes,
        faults=(*faults_of_end(run, wanted[0], run.rows[0]), *faults_of_end(echo, wanted[1], echo.rows[0])),
    )


def _latency(wanted: list[Expected], client: str, server: str) -> Reading:
    try:
        run = parse_latency(client)
    except ResultFormatError as error:
        raise NotToldError(f"{wanted[0].end.node}: {error}") from None
    try:
        # the server of a read prints no table: it has nothing to do while its memory is read
        other = header_of([line.text for line in lines_of(server)])
    except ResultFormatError as error:
        raise NotToldError(f"{wanted[1].end.node}: {error}") from None
    row = run.rows[0]
    return Reading(
        value=row.value_us,
        tail_us=row.p99_us,
        path_mtu_bytes=run.path_mtu_bytes,
        faults=(*faults_of_end(run, wanted[0], row), *faults_of_end(other, wanted[1])),
    )

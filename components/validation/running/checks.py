"""Whether one run did what the plan demands: pure functions from what was read to a list of faults."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Protocol

from components.validation.parsers.nccl import NcclLog
from components.validation.planning.plan import End, Plan, PlannedRail
from components.validation.planning.stages import Stage
from stacks.words import plural

TITLES = {
    "ib_write_bw": "RDMA_Write BW Test",
    "ib_send_bw": "Send BW Test",
    "ib_read_bw": "RDMA_Read BW Test",
    "ib_write_lat": "RDMA_Write Latency Test",
    "ib_send_lat": "Send Latency Test",
    "ib_read_lat": "RDMA_Read Latency Test",
}


class Printed(Protocol):
    """What any end of any test prints of itself."""

    @property
    def title(self) -> str:
        """Which test it is."""

    @property
    def device(self) -> str:
        """RDMA device."""

    @property
    def link_type(self) -> str:
        """Ethernet or IB."""

    @property
    def path_mtu_bytes(self) -> int:
        """Of the queue pair."""

    @property
    def gid_index(self) -> int | None:
        """In the device's table."""

    @property
    def rdma_cm(self) -> bool:
        """Whether the RDMA connection manager connected it."""

    @property
    def local_gid(self) -> IPv4Address | IPv6Address | None:
        """Its own."""

    @property
    def remote_gid(self) -> IPv4Address | IPv6Address | None:
        """The other end's."""


class Measured(Protocol):
    """The one row of a table."""

    @property
    def message_bytes(self) -> int:
        """Size of a message."""

    @property
    def iterations(self) -> int:
        """Messages, those of all queue pairs together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What one end of a transfer has to print."""

    stage: Stage
    rail: PlannedRail
    end: End
    peer: End
    gid_index: int
    """Found on the host: the RoCE v2 entry with the PF's own address."""
    message_bytes: int
    iterations: int | None
    """None: the test ran for a time."""
    rdma_cm: bool = False


def title_of(stage: Stage) -> str:
    """The title that a test prints."""
    title = TITLES[stage.test]
    return title.replace(" BW", " Bidirectional BW") if stage.shape == "both_ways" else title


def faults_of_end(run: Printed, expected: Expected, row: Measured | None = None) -> list[str]:
    """What one end of a transfer says that contradicts the plan; empty when it works as declared."""
    end = expected.end
    wanted: list[tuple[str, object, object]] = [
        ("test", run.title, title_of(expected.stage)),
        ("RDMA device", run.device, end.device),
        ("link type", run.link_type, "Ethernet"),
        ("path MTU", run.path_mtu_bytes, expected.rail.path_mtu_bytes),
        ("GID index", run.gid_index, expected.gid_index),
        ("rdma_cm", run.rdma_cm, expected.rdma_cm),
        ("own GID", run.local_gid, end.address),
        ("peer's GID", run.remote_gid, expected.peer.address),
    ]
    if row is not None:
        wanted.append(("message size", row.message_bytes, expected.message_bytes))
        if expected.iterations is not None:
            wanted.append(("iterations", row.iterations, expected.iterations))
    return [f"{end.node}: {what} is {got}, the lab says {want}" for what, got, want in wanted if got != want]


def faults_of_nccl(log: NcclLog, plan: Plan) -> list[str]:
    """What a job's own log says against it; empty when the ranks reduced correctly over RDMA."""
    if plan.nccl is None:
        return []
    faults = []
    if log.out_of_bounds or log.wrong:
        faults.append(
            f"{plural(log.wrong or log.out_of_bounds, 'value')} came out wrong: memory, GPU or transport is broken"
        )
    if log.transport != "ib":
        said = "sockets" if log.transport == "socket" else "no transport at all"
        faults.append(f"NCCL reported {said} instead of RDMA (NET/IB)")
    if log.rows[-1].size_bytes < plan.nccl.largest_bytes:
        faults.append(f"the table ends at {log.rows[-1].size_bytes} bytes, {plan.nccl.largest_bytes} were asked for")
    return faults

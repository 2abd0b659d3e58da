"""perftest's programs that a lab file may list: what each prints, and which way it moves data."""

from dataclasses import dataclass

from components.physics.ceilings import Operation
from components.validation.benchmarks.verbs.perftest import ROUND_TRIP
from stacks.benchmarks import VerbsTest


@dataclass(frozen=True, kw_only=True, slots=True)
class VerbsProgram:
    """One program; its name ends in `_bw` or `_lat`."""

    title: str
    """The title above its table."""
    operation: Operation | None = None
    """The operation whose overhead lowers a bandwidth's ceiling; None for a latency."""
    server_sends: bool = False
    """Whether the data moves from server to client."""

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

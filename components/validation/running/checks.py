"""Whether one run did what the plan demands: pure functions from what was read to a list of faults."""

from dataclasses import dataclass

from components.validation.parsers.nccl import NcclLog
from components.validation.parsers.perftest import Perftest
from components.validation.planning.plan import End, Plan, PlannedRail
from components.validation.planning.stages import VerbsPlan

TITLES = {"ib_write_bw": "RDMA_Write BW Test"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What one end of a transfer has to print."""

    verbs: VerbsPlan
    rail: PlannedRail
    end: End
    peer: End
    gid_index: int
    """Found on the host: the RoCE v2 entry with the PF's own address."""


def faults_of_end(run: Perftest, expected: Expected) -> list[str]:
    """What one end of a transfer says that contradicts the plan; empty when it works as declared."""
    verbs, end, row = expected.verbs, expected.end, run.rows[0]
    wanted = (
        ("test", run.title, TITLES[verbs.test]),
        ("RDMA device", run.device, end.device),
        ("link type", run.link_type, "Ethernet"),
        ("path MTU", run.path_mtu_bytes, expected.rail.path_mtu_bytes),
        ("GID index", run.gid_index, expected.gid_index),
        ("own GID", run.local_gid, end.address),
        ("peer's GID", run.remote_gid, expected.peer.address),
        ("message size", row.message_bytes, verbs.message_bytes),
        # with several queue pairs perftest prints the sum of their messages
        ("iterations", row.iterations, verbs.iterations * (1 if verbs.queue_pairs == "auto" else verbs.queue_pairs)),
    )
    return [f"{end.node}: {what} is {got}, the lab says {want}" for what, got, want in wanted if got != want]


def faults_of_nccl(log: NcclLog, plan: Plan) -> list[str]:
    """What a job's own log says against it; empty when the ranks reduced correctly over RDMA."""
    if plan.nccl is None:
        return []
    faults = []
    if log.out_of_bounds or log.wrong:
        faults.append(f"{log.wrong or log.out_of_bounds} values came out wrong: memory, GPU or transport is broken")
    if log.transport != "ib":
        said = "sockets" if log.transport == "socket" else "no transport at all"
        faults.append(f"NCCL reported {said} instead of RDMA (NET/IB)")
    if log.rows[-1].size_bytes < plan.nccl.largest_bytes:
        faults.append(f"the table ends at {log.rows[-1].size_bytes} bytes, {plan.nccl.largest_bytes} were asked for")
    return faults

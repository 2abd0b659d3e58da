"""Reads UCX's lines of a connection (UCX_LOG_LEVEL=info) between those of the ranks."""

import re

from components.jobs.workers import Transport
from components.validation.benchmarks.nccl.run import missing_sizes, wrong_values
from components.validation.benchmarks.nccl.table import NcclTable
from components.validation.parsers import lines_of

_CONNECTION = re.compile(r"UCX\s+INFO\s.*cfg(?:#\d+|\[\d+\]:) (?P<lanes>.*)$")
"""`ep_cfg[1]: tag(rc_verbs/rxe0:1)` up to 1.13, `inter-node cfg#1 tag(rc_mlx5/mlx5_0:1)` later."""
_LANE = re.compile(r"\b(?P<transport>[a-z0-9_]+)/(?P<device>[A-Za-z0-9_.-]+(?::\d+)?)")
_LEFT_OUT = re.compile(
    r"^\[[\d.]+\] \[(?P<host>[\w.-]+):.*UCX\s+WARN\s+network devices? (?P<devices>'\S+') (?:is|are) not available"
)
WITHIN_NODE = frozenset({"self", "sysv", "posix", "cma", "knem", "xpmem", "mm"})
"""Transports that leave no node."""


def lanes_between_nodes(text: str) -> tuple[str, ...]:
    """Transport and device of each lane between nodes, such as `rc_verbs/rxe0:1`, without duplicates."""
    found = [
        lane[0]
        for line in lines_of(text)
        if (connection := _CONNECTION.search(line.text))
        for lane in _LANE.finditer(connection["lanes"])
        if lane["transport"] not in WITHIN_NODE
    ]
    return tuple(dict.fromkeys(found))


def devices_left_out(text: str) -> tuple[str, ...]:
    """Devices that a rank should use and could not, with its host: UCX only warns, and uses the others."""
    found = [
        f"{device} on {left['host']}"
        for line in lines_of(text)
        if (left := _LEFT_OUT.search(line.text))
        for device in re.findall(r"'([^']+)'", left["devices"])
    ]
    return tuple(dict.fromkeys(found))


def faults_of_mpi(table: NcclTable, log: str, transport: Transport, largest_bytes: int | None) -> list[str]:
    """Contradictions between a log and its job; empty if all ranks reduced correctly over its transport and devices."""
    faults, lanes = wrong_values(table, "memory or transport"), lanes_between_nodes(log)
    if left_out := devices_left_out(log):
        faults.append(f"UCX could not use {', '.join(left_out)}: check the link of that interface")
    other = [lane for lane in lanes if not lane.startswith("tcp/" if transport == "tcp" else "rc")]
    if other or not lanes:
        reported = ", ".join(other) or "no lane between nodes"
        faults.append(f"UCX reported {reported} instead of {'TCP' if transport == 'tcp' else 'RDMA (rc)'}")
    return [*faults, *missing_sizes(table, largest_bytes)]

"""The commands that run on a host for a test. Values are arguments, never parts of a script."""

import shlex
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from components.validation.benchmarks.plan import End
from components.validation.benchmarks.verbs.plan import Stage, VerbsPlan
from stacks.frozen import frozen

LISTENING = "@listening"
GREW = "@grew"
TAKEN = 98
"""Exit code: something else listens on the test's port."""
HELD = 75
"""Exit code: another run holds the lease."""
LATE = 124
"""Exit code of `timeout`: the program was still at work."""
LEASE_FILE = "/run/rocelab-bench.lease"
PATIENT = 17
"""Of perftest's --qp-timeout: 4 us x 2^17 are half a second, 2^14 (its own) are 67 ms. An emulated
machine that shares two cores with others answers later than that, and soft-RoCE that sends
everything again breaks the queue pair. Seven tries of it still end within five seconds where
nothing passes."""
NO_CLOCK = "Correlation coefficient r^2"
"""perftest prints it when it could not measure the CPU's clock; all its numbers are then 0 or
wrong."""

HERE = Path(__file__).parent
BOUNDED = HERE.joinpath("bounded.sh").read_text()
"""Runs a program until its time limit, or until the session's input closes because the caller is
gone.

The whole process group is ended: a `timeout` that is killed right after its fork leaves its program
behind. perftest's server waits forever for exactly one connection, so the port is listed and never
probed; with -R it is not a TCP port but one of the RDMA connection manager. Counters of errors and
congestion are compared before and after; those of mlx5 and of soft-RoCE have other names.
"""

LEASE = HERE.joinpath("lease.sh").read_text()
"""Holds the host's lease until the session's input closes; the kernel drops the lock of a dead
holder."""

REACH = HERE.joinpath("reach.sh").read_text()
"""Pings all peers of a node at once, first with packets that fill a frame and must not be cut, then
with small ones.

A peer that gives no answer is tried once more with more patience: one that has just booted may need
seconds.
"""


@frozen
class Side:
    """One end of a transfer, with the options of a run besides those of the stage."""

    end: End
    peer: End
    connects: bool
    """Whether it is the client; the server waits for it."""
    path_mtu_bytes: int
    gid_index: int
    port: int
    queue_pairs: int
    message_bytes: int
    pinned: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    """Words that put the buffer into GPU memory; empty: host memory."""


Sides = tuple[Side, Side]
"""Client and server."""


def bounded(command: Sequence[str], limit_s: int, port: int = 0, end: End | None = None) -> str:
    """The remote command that runs a program within a time limit; with a port it reports when the
    program listens.
    """
    counted = [end.device, end.interface] if end else ["", ""]
    return shlex.join(["sh", "-c", BOUNDED, "sh", str(limit_s), str(port), *counted, *command])


def lease(run_id: str, limit_s: int) -> str:
    """The remote command that holds the host's lease. As root: the file must serve every user of
    the lab.
    """
    words = ["sudo", "-n", "timeout", "-k", "2", str(limit_s), "sh", "-c", LEASE, "sh"]
    return shlex.join([*words, run_id, LEASE_FILE])


def facts_words(tests: Sequence[str], ends: Sequence[End]) -> str:
    """The verb of the host program that reads the ports under test."""
    words = ["bench", " ".join(tests)]
    for end in ends:
        words += [end.device, end.interface]
    return shlex.join(words)


def reach(peers: Sequence[tuple[str, IPv4Address, int]]) -> str:
    """The remote command that pings peers: interface, address, and Ethernet MTU of each."""
    words = []
    for name, address, mtu_bytes in peers:
        words += [name, str(address), str(mtu_bytes - 28)]
    return shlex.join(["sh", "-c", REACH, "sh", *words])


def perftest(stage: Stage, side: Side, verbs: VerbsPlan, *, simulated: bool = False) -> list[str]:
    """One end of a test.

    Without --tclass the queue pair has traffic class 0, whose packets get neither PFC nor ECN: the
    inbox driver has no class of its own for programs that set none.

    Without -R and -m the queue pair takes the port's active MTU and prints it, so the header proves
    the path MTU.
    """
    options = {
        "-d": side.end.device,
        "-x": side.gid_index,
        "-p": side.port,
        "-s": side.message_bytes,
    }
    words = [stage.test, *(str(word) for pair in options.items() for word in pair), "-F"]
    if stage.bandwidth:
        words += ["-q", str(side.queue_pairs), "--report_gbits"]
        words += ["-b"] if stage.shape == "both_ways" else []
    words += ["-u", str(PATIENT)] if simulated else []
    words += side.gpu
    words += ["-R"] if verbs.rdma_cm else []
    # the connection manager makes the address vector, and takes the byte by another option
    option = "--tos" if verbs.rdma_cm else "--tclass"
    words += [f"{option}={verbs.traffic_class}"] if verbs.traffic_class is not None else []
    duration_s = verbs.duration_of(stage)
    words += ["-D", str(duration_s)] if duration_s is not None else ["-n", str(stage.iterations)]
    return [*side.pinned, *words, *([str(side.peer.address)] if side.connects else [])]


def grown(err: str) -> dict[str, int]:
    """The counters that grew at one end of a run."""
    rows = (line.split() for line in err.splitlines() if line.startswith(GREW))
    return {words[1]: int(words[2]) for words in rows if len(words) == 3 and words[2].isdecimal()}

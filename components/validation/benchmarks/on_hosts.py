"""Runs a job with mpirun on the nodes themselves, over the connections of the run, or in Slurm."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from components.jobs.mpijob import MpiProgram
from components.jobs.on_hosts import AGENT, command_of, request_of
from components.jobs.workers import Workers
from components.ssh.connection import NoAnswerError
from components.ssh.session import feed, run, session
from components.validation.benchmarks.verbs.commands import LATE, bounded
from components.validation.benchmarks.verbs.run import Bench
from components.validation.mpijobs import LARGEST_LOG_BYTES, JobError
from stacks.base import LabError

GRACE_S = 15
SHORT_S = 30
FOLDER = (
    'trap "" PIPE HUP; d=$(mktemp -d /tmp/rocelab-XXXXXXXX) || exit; echo "$d"; cat > /dev/null; '
    'rm -rf "$d"'
)
"""Makes a folder, and removes it when the session's input closes, even if the caller is gone."""
LONGEST_CAUSE = 200
NOT_STARTED = 255
"""As ssh ends without a connection."""
CODES = {126: "cannot be run", 127: "is missing"}
NO_AGENT = "/bin/false"
"""Stands for ssh where nothing is started on another node: Open MPI 4 ends if it finds neither."""
_NCCL_WARN = re.compile(r"NCCL WARN (.*)")
_FRAME = re.compile(r"-{20,}$")


async def launched(bench: Bench, workers: Workers, program: MpiProgram, name: str) -> str:
    """The output of a job that ran on all nodes.

    Raises:
        JobError: when it failed, with its output.
        LabError: when a node does not take part.
    """
    for node in workers.nodes:
        if node in bench.unreachable:
            raise LabError(f"{node}: {bench.unreachable[node]}")
    first = workers.nodes[0]
    if program.apart_s is not None:
        return await _apart(bench, workers, program, name)
    if workers.runner == "slurm":
        return await _finished(bench, first, command_of(workers, program, name), workers.timeout_s)
    async with _relay(bench, workers) as agent:
        command = command_of(workers, program, name, agent)
        return await _finished(bench, first, command, workers.timeout_s)


async def _apart(bench: Bench, workers: Workers, program: MpiProgram, name: str) -> str:
    """The output of a program that each node runs alone, with the node before each line."""
    limit_s = program.apart_s or workers.timeout_s

    async def on(node: str) -> str:
        alone = workers.model_copy(update={"nodes": (node,)})
        command = command_of(alone, program, f"{name}-{node}", NO_AGENT)
        try:
            log = await _finished(bench, node, f"{command}; echo exit $?", limit_s)
        except LabError as error:
            if isinstance(error, JobError) and error.log:
                log = error.log
            else:
                log = f"{error}"
        return "".join(f"[{node}] {line}\n" for line in log.splitlines())

    logs = await asyncio.gather(*(on(node) for node in workers.nodes if node in bench.connections))
    return "".join(logs)


async def _finished(bench: Bench, node: str, command: str, limit_s: int) -> str:
    words = bounded(["sh", "-c", command], limit_s)
    try:
        done = await run(bench.connections[node], words, limit_s + GRACE_S, LARGEST_LOG_BYTES)
    except NoAnswerError as error:
        raise JobError(f"{node}: {error}", ran=False) from None
    if done.code == LATE:
        raise JobError(f"no end within {limit_s} s", ran=True, log=done.out)
    if done.code != 0:
        reason = CODES.get(done.code or 0, f"ended with {done.code}")
        cause = cause_in(done.out or done.err)
        if cause:
            reason = f"{reason}: {cause}"
        raise JobError(f"{node}: mpirun {reason}", ran=True, log=done.out)
    return done.out


def cause_in(log: str) -> str:
    """The line that says best why a job failed; empty for an empty log.

    NCCL's first warning; else the beginning of Open MPI's last message, which it puts in a frame;
    else the last line.
    """
    warning = _NCCL_WARN.search(log)
    if warning:
        return warning[1][:LONGEST_CAUSE]
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    frame = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if len(frame) > 1:
        return lines[frame[-2] + 1][:LONGEST_CAUSE]
    return lines[-1][:LONGEST_CAUSE] if lines else ""


@asynccontextmanager
async def _relay(bench: Bench, workers: Workers) -> AsyncIterator[str]:
    """What mpirun runs instead of ssh: a file on the first node, which exists within the block."""
    pool = bench.connections[workers.nodes[0]]
    node_of = {}
    for node, address in workers.addresses.items():
        node_of[address] = node

    async def answer(line: bytes) -> bytes:
        host, command = request_of(line)
        code: int | None = None
        if host in node_of:
            started = await run(bench.connections[node_of[host]], command, workers.timeout_s)
            code = started.code
        if code is None:
            code = NOT_STARTED
        return f"{code}\n".encode()

    first = workers.nodes[0]
    async with session(pool, shlex.join(["sh", "-c", FOLDER])) as held:
        try:
            folder = await held.first_line(SHORT_S)
        except TimeoutError:
            raise NoAnswerError(f"{first}: no answer within {SHORT_S} s") from None
        if not folder:
            raise LabError(f"{first}: cannot create a folder in /tmp")
        agent = f"{folder}/agent"
        words = ["sh", "-c", 'cat > "$0" && chmod 700 "$0"', agent]
        await feed(pool, shlex.join(words), AGENT.encode())
        async with pool.answering(f"{folder}/relay", answer):
            yield f"{agent}:{NO_AGENT}"

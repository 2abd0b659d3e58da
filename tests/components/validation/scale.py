"""What the validation of a large lab costs beside the tests themselves: every pair of 64 hosts on two rails.

`python -m tests.components.validation.scale FOLDER` prints the figures as JSON. It runs on simulated hosts whose
tests take no time, so all that is measured is ours: schedule, sessions, reading, judging. It is a process of its
own, so that its memory is its own.
"""

import asyncio
import json
import resource
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path

from components.ssh.credentials import access_to
from components.validation.judging.verdict import judge
from components.validation.memory.bundle import write_bundle, write_record
from components.validation.planning.plan import plan_of
from components.validation.records import compact
from components.validation.running.runner import Around, measure
from simulator.hosts.running import many_hosts
from stacks.base import LabError
from stacks.benchmarks import Benchmarks, Verbs
from stacks.read import read_stack_file

COUNT = 64
FIRST, PORT = IPv4Address("127.1.240.1"), 2222
ASKED = Benchmarks(
    budget_s=86_400,
    repeats=1,
    verbs=Verbs(tests=("ib_write_bw",), schedule="pairs", sizes=(), queue_pairs=1, iterations=1000),
)
STATE_BYTES = 256_000


def figures(folder: Path) -> dict[str, float]:
    """Runs the plan and judges it.

    Raises:
        LabError: when a transfer was not measured: then the figures say nothing.
    """
    with many_hosts(folder, COUNT, FIRST, PORT) as hosts:
        begun = time.monotonic()
        lab = read_stack_file(hosts.stack_file).model_copy(update={"benchmarks": ASKED})
        plan = plan_of(lab)
        if plan is None:
            raise LabError("no plan")
        access = access_to(lab, folder, lambda _: None)
        run = asyncio.run(measure(plan, access, lambda _: None, around=Around(journal=folder / "runs")))
        measured_s = time.monotonic() - begun
    begun = time.monotonic()
    write_bundle(folder / "runs", run.record.run_id, run.raw)
    write_record(folder / "runs", run.record)
    summary = judge(plan, ASKED, run.record)
    state = compact(run.record, STATE_BYTES)
    judged_s = time.monotonic() - begun
    bad = [transfer for transfer in run.record.transfers if transfer.outcome != "measured"]
    if bad or summary.function != "pass":
        raise LabError(f"{len(bad)} transfers were not measured: {bad[:1]} {summary.reasons[:1]}")
    return {
        "transfers": len(run.record.transfers),
        "schedule_and_run_s": round(measured_s, 1),
        "judge_and_store_s": round(judged_s, 1),
        "memory_mbyte": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
        "state_kbyte": round(len(state) / 1e3),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(figures(Path(sys.argv[1]).resolve())) + "\n")

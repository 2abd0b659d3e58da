"""What the validation of a large lab costs beside the tests themselves: every pair of 64 hosts on two rails.

`python -m tests.components.validation.scale FOLDER` prints the figures as JSON. It runs on simulated hosts whose
tests take no time, so all that is measured is ours: schedule, sessions, reading, judging, and the report in all its
formats. Hosts, run and report are a process each, so that their memory is their own.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from ipaddress import IPv4Address
from pathlib import Path

from components.cli.exits import Exit
from components.ssh.credentials import access_to
from components.validation.benchmarks.plan import plan_of
from components.validation.measuring import measure
from components.validation.output import output_of
from components.validation.store import RunDocument, declared_rails, write_bundle, write_document
from components.validation.verdict import verdict_on
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
MBYTE = 1e6


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
        access = asyncio.run(access_to(lab, folder, lambda _: None))
        run = asyncio.run(measure(plan, access, lambda _: None))
        measured_s = time.monotonic() - begun
    begun = time.monotonic()
    digest = write_bundle(folder / "runs", run.record.run_id, run.raw)
    record = run.record.model_copy(update={"raw_sha256": digest})
    document = RunDocument(plan=plan, rails=declared_rails(lab), record=record)
    update = {"document_sha256": write_document(folder / "runs", document)}
    summary = verdict_on(document, ASKED).model_copy(update=update)
    state = summary.model_dump_json(exclude_defaults=True)
    (folder / "outputs.json").write_text(json.dumps({"validation": output_of(summary)}))
    judged_s = time.monotonic() - begun
    bad = [transfer for transfer in record.transfers if transfer.outcome != "measured"]
    if bad or summary.function != "pass":
        raise LabError(f"{len(bad)} transfers were not measured: {bad[:1]} {summary.reasons[:1]}")
    return {
        "transfers": len(record.transfers),
        "schedule_and_run_s": round(measured_s, 1),
        "judge_and_store_s": round(judged_s, 1),
        "cpu_s": round(time.process_time(), 1),
        "memory_mbyte": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MBYTE),
        "state_kbyte": round(len(state) / 1e3),
        **_rendered(folder),
    }


def _rendered(folder: Path) -> dict[str, float]:
    """Time and memory of the report's command, and the size of its page.

    Raises:
        LabError: when it made none.
    """
    command = [sys.executable, "-m", "components.cli", "report", "--stack", "scale"]
    command += ["--outputs", str(folder / "outputs.json"), "--store", str(folder / "runs")]
    command += ["--folder", str(folder / "report")]
    begun = time.monotonic()
    report = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(report.pid, 0)
    page = folder / "report" / "scale.html"
    if os.waitstatus_to_exitcode(status) > Exit.FINDINGS or '<section id="pairs">' not in page.read_text():
        raise LabError(f"the report does not show the pairs: {' '.join(command)}")
    return {
        "render_s": round(time.monotonic() - begun, 1),
        "render_cpu_s": round(used.ru_utime + used.ru_stime, 1),
        "render_memory_mbyte": round(used.ru_maxrss * 1024 / MBYTE),
        "page_mbyte": round(page.stat().st_size / MBYTE, 2),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(figures(Path(sys.argv[1]).resolve())) + "\n")

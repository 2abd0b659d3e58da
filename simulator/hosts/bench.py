"""Measures a lab of many hosts on the real engine: times of the usual commands, and bytes of state per host."""

import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import yaml

from simulator.hosts import labfile
from simulator.hosts.running import ROOT, ManyHosts, many_hosts
from simulator.part import SimulatorError
from stacks.words import plural

COUNT = 256
FIRST, PORT = IPv4Address("127.1.0.1"), 2222
RUNS = 3
"""The fastest of these runs counts, because other load can only slow a run down."""
LIMIT_S = 600

UP = "pulumi up --yes --skip-preview"
STAGES = (
    (f"first up of {COUNT} hosts", UP, None, 1),
    ("preview", "pulumi preview", 4.0, RUNS),
    ("up without a change", f"{UP} --expect-no-changes", 5.0, RUNS),
    ("up with refresh", f"{UP} --refresh --expect-no-changes", 8.0, RUNS),
)
"""Stage, command, bound in seconds, number of runs."""
STATE_KBYTE = 12.0
"""Bound on the state per host in 1000 bytes, over all resources of the stack."""
OUTPUTS_KBYTE = 16.384
"""Bound on all outputs of a stack: another stack that reads one of them fetches all."""
MEASURED = {
    "budget_s": 86_400,
    "repeats": 1,
    "verbs": {"tests": ["ib_write_bw"], "sizes": [], "queue_pairs": 1, "iterations": 1000},
}
"""With so many hosts, a sample of pairs: the ring and fifteen random pairings."""
DEAD_EACH = 16
"""Every sixteenth host does not answer, because faults take more room than results."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One line of the result."""

    what: str
    command: str
    value: float
    unit: str
    bound: float | None = None
    cpu_s: float | None = None
    """Processor time of the command and its children, on which other load has little influence."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A command that succeeded."""

    wall_s: float
    cpu_s: float
    text: str


def measure(folder: Path) -> Iterator[Figure]:
    """Runs all stages on a new lab.

    Raises:
        SimulatorError: with the log of the failed command.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with many_hosts(folder, COUNT, FIRST, PORT) as hosts:
        (folder / "state").mkdir()
        env = {**os.environ, "PULUMI_BACKEND_URL": f"file://{folder / 'state'}"}
        # `stack init` writes a salt to the stack file in its folder, so it must not run in the checkout
        shutil.copy(ROOT / "Pulumi.yaml", folder)
        pulumi(hosts, env, f"pulumi --cwd {folder} stack init {hosts.stack}", "init")
        for number, (what, command, bound_s, runs) in enumerate(STAGES):
            options = f"--stack {hosts.stack} --config-file {hosts.stack_file} --non-interactive --color never"
            taken = [pulumi(hosts, env, f"{command} {options}", f"{number}-{run}") for run in range(runs)]
            wall_s, cpu_s = (min(times) for times in zip(*((one.wall_s, one.cpu_s) for one in taken), strict=True))
            yield Figure(what=what, command=command, value=wall_s, unit="s", bound=bound_s, cpu_s=cpu_s)
        exported = pulumi(hosts, env, f"pulumi stack export --stack {hosts.stack}", "export").text
        yield Figure(
            what="state per host",
            command="pulumi stack export",
            value=state_bytes(exported) / COUNT / 1000,
            unit="kB",
            bound=STATE_KBYTE,
        )
        yield from _validated(hosts, env)


def _validated(hosts: ManyHosts, env: Mapping[str, str]) -> Iterator[Figure]:
    """The first validation with some hosts dead, and the size of the stack's outputs."""
    lab = yaml.safe_load(hosts.stack_file.read_text())["config"]["rocelab:lab"]
    labfile.write(hosts.stack_file, {**lab, "benchmarks": MEASURED})
    dead = [node["name"] for node in lab["nodes"][::DEAD_EACH]]
    hosts.faults_file.write_text(json.dumps(dict.fromkeys(dead, "dead")))
    command = f"{UP} --refresh"
    options = f"--stack {hosts.stack} --config-file {hosts.stack_file} --non-interactive --color never"
    run = pulumi(hosts, env, f"{command} {options}", "validation")
    what = f"first validation, {plural(len(dead), 'host')} dead"
    yield Figure(what=what, command=command, value=run.wall_s, unit="s", cpu_s=run.cpu_s)
    outputs = json.loads(pulumi(hosts, env, f"pulumi stack output --json --stack {hosts.stack}", "outputs").text)
    if outputs["validation"]["function"] == "pass" or len(outputs["validation"]["quarantined"]) < 2:
        raise SimulatorError(f"the verdict does not show the dead hosts: {str(outputs['validation'])[:300]}")
    size = len(json.dumps(outputs, separators=(",", ":")).encode())
    yield Figure(
        what="outputs of the stack", command="pulumi stack output", value=size / 1000, unit="kB", bound=OUTPUTS_KBYTE
    )


def pulumi(hosts: ManyHosts, env: Mapping[str, str], command: str, name: str) -> Run:
    """Runs a command and keeps its output in the folder.

    Raises:
        SimulatorError: if it failed.
    """
    log = hosts.folder / f"{name}.log"
    begin, before = time.monotonic(), _cpu_s()
    with log.open("w") as printed:
        code = subprocess.run(
            command.split(),
            cwd=ROOT,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_S,
            check=False,
        ).returncode
    run = Run(wall_s=time.monotonic() - begin, cpu_s=_cpu_s() - before, text=log.read_text(errors="replace"))
    if code:
        raise SimulatorError(f"{command} failed; full log: {log}\n{run.text[-2000:]}")
    return run


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def state_bytes(exported: str) -> int:
    """Size of all resources as the file backend writes them, without the export's indentation."""
    resources = json.loads(exported)["deployment"]["resources"]
    return len(json.dumps(resources, separators=(",", ":"), ensure_ascii=False).encode())

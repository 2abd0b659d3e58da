"""The history's entry of a run: its values, and the configuration that another run must share. Pure."""

import hashlib
import math
from collections.abc import Iterable
from statistics import median

from components.validation.judging.pvrdma import NOT_PROVEN, PATH, proof_in_words
from components.validation.judging.states import function_of_tests
from components.validation.judging.statistics import cv
from components.validation.memory.history import Entry, Value
from components.validation.planning.plan import Plan
from components.validation.records import JobResult, RunRecord, TransferResult, median_of, unit_of
from components.validation.summary import Summary

ASKED = "rebaseline"
"""Part of a configuration that only you change: it discards earlier baselines."""
PVRDMA_PATH = "PVRDMA path"
"""Part of a configuration: whether the HCAs' counters proved that the values are those of RDMA."""
RATED = ("one_way", "both_ways")


def entry_of(plan: Plan, record: RunRecord, asked: str = "") -> Entry:
    """A run as the history has it, before it is judged.

    Args:
        plan: what was measured.
        record: what came of it.
        asked: the run from which comparisons start over.
    """
    return Entry(
        **record.head,
        lab=plan.lab,
        function="skip",
        performance="not rated",
        passed=False,
        config=config_of(plan, record) | ({ASKED: asked} if asked else {}),
        values=values_of(plan, record),
    )


def passes(summary: Summary) -> bool:
    """Whether a run may be a baseline. Warnings pass: otherwise a lab with a known warning could never be compared.

    A run over an unproven PVRDMA path passes too: the path is part of its configuration, so it is only compared with
    runs of the same kind.
    """
    unknown = [test for test in summary.tests if test.test == PATH and test.function == "skip"]
    rest = [test.function for test in summary.tests if test not in unknown]
    works = summary.function == "pass"
    if unknown and summary.function == "skip" and not summary.stale:
        works = function_of_tests(rest) == "pass"
    return works and summary.performance not in ("fail", "unstable")


def unproven(entry: Entry) -> bool:
    """Whether it is not known that all its values are those of RDMA."""
    return entry.config.get(PVRDMA_PATH, "").startswith(NOT_PROVEN)


def judged(entry: Entry, summary: Summary) -> Entry:
    """The entry with its verdict."""
    same = {name: getattr(summary, name) for name in ("function", "performance", "raw_sha256")}
    return entry.model_copy(update={"passed": passes(summary), **same})


def values_of(plan: Plan, record: RunRecord) -> dict[str, Value]:
    """The values that two runs are compared by: medians over all pairs of a rail, and those of jobs."""
    found: dict[str, Value] = {}
    for stage in plan.stages:
        for rail in plan.rails:
            measured = record.measured_of(stage.test, stage.shape, rail.name)
            middle = median_of(measured)
            if middle is not None and stage.shape in RATED:
                value = Value(median=middle, unit=unit_of(stage.test), cv=_pooled_cv(measured))
                found[f"{stage.test} {stage.shape} {rail.name}"] = value
    direct = [one for one in record.gpu_memory if one.outcome == "measured" and one.gbit_s and not one.far]
    if slowest := min(direct, key=lambda one: one.ratio, default=None):
        found["gpu_memory"] = Value(median=slowest.gbit_s or 0.0, unit="Gbit/s")
    if alone := [ring.of_itself for ring in record.rings if ring.outcome == "measured"]:
        found["nccl_one_node"] = Value(median=min(alone), unit="GB/s")
    if record.nccl and record.nccl.busbw_gbyte_s is not None and not record.nccl.replayed:
        found["nccl_all_reduce"] = Value(median=record.nccl.busbw_gbyte_s, unit="GB/s")
    jobs: dict[str, list[JobResult]] = {}
    for job in record.jobs:
        if job.value is not None and not job.replayed:
            jobs.setdefault(f"{job.program} {job.transport}", []).append(job)
    for name, several in jobs.items():
        values = [job.value for job in several if job.value is not None]
        found[name] = Value(median=median(values), unit=several[0].unit)
    return found


def _pooled_cv(transfers: Iterable[TransferResult]) -> float | None:
    """Coefficient of variation over the repeats of all transfers; None where nothing was repeated."""
    found = [cv(t.samples) for t in transfers if len(t.samples) > 1]
    return round(math.sqrt(math.fsum(one * one for one in found) / len(found)), 4) if found else None


def config_of(plan: Plan, record: RunRecord) -> dict[str, str]:
    """What makes two runs comparable, by name; unknown parts are left out."""
    hosts = record.hosts.values()
    lines = {f"{t.line_rate_gbit_s:g}" for t in record.transfers if t.line_rate_gbit_s}
    # ports and bounds of time change nothing that is measured
    tests = plan.verbs.model_dump_json(exclude={"first_port", "timeout_s"})
    parts = {
        "nodes": str(len(plan.nodes)),
        "rails": _joined({rail.name for rail in plan.rails}),
        "path MTU": _joined({str(rail.path_mtu_bytes) for rail in plan.rails}),
        "NIC": _joined({host.nic for host in hosts}),
        "driver": _joined({host.driver for host in hosts}),
        "firmware": _joined({host.firmware for host in hosts}),
        "line rate": _joined(lines),
        "image": plan.nccl.image if plan.nccl else "",
        "tests": hashlib.sha256(tests.encode()).hexdigest()[:12],
        PVRDMA_PATH: proof_in_words(plan, record),
    }
    return {key: value for key, value in parts.items() if value}


def _joined(values: set[str]) -> str:
    return ", ".join(sorted(value for value in values if value))[:120]

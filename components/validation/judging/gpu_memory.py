"""The judgement over GPU memory on the wire: held against the same transfer between the hosts' memories. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from components.validation.judging.states import function_of_counts, rate
from components.validation.planning.plan import Plan
from components.validation.records import GpuTransfer, RunRecord
from components.validation.summary import Finding, JudgedTest
from stacks.benchmarks import Benchmarks
from stacks.words import plural

HINT = (
    "the network is fine, GPUDirect is not: look for nvidia_peermem or DMA-BUF, at ACS and IOMMU, and whether NIC and "
    "GPU share a PCIe switch (nvidia-smi topo -m)"
)


def judge_gpu_memory(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[JudgedTest]:
    """One test over all rails, by its slowest transfer. What no host can run is no test, and a hint instead."""
    planned = sum(map(len, plan.gpu_memory))
    unable = sum(one.outcome == "skipped" for one in record.gpu_memory)
    if not planned or unable == planned:
        return
    count = Counter(one.outcome for one in record.gpu_memory)
    shown = JudgedTest(
        test="gpu_memory",
        shape="",
        rail=None,
        function=function_of_counts(
            planned - unable, measured=count["measured"], failed=count["failed"], skipped=0, errors=count["error"]
        ),
        performance="not rated",
        because="nothing measured",
        unit="Gbit/s",
        measured=count["measured"],
        failed=count["failed"],
        skipped=unable,
        errors=count["error"],
    )
    measured = [one for one in record.gpu_memory if one.outcome == "measured" and one.ratio]
    if not measured:
        yield shown
        return
    worst = min(measured, key=lambda one: one.ratio)
    yield shown.model_copy(
        update={
            "performance": rate(worst.ratio, benchmarks.verbs.threshold_pair),
            "because": "",
            "median": worst.gbit_s,
            "ceiling": worst.host_gbit_s,
            "basis": f"{_where(worst)} is the slowest, against the hosts' memories on the same way",
            "ratio": round(worst.ratio, 4),
        }
    )


def gpu_memory_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """GPUDirect that fails or is slow where the same NICs carry host memory; and what could not be tried."""
    if not plan.gpu_memory:
        return
    failed = [one for one in record.gpu_memory if one.outcome == "failed"]
    slow = [
        one
        for one in record.gpu_memory
        if one.outcome == "measured" and rate(one.ratio, benchmarks.verbs.threshold_pair) != "pass"
    ]
    if failed:
        first = failed[0]
        yield Finding(
            code="GPUDIRECT_FAILED",
            where=_all(failed),
            evidence=f"{first.host_gbit_s or 0:.1f} Gbit/s between hosts' memories, between GPUs': {first.reason}",
            hint=HINT,
        )
    if slow:
        worst = min(slow, key=lambda one: one.ratio)
        yield Finding(
            code="GPUDIRECT_SLOW",
            where=_all(sorted(slow, key=lambda one: one.ratio)),
            evidence=f"{worst.gbit_s or 0:.1f} Gbit/s between the GPUs' memories ({' and '.join(worst.gpus)}), "
            f"{worst.host_gbit_s or 0:.1f} between the hosts'",
            hint=HINT,
        )
    if unable := [one for one in record.gpu_memory if one.outcome == "skipped"]:
        yield Finding(
            code="GPUDIRECT_UNTESTED",
            where=_all(unable),
            evidence=unable[0].reason,
            hint="NCCL's own number is the first that tells of GPU memory then",
        )


def _where(one: GpuTransfer) -> str:
    return f"{one.rail} {one.client} to {one.server}"


def _all(found: Sequence[GpuTransfer]) -> str:
    more = f" and {plural(len(found) - 1, 'other')}" if len(found) > 1 else ""
    return f"{_where(found[0])}{more}"

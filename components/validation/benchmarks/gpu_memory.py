"""ib_write_bw between the memories of the GPUs nearest to two NICs: GPUDirect on the wire, without
NCCL.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from components.finding import Finding
from components.ssh.connection import NoAnswerError
from components.validation import Say
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.ports import NO_CUDA, NO_GPU
from components.validation.benchmarks.verbs.run import Bench, BusyError, NoResultError
from components.validation.records import (
    Flow,
    GpuTransfer,
    RunRecord,
    TransferResult,
    outcome_of,
)
from components.validation.summary import (
    FAR,
    NOTHING,
    JudgedTest,
    counted,
    not_run,
    rate,
)
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.words import plural

FOLDER = "gpu-memory"
PROOF = "allocated GPU buffer"
"""perftest's src/cuda_memory.c says so at each end, in all versions that know CUDA."""


async def measure_gpu_memory(
    bench: Bench, transfers: Sequence[TransferResult], say: Say
) -> tuple[GpuTransfer, ...]:
    """Every transfer of the plan; whatever happens is a result.

    Args:
        bench: the hosts.
        transfers: what was measured between the hosts' memories.
        say: for progress.
    """
    stage = bench.plan.write_stage
    if stage is None:
        return ()
    host = {}
    for t in transfers:
        if (t.test, t.shape) == (stage.test, stage.shape) and t.has_value:
            host[t.flow] = t.value
    results: list[GpuTransfer] = []
    rounds = bench.plan.gpu_memory
    for number, together in enumerate(rounds, 1):
        done = await asyncio.gather(*(_one(bench, stage, transfer, host) for transfer in together))
        results += done
        bad = [f"{t.flow} {t.outcome}: {t.reason}" for t in done if t.outcome != "measured"]
        good = [t for t in done if t.outcome == "measured"]
        worst = min(good, key=lambda t: t.ratio, default=None)
        count = "nothing measured"
        if good:
            count = f"{plural(len(good), 'transfer')} measured"
        least = ""
        if worst:
            least = f", slowest {worst.gbit_s:.1f} Gbit/s, {worst.ratio:.0%} of host memory"
        say(f"gpu_memory round {number}/{len(rounds)}: {'; '.join([count + least, *bad[:2]])}")
    return tuple(results)


async def _one(
    bench: Bench, stage: Stage, transfer: Transfer, host: Mapping[Flow, float]
) -> GpuTransfer:
    base = GpuTransfer(**transfer.flow._asdict(), outcome="skipped")
    if transfer.flow not in host:
        return base.replace(reason="host memory was not measured on this pair")
    try:
        client, server = map(bench.with_gpu, bench.sides_of(stage, transfer))
    except LabError as error:
        return base.replace(reason=str(error))
    name = f"{FOLDER}/{transfer.rail}/{transfer.client}-to-{transfer.server}"
    ends = (client.end, server.end)
    far_nodes = [end.node for end in ends if bench.ports[end.node].nearest_gpu[end.device].far]
    known = base.replace(
        host_gbit_s=host[transfer.flow],
        gpus=tuple(" ".join(side.gpu) for side in (client, server)),
        far=tuple(far_nodes),
        raw=f"{name}.client",
    )
    try:
        reading = await bench.once(stage, (client, server), name)
    except (BusyError, NoResultError, NoAnswerError) as error:
        return known.replace(outcome="error", reason=str(error))
    except LabError as error:
        return known.replace(outcome="failed", reason=str(error))
    silent = [
        end for end in ("client", "server") if PROOF not in bench.raw.get(f"{name}.{end}", "")
    ]
    faults = [
        *reading.faults,
        *(f"the {end}'s output does not confirm a buffer in GPU memory" for end in silent),
    ]
    return known.replace(outcome=outcome_of(faults), reason="; ".join(faults), gbit_s=reading.value)


HINT = (
    "the network is fine, GPUDirect is not: check nvidia_peermem or DMA-BUF, ACS and IOMMU, and "
    "whether NIC and GPU share a PCIe switch (nvidia-smi topo -m)"
)


WITHOUT_CUDA = (
    "Debian, Ubuntu and RHEL build their perftest without CUDA: build 25.07 or later where cuda.h "
    "is installed, and "
    "install it on every node in /usr/local/bin"
)
"""25.07 finds cuda.h by itself and loads libcuda when it runs (perftest c543c84, README)."""
WITHOUT_GPUS = (
    "where a node has no GPUs, set its gpus to 0; otherwise check lspci and the NVIDIA driver"
)


def judge_gpu_memory(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[JudgedTest]:
    """One test over all rails, judged by its slowest transfer between GPUs near their NICs."""
    planned = sum(map(len, plan.gpu_memory))
    if not planned:
        return
    unable = sum(t.outcome == "skipped" for t in record.gpu_memory)
    if unable == planned and any(t.outcome == "measured" for t in record.transfers):
        yield not_run("gpu_memory", record.gpu_memory[0].reason)
        return
    # a finding names those that cannot run; without any value of the verbs nothing was run at all
    skipped = 0 if unable < planned else unable
    planned += skipped - unable
    outcomes = [t.outcome for t in record.gpu_memory if skipped or t.outcome != "skipped"]
    shown = counted("gpu_memory", outcomes, planned, NOTHING, "Gbit/s")
    shown = shown.replace(skipped=unable)
    measured = [t for t in record.gpu_memory if t.outcome == "measured" and t.ratio]
    if not measured:
        yield shown
        return
    near = [t for t in measured if not t.far]
    worst = min(near or measured, key=lambda t: t.ratio)
    if worst.far:
        yield shown.replace(because=FAR, median=worst.gbit_s)
        return
    basis = f"{worst.flow} is the slowest, against the hosts' memories on the same way"
    state = rate(worst.ratio, benchmarks.verbs.threshold_pair)
    yield shown.rated(state, worst.host_gbit_s or 0.0, basis, worst.ratio, median=worst.gbit_s)


def gpu_memory_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass."""
    for t in record.gpu_memory:
        if t.outcome in ("failed", "error"):
            yield f"gpu_memory {t.flow} {t.outcome}: {t.reason}"


def gpu_memory_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """GPUDirect that fails or is slow where NICs carry host memory, and what could not run."""
    if not plan.gpu_memory:
        return
    threshold = benchmarks.verbs.threshold_pair
    failed = [t for t in record.gpu_memory if t.outcome == "failed"]
    near = [t for t in record.gpu_memory if t.outcome == "measured" and not t.far]
    slow = [t for t in near if rate(t.ratio, threshold) != "pass"]
    far = [t for t in record.gpu_memory if t.far]
    if failed:
        first = failed[0]
        yield Finding(
            code="GPUDIRECT_FAILED",
            where=_all(failed),
            evidence=f"{first.host_gbit_s or 0:.1f} Gbit/s between hosts' memories, between "
            f"GPUs': {first.reason}",
            hint=HINT,
        )
    if slow:
        worst = min(slow, key=lambda t: t.ratio)
        yield Finding(
            code="GPUDIRECT_SLOW",
            where=_all(sorted(slow, key=lambda t: t.ratio)),
            evidence=f"{worst.gbit_s or 0:.1f} Gbit/s between the GPUs' memories "
            f"({' and '.join(worst.gpus)}), "
            f"{worst.host_gbit_s or 0:.1f} between the hosts'",
            hint=HINT,
        )
    if far:
        first = far[0]
        yield Finding(
            code="GPU_FAR",
            where=_all(far),
            evidence=f"on {' and '.join(first.far)} no GPU shares a PCIe bridge or a NUMA node "
            f"with the NIC; {first.gbit_s or 0:.1f} Gbit/s between GPUs, "
            f"{first.host_gbit_s or 0:.1f} between hosts' memories",
            hint="the interconnect of the sockets limits such a pair, so its value is not judged; "
            "put NIC and GPU "
            "behind one socket (nvidia-smi topo -m shows SYS)",
        )
    if unable := [t for t in record.gpu_memory if t.outcome == "skipped"]:
        why = unable[0].reason
        remedies = {NO_CUDA: WITHOUT_CUDA, NO_GPU: WITHOUT_GPUS}
        hint = "".join(remedy for fault, remedy in remedies.items() if fault in why)
        yield Finding(code="GPUDIRECT_UNTESTED", where=_all(unable), evidence=why, hint=hint)


def _all(transfers: Sequence[GpuTransfer]) -> str:
    more = ""
    if len(transfers) > 1:
        more = f" and {plural(len(transfers) - 1, 'other')}"
    return f"{transfers[0].flow}{more}"

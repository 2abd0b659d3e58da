"""Judges nodes alone: by the part's own limits, and by the other parts of the same kind. Pure."""

from collections.abc import Iterator, Sequence
from statistics import median

from components.finding import Finding
from components.validation.benchmarks.gpu_memory import HINT as GPUDIRECT
from components.validation.benchmarks.plan import Plan
from components.validation.records import GpuCopy, Loopback, NodesAlone, RunRecord
from components.validation.summary import (
    NOTHING,
    SIMULATED,
    JudgedTest,
    counted,
    rate,
    worse_of,
)
from stacks.benchmarks import Benchmarks, Threshold

LEAST_LOOPBACK_SHARE = 0.7
"""Of what line and PCIe link allow: a loopback crosses the link twice. A sound NIC of 400 Gbit/s
had 290 with one queue pair (NVIDIA/nccl#2171)."""
LEAST_COPY_SHARE = 0.8
"""Of what a GPU's PCIe link carries. From practice: an H100 and an H200 reach 0.95 of it."""
LEAST_PEER_SHARE = 0.85
"""Of the median of the same copies on all nodes."""
FEWEST_PEERS = 3
NIC_HINT = (
    "this NIC is slow without any network: compare its PCIe link, slot, NUMA node, read requests "
    "and relaxed ordering with a peer's, then swap the card"
)
COPY_HINT = (
    "check the GPU's PCIe link and NUMA node (nvidia-smi topo -m), the BIOS settings of its slot, "
    "and other programs on the GPU; then reseat or swap the card"
)


def judge_alone(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[JudgedTest]:
    """One test over all NICs and GPUs; each fault is a finding."""
    if not plan.alone:
        return
    alone = record.alone or NodesAlone()
    loopbacks, copies = alone.loopbacks, alone.copies
    outcomes = [loop.outcome for loop in loopbacks] + [copy.outcome for copy in copies]
    planned = sum(len(plan.rails_of(node)) for node in plan.alone) + len(copies)
    because = SIMULATED if record.simulated else NOTHING
    test = counted("node_alone", outcomes, planned, because, "Gbit/s")
    ratios = {}
    for loop in loopbacks:
        usual = _usual(plan, loop, loopbacks)
        if loop.gbit_s and usual:
            ratios[loop] = loop.gbit_s / usual
    if record.simulated or not ratios:
        yield test
        return
    worst = min(ratios, key=lambda loop: ratios[loop])
    state = rate(ratios[worst], benchmarks.verbs.threshold_pair)
    if any(_slow_copies(copies)):
        state = worse_of(state, "warn")
    basis = (
        f"line and PCIe link of {worst.place}, the slowest; the state is by what its peers reach"
    )
    ceiling, gbit_s = _ceiling(plan, worst) or 0.0, worst.gbit_s or 0.0
    yield test.rated(state, ceiling, basis, gbit_s / ceiling, median=gbit_s)


def alone_reasons(record: RunRecord) -> Iterator[str]:
    """Why it is no pass."""
    alone = record.alone or NodesAlone()
    parts: tuple[Loopback | GpuCopy, ...] = (*alone.loopbacks, *alone.copies)
    for part in parts:
        if part.outcome != "measured":
            yield f"node_alone {part.place} {part.outcome}: {part.reason}"


def alone_findings(plan: Plan, benchmarks: Benchmarks, record: RunRecord) -> Iterator[Finding]:
    """Each bad card by its name."""
    alone = record.alone or NodesAlone()
    threshold = benchmarks.verbs.threshold_pair
    for loop in alone.loopbacks:
        if loop.outcome == "failed":
            yield _bad("NIC_ALONE_FAILED", loop, loop.reason, NIC_HINT)
        elif not record.simulated:
            usual = _usual(plan, loop, alone.loopbacks)
            yield from _slow_loopback(loop, usual, threshold)
    for copy in alone.copies:
        if copy.outcome == "failed":
            yield _bad("GPU_COPY_FAILED", copy, copy.reason, COPY_HINT)
    for copy, evidence in _slow_copies(alone.copies):
        yield _bad("GPU_COPY_SLOW", copy, evidence, COPY_HINT)


def _bad(code: str, part: Loopback | GpuCopy, evidence: str, hint: str) -> Finding:
    return Finding(code=code, where=part.place, evidence=evidence, hint=hint)


def _slow_loopback(loop: Loopback, usual: float | None, threshold: Threshold) -> Iterator[Finding]:
    host = loop.gbit_s
    if usual and host and rate(host / usual, threshold) != "pass":
        evidence = f"{host:.1f} Gbit/s to itself; a sound NIC like it reaches {usual:.1f}"
        yield _bad("NIC_ALONE_SLOW", loop, evidence, NIC_HINT)
    gpu = loop.gpu_gbit_s
    if gpu and host and not loop.far and rate(gpu / host, threshold) != "pass":
        evidence = f"{gpu:.1f} Gbit/s with GPU {loop.gpu}, {host:.1f} with the host's memory"
        yield _bad("GPUDIRECT_ALONE_SLOW", loop, evidence, GPUDIRECT)


def _ceiling(plan: Plan, loop: Loopback) -> float | None:
    """What the port's line and its PCIe link allow."""
    limits = [loop.pcie_gbit_s] if loop.pcie_gbit_s else []
    if loop.line_rate_gbit_s:
        limits.append(loop.line_rate_gbit_s * plan.rail(loop.rail).ceiling_ratio)
    return min(limits, default=None)


def _usual(plan: Plan, loop: Loopback, loopbacks: Sequence[Loopback]) -> float | None:
    """What a NIC like this one reaches: the median of its peers, or the least share if that is
    more.
    """
    ceiling = _ceiling(plan, loop)
    if ceiling is None:
        return None
    peers = []
    for peer in loopbacks:
        if peer.gbit_s and _ceiling(plan, peer) == ceiling:
            peers.append(peer.gbit_s)
    least = LEAST_LOOPBACK_SHARE * ceiling
    if len(peers) < FEWEST_PEERS:
        return least
    return max(median(peers), least)


def _slow_copies(copies: Sequence[GpuCopy]) -> Iterator[tuple[GpuCopy, str]]:
    for direction in ("to_gpu", "to_host"):
        rates = {}
        for copy in copies:
            value = getattr(copy, f"{direction}_gbyte_s")
            if value:
                rates[copy] = value
        usual = 0.0
        if len(rates) >= FEWEST_PEERS:
            usual = median(rates.values())
        for copy, value in rates.items():
            ceiling = copy.ceiling_gbyte_s or 0.0
            words = f"{value:.1f} GB/s {direction.replace('_', ' ')}"
            if value < LEAST_COPY_SHARE * ceiling:
                yield copy, f"{words} of {ceiling:.1f} possible"
            elif value < LEAST_PEER_SHARE * usual:
                yield copy, f"{words}, but the median of {len(rates)} GPUs is {usual:.1f}"

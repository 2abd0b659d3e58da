"""Findings from single transfers: path MTU, PCIe, counters, jitter."""

import re
from collections.abc import Iterator, Sequence
from statistics import median

from components.finding import Finding
from components.physics.mtu import MtuFingerprint, mtu_fingerprint
from components.validation.benchmarks.plan import Plan, PlannedRail
from components.validation.benchmarks.verbs.judge import (
    MOST_TAIL_TO_MEDIAN,
    ceiling_of,
    jitters,
    lowest_by_noise,
    path_of,
    settled,
)
from components.validation.benchmarks.verbs.plan import Stage
from components.validation.records import Flow, RunRecord, TransferResult
from components.validation.repeats import LEAST_FOR_INTERVAL, NORMAL, mad
from components.validation.summary import Performance, where_of
from stacks.frozen import frozen
from stacks.safe_yaml import load_beside


@frozen
class Load:
    """What a transfer put on its line, by which its counters are judged."""

    packets: float
    seconds: float
    line_bits: float
    """That passed the line meanwhile, idle symbols included."""


@frozen
class CounterSign:
    """A row of counter_signs.yaml."""

    code: str
    names: str
    """Pattern of the counters' names."""
    state: Performance
    hint: str
    at_least: float = 0.0
    per_packet: float = 0.0
    per_second: float = 0.0
    per_bit: float = 0.0

    def allowed(self, load: Load) -> float:
        """How far the counters may grow under this load."""
        of_packets, of_time = self.per_packet * load.packets, self.per_second * load.seconds
        return max(self.at_least, of_packets + of_time + self.per_bit * load.line_bits)


_ROWS = load_beside(__file__, "counter_signs.yaml")
COUNTER_SIGNS = [CounterSign(**row) for row in _ROWS]
NOISE_SIGMAS = 5
"""Robust standard deviations below the rail's median that noise does not reach among the transfers
of 256 nodes."""


def mtu_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Transfers whose bandwidth looks like a smaller path MTU, grouped by MTU; the finding names no
    cause.
    """
    stage = plan.main_stage
    if stage is None or record.simulated or stage.program.operation != "write":
        return
    groups: dict[tuple[int, int | None], list[tuple[TransferResult, MtuFingerprint]]] = {}
    for rail in plan.rails:
        hits, known = [], []
        for t in record.measured_of(stage.test, stage.shape, rail.name):
            path = path_of(rail, stage, t)
            if path:
                known.append(t)
                sign = mtu_fingerprint(settled(t), path, reported_bytes=t.path_mtu_bytes)
                hits += [(t, sign)] if sign else []
        if hits and 2 * len(hits) <= len(known):
            noise = _low_by_noise(rail, stage, known)
            hits = [(t, sign) for t, sign in hits if sign.ratio_to_configured < noise]
        for t, sign in hits:
            groups.setdefault((sign.seen_bytes, sign.reported_bytes), []).append((t, sign))
    for group in groups.values():
        first = group[0][1]
        contradiction = ": a contradiction" if first.contradiction else ""
        yield Finding(
            code=first.code,
            where=where_of([t for t, _ in group]),
            evidence=f"{first.evidence}{contradiction}",
            hint=first.hint,
        )


def _low_by_noise(rail: PlannedRail, stage: Stage, transfers: list[TransferResult]) -> float:
    """Ratio to the ceiling above which a transfer differs from its rail's others by noise alone.

    Noise puts some sound transfers on the ceiling of a smaller path MTU. It shows in their repeats,
    and of several transfers also among them; a few without repeats count each.
    """
    ceilings = [(t, ceiling_of(rail, stage, t)) for t in transfers]
    ratios = [settled(t) / ceiling.value for t, ceiling in ceilings if ceiling]
    level = median(ratios)
    lowest = lowest_by_noise(level, transfers)
    if len(transfers) < LEAST_FOR_INTERVAL:
        return lowest
    return min(lowest, level - NOISE_SIGMAS * mad(ratios) / NORMAL)


def pcie_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Ports whose PCIe link carries less than their line."""
    stage = plan.main_stage
    if stage is None or record.simulated:
        return
    for rail in plan.rails:
        slow = []
        for t in record.measured_of(stage.test, stage.shape, rail.name):
            ceiling = ceiling_of(rail, stage, t)
            if ceiling and ceiling.limited_by in ("pcie", "shared slot"):
                slow.append(t)
        if slow:
            ports = slow[0].ports_on_slot
            carries = (
                f"{slow[0].pcie_gbit_s:.1f} "
                f"Gbit/s{f' for {ports} ports that run at once' if ports > 1 else ''}"
            )
            yield Finding(
                code="PCIE_LIMITS",
                where=where_of(slow),
                evidence=f"PCIe carries {carries}, the line {slow[0].line_rate_gbit_s:g}",
                hint="compare current_link_speed and current_link_width of the NIC in sysfs with "
                "what card and slot support",
            )


def counter_findings(
    plan: Plan, record: RunRecord
) -> Iterator[tuple[Finding, Performance, TransferResult]]:
    """What the ports counted: each finding with one of its transfers, and the state of that test.

    A simulated port that loses packets only shows how fast this computer emulates it.
    """
    stages = {(stage.test, stage.shape): stage for stage in plan.stages}
    counted = [t for t in record.transfers if t.counters]
    lossy: set[tuple[str, str, Flow]] = set()
    for sign in COUNTER_SIGNS:
        if record.simulated and sign.code != "LINK_ERRORS":
            continue
        hits: list[tuple[int, TransferResult]] = []
        for t in counted:
            key = (t.test, t.shape, t.flow)
            grown = sum(_counted(sign, t).values())
            load = load_of(plan, stages.get((t.test, t.shape)), t)
            if not grown or grown <= sign.allowed(load):
                continue
            if sign.code == "PACKETS_LOST":
                lossy.add(key)
            # a loss also brings the packets behind it out of order
            if sign.code != "PACKETS_REORDERED" or key not in lossy:
                hits.append((grown, t))
        if hits:
            hits.sort(key=lambda hit: hit[0], reverse=True)
            transfers = [t for _, t in hits]
            finding = _finding(sign, transfers)
            yield from ((finding, sign.state, t) for t in transfers)


def _finding(sign: CounterSign, transfers: Sequence[TransferResult]) -> Finding:
    """What counters say, with those of the first transfer as evidence."""
    worst = transfers[0]
    shown = []
    for name, count in sorted(_counted(sign, worst).items()):
        shown.append(f"{name} {count}")
    evidence = f"{', '.join(shown)} during {worst.test}"
    return Finding(code=sign.code, where=where_of(transfers), evidence=evidence, hint=sign.hint)


def _counted(sign: CounterSign, transfer: TransferResult) -> dict[str, int]:
    """The counters of a sign that grew, of both ports."""
    counters = transfer.counters.items()
    return {name: count for name, count in counters if re.fullmatch(sign.names, _plain(name))}


def _plain(counter: str) -> str:
    """Name of a counter without a leading node or device."""
    if counter:
        return counter.replace("/", " ").replace(".", " ").split()[-1]
    return ""


def load_of(plan: Plan, stage: Stage | None, transfer: TransferResult) -> Load:
    """What a transfer sent in all its repeats. Of a curve any counter stands out: it has many
    sizes.
    """
    if stage is None or not stage.message_bytes:
        return Load(packets=1.0, seconds=0.0, line_bits=0.0)
    packets_per_message = -(-stage.message_bytes // (transfer.path_mtu_bytes or 1024))
    runs = max(len(transfer.samples), 1)
    duration_s = plan.verbs.duration_of(stage)
    if duration_s is not None:
        seconds = float(duration_s * runs)
        messages = sum(transfer.samples) * 1e9 / 8 * duration_s / stage.message_bytes
    else:
        # perftest's iterations are those of each queue pair
        messages = float(stage.iterations * (transfer.queue_pairs or 1) * runs)
        value = transfer.value if transfer.samples else 0.0
        if not stage.bandwidth:
            seconds = messages * 2 * value / 1e6
        elif value:
            seconds = messages * stage.message_bytes * 8 / 1e9 / value
        else:
            seconds = 0.0
    rate = transfer.line_rate_gbit_s or 0.0
    packets = messages * packets_per_message
    return Load(packets=packets, seconds=seconds, line_bits=rate * 1e9 * seconds)


def jitter_findings(record: RunRecord) -> Iterator[tuple[Finding, Performance, TransferResult]]:
    """Latencies whose 99th percentile is far above their median."""
    if record.simulated:
        return
    latencies = [t for t in record.transfers if t.samples and t.tail_us and t.outcome == "measured"]
    hits = [t for t in latencies if jitters(t.value, median(t.tail_us))]
    if hits:
        worst = max(hits, key=lambda t: median(t.tail_us) / t.value)
        finding = Finding(
            code="LATENCY_JITTER",
            where=where_of([worst, *(t for t in hits if t is not worst)]),
            evidence=f"99th percentile {median(worst.tail_us):.1f} us, median "
            f"{worst.value:.1f} us: more than {MOST_TAIL_TO_MEDIAN:g} times",
            hint="check C-states, the CPU's frequency governor and which cores serve the NIC's "
            "interrupts",
        )
        for t in hits:
            yield finding, "warn", t

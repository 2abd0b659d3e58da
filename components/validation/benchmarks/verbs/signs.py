"""Findings from single transfers: path MTU, PCIe, counters, jitter."""

from collections.abc import Iterator
from statistics import median

from components.physics.mtu import MtuFingerprint, mtu_fingerprint
from components.validation.benchmarks.verbs.judge import (
    JITTER,
    ceiling_of,
    jitters,
    path_of,
    settled,
)
from components.validation.benchmarks.verbs.programs import PROGRAMS
from components.validation.judging.states import where_of
from components.validation.judging.statistics import LEAST_FOR_INTERVAL, NORMAL, mad
from components.validation.planning.plan import Plan, PlannedRail
from components.validation.planning.stages import Stage
from components.validation.records import RunRecord, TransferResult
from components.validation.summary import Finding, Performance

BROKEN_LINKS = ("link_downed", "symbol_error", "symbol_errors")
"""Counters that stay at zero on a sound link."""
LOST = ("out_of_sequence", "packet_seq_err", "roce_adp_retrans", "local_ack_timeout_err", "out_of_seq_request")
"""Counters of packets that did not arrive, or not in order."""
LOST_SHARE = 1e-5
"""Share of lost packets that even a fabric without PFC stays below."""
COUNTERS: tuple[tuple[tuple[str, ...], str, Performance, str], ...] = (
    (BROKEN_LINKS, "LINK_ERRORS", "fail", "check the cable, the transceiver and the switch port's own counters"),
    (LOST, "PACKETS_LOST", "warn", "check PFC and ECN on the traffic's class, and the queues of the switch"),
)
"""Groups of counters, each with the code, state and hint of its finding."""
NOISE_SIGMAS = 5
"""Robust standard deviations below the rail's median that noise does not reach among the transfers of 256 nodes."""


def mtu_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Transfers whose bandwidth looks like a smaller path MTU, grouped by MTU; the finding names no cause."""
    stage = plan.main_stage
    if stage is None or record.simulated or PROGRAMS[stage.test].operation != "write":
        return
    groups: dict[tuple[int, int | None], list[tuple[TransferResult, MtuFingerprint]]] = {}
    for rail in plan.rails:
        paths = [
            (t, path)
            for t in record.measured_of(stage.test, stage.shape, rail.name)
            if (path := path_of(rail, stage, t))
        ]
        hits = [
            (t, found)
            for t, path in paths
            if (found := mtu_fingerprint(settled(t), path, reported_bytes=t.path_mtu_bytes))
        ]
        if hits and 2 * len(hits) <= len(paths):
            noise = _low_by_noise(rail, stage, [t for t, _ in paths])
            hits = [(t, found) for t, found in hits if found.ratio_to_configured < noise]
        for t, found in hits:
            groups.setdefault((found.seen_bytes, found.reported_bytes), []).append((t, found))
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
    """Ratio to the ceiling above which a transfer differs from the others of its rail by noise alone.

    Among thousands of sound transfers, noise puts some on the ceiling of a smaller path MTU. The noise of a few
    transfers is unknown, so each of them counts.
    """
    if len(transfers) < LEAST_FOR_INTERVAL:
        return 1.0
    ratios = [settled(t) / ceiling.value for t in transfers if (ceiling := ceiling_of(rail, stage, t))]
    return median(ratios) - NOISE_SIGMAS * mad(ratios) / NORMAL


def pcie_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Ports whose PCIe link carries less than their line."""
    stage = plan.main_stage
    if stage is None or record.simulated:
        return
    for rail in plan.rails:
        known = [(t, ceiling_of(rail, stage, t)) for t in record.measured_of(stage.test, stage.shape, rail.name)]
        slow = [t for t, ceiling in known if ceiling and ceiling.limited_by in ("pcie", "shared slot")]
        if slow:
            ports = slow[0].ports_on_slot
            carries = f"{slow[0].pcie_gbit_s:.1f} Gbit/s{f' for {ports} ports that run at once' if ports > 1 else ''}"
            yield Finding(
                code="PCIE_LIMITS",
                where=where_of(slow),
                evidence=f"PCIe carries {carries}, the line {slow[0].line_rate_gbit_s:g}",
                hint="compare current_link_speed and current_link_width of the NIC in sysfs with what card and slot do",
            )


def counter_findings(plan: Plan, record: RunRecord) -> Iterator[tuple[Finding, Performance, TransferResult]]:
    """Errors that the ports counted: each finding with a transfer that it concerns and the state of that test.

    A simulated port that loses packets only shows how fast this computer emulates it.
    """
    by_stage = {(stage.test, stage.shape): stage for stage in plan.stages}
    for names, code, state, hint in COUNTERS:
        if names is LOST and record.simulated:
            continue
        hits = [(t, n) for t in record.transfers if (n := _counted(t, names))]
        if names is LOST:
            hits = [(t, n) for t, n in hits if n > LOST_SHARE * _packets(plan, by_stage.get((t.test, t.shape)), t)]
        if hits:
            worst = max(hits, key=lambda hit: hit[1])[0]
            shown = ", ".join(f"{key} {value}" for key, value in sorted(worst.counters.items()) if _plain(key) in names)
            where = where_of([worst, *(t for t, _ in hits if t is not worst)])
            finding = Finding(code=code, where=where, evidence=f"{shown} during {worst.test}", hint=hint)
            yield from ((finding, state, t) for t, _ in hits)


def _counted(transfer: TransferResult, names: tuple[str, ...]) -> int:
    return sum(value for key, value in transfer.counters.items() if _plain(key) in names)


def _plain(counter: str) -> str:
    """Name of a counter without a leading node or device."""
    return counter.replace("/", " ").replace(".", " ").split()[-1] if counter else ""


def _packets(plan: Plan, stage: Stage | None, transfer: TransferResult) -> float:
    if stage is None or not stage.message_bytes:
        return 1.0
    each = -(-stage.message_bytes // (transfer.path_mtu_bytes or 1024))
    if (duration_s := plan.verbs.duration_of(stage)) is not None:
        return sum(transfer.samples) * 1e9 / 8 * duration_s / stage.message_bytes * each
    # perftest's iterations are those of each queue pair
    return float(each * stage.iterations * (transfer.queue_pairs or 1) * max(len(transfer.samples), 1))


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
            evidence=f"99th percentile {median(worst.tail_us):.1f} us, median {worst.value:.1f} us: "
            f"more than {JITTER:g} times",
            hint="check C-states, the CPU's frequency governor and which cores serve the NIC's interrupts",
        )
        for t in hits:
            yield finding, "warn", t

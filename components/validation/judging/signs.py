"""What single transfers give away beside their value: path MTU, PCIe, counters, jitter; and where faults lie."""

from collections.abc import Iterator, Mapping
from statistics import median

from components.validation.benchmarks.verbs.judge import (
    JITTER,
    OPERATIONS,
    ceiling_of,
    jitters,
    path_of,
    settled,
    transfers_of,
)
from components.validation.benchmarks.verbs.stages import Stage
from components.validation.judging.evidence import Way
from components.validation.judging.findings import Located
from components.validation.judging.levels import compared_stage, fabric_of, main_stage
from components.validation.judging.localise import Localiser
from components.validation.judging.states import where_of
from components.validation.judging.statistics import LEAST_FOR_INTERVAL, NORMAL, mad
from components.validation.physics.mtu import MtuFingerprint, mtu_fingerprint
from components.validation.planning.plan import Plan, PlannedRail
from components.validation.records import RunRecord, TransferResult
from components.validation.summary import Finding, Performance

BROKEN_LINKS = ("link_downed", "symbol_error", "symbol_errors")
"""Counters of which a sound link counts nothing."""
LOST = ("out_of_sequence", "packet_seq_err", "roce_adp_retrans", "local_ack_timeout_err", "out_of_seq_request")
"""Counters of packets that did not arrive, or not in order."""
NOISE_SIGMAS = 5
"""Robust standard deviations below the rail's median that noise does not reach among the transfers of 256 nodes."""
LOST_SHARE = 1e-5
"""Of the packets sent, which even a fabric without PFC keeps to."""

Topology = Mapping[tuple[str, str], str]
"""Leaf switch by (node, rail)."""


def located(plan: Plan, record: RunRecord, topology: Topology) -> Located | None:
    """Where faults lie; None where nothing was tested. In the simulator only what failed counts."""
    stage = compared_stage(plan)
    if stage is None:
        return None
    found = [t for t in record.transfers if (t.test, t.shape) == (stage.test, stage.shape) and t.outcome != "skipped"]
    if not found:
        return None
    # a repetition that failed is written as 0
    again = {
        Way(t.rail, t.client, t.server): tuple(value or None for value in (t.samples if t.second_try else t.retest))
        for t in found
        if t.second_try or t.retest
    }
    return Localiser(fabric_of(plan, stage, found, topology)).localise(again)


def mtu_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Transfers that look like a smaller path MTU, those of one kind together: two explanations, and no cause."""
    stage = main_stage(plan)
    if stage is None or record.simulated or OPERATIONS[stage.test] != "write":
        return
    kinds: dict[tuple[int, int | None], list[tuple[TransferResult, MtuFingerprint]]] = {}
    for rail in plan.rails:
        paths = [(t, path) for t in transfers_of(record, stage, rail.name) if (path := path_of(rail, stage, t))]
        found = [(t, mtu_fingerprint(settled(t), path, reported_bytes=t.path_mtu_bytes)) for t, path in paths]
        hits = [(t, seen) for t, seen in found if seen is not None]
        if hits and 2 * len(hits) <= len(paths):
            noise = _low_by_noise(rail, stage, [t for t, _ in paths])
            hits = [(t, seen) for t, seen in hits if seen.ratio_to_configured < noise]
        for t, seen in hits:
            kinds.setdefault((seen.seen_bytes, seen.reported_bytes), []).append((t, seen))
    for alike in kinds.values():
        seen = alike[0][1]
        said = ": a contradiction" if seen.contradiction else ""
        yield Finding(
            code=seen.code,
            where=where_of([t for t, _ in alike]),
            evidence=f"{seen.evidence}{said}",
            hint=seen.hint,
        )


def _low_by_noise(rail: PlannedRail, stage: Stage, transfers: list[TransferResult]) -> float:
    """Ratio to the ceiling down to which one transfer of a rail is still like the others, however many there are.

    Among thousands of sound transfers some land on the ceiling of a smaller path MTU by noise alone. Of a few transfers
    nobody knows the noise: then each is taken at its word.
    """
    if len(transfers) < LEAST_FOR_INTERVAL:
        return 1.0
    ratios = [settled(t) / ceiling.value for t in transfers if (ceiling := ceiling_of(rail, stage, t))]
    return median(ratios) - NOISE_SIGMAS * mad(ratios) / NORMAL


def pcie_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """Ports whose PCIe link carries less than their line."""
    stage = main_stage(plan)
    if stage is None or record.simulated:
        return
    for rail in plan.rails:
        known = [(t, ceiling_of(rail, stage, t)) for t in transfers_of(record, stage, rail.name)]
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
    """What the ports counted: each finding with the state that it gives the test."""
    by_stage = {(stage.test, stage.shape): stage for stage in plan.stages}
    for names, code, state in ((BROKEN_LINKS, "LINK_ERRORS", "fail"), (LOST, "PACKETS_LOST", "warn")):
        told = [(t, n) for t in record.transfers if (n := _counted(t, names))]
        if code == "PACKETS_LOST":
            told = [(t, n) for t, n in told if n > LOST_SHARE * _packets(plan, by_stage.get((t.test, t.shape)), t)]
        if told:
            worst = max(told, key=lambda one: one[1])[0]
            shown = ", ".join(f"{key} {value}" for key, value in sorted(worst.counters.items()) if _plain(key) in names)
            finding = Finding(
                code=code,
                where=where_of([worst, *(t for t, _ in told if t is not worst)]),
                evidence=f"{shown} during {worst.test}",
                hint="look at the cable, the transceiver and the switch port's own counters"
                if state == "fail"
                else "look at PFC and ECN on the traffic's class, and at the queues of the switch",
            )
            for t, _ in told:
                yield finding, "fail" if state == "fail" else "warn", t


def _counted(transfer: TransferResult, names: tuple[str, ...]) -> int:
    return sum(value for key, value in transfer.counters.items() if _plain(key) in names)


def _plain(counter: str) -> str:
    """Name of a counter without the node or device that stands before it."""
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
    """Latencies whose slow messages are far from their median."""
    if record.simulated:
        return
    latencies = [t for t in record.transfers if t.samples and t.tail_us and t.outcome == "measured"]
    told = [t for t in latencies if jitters(t.value, median(t.tail_us))]
    if told:
        worst = max(told, key=lambda t: median(t.tail_us) / t.value)
        finding = Finding(
            code="LATENCY_JITTER",
            where=where_of([worst, *(t for t in told if t is not worst)]),
            evidence=f"99th percentile {median(worst.tail_us):.1f} us, median {worst.value:.1f} us: "
            f"more than {JITTER:g} times",
            hint="look at C-states, the CPU's frequency governor and which cores serve the NIC's interrupts",
        )
        for t in told:
            yield finding, "warn", t

"""Proves that PVRDMA used the hardware: by the counters of the physical ports, never by speed
alone. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from components.finding import Finding
from components.physics.ceilings import goodput_ratio
from components.validation.benchmarks.plan import Plan, PlannedRail
from components.validation.records import HcaCount, RunRecord, TransferResult
from components.validation.summary import (
    NOTHING,
    SHOWN_ONLY,
    Function,
    JudgedTest,
    unrated,
    where_of,
)
from stacks.frozen import frozen

PATH = "pvrdma_path"
FALLBACK = "PVRDMA_TCP_FALLBACK"
UNKNOWN = "PVRDMA_COUNTERS_UNKNOWN"
PROVEN, NOT_PROVEN = "proven", "not proven"

LEAST_SHARE = 0.9
"""Share of the written bytes; counters may miss the last moment before a reading."""
MOST_SHARE = 1.5
"""Above this share of the written bytes, other traffic used the port too, so its growth proves
nothing."""

HINTS = {
    FALLBACK: "check Net.PVRDMAVmknic and the pvrdma ruleset on both hosts, the uplink's RDMA "
    "device, and in the guest vmw_pvrdma; if esxcli rdma device stats get never changes, the "
    "HCA's driver does not count",
    UNKNOWN: "compare esxcli rdma device stats get on both hosts before and after ib_write_bw by "
    "hand: bytes sent and received must grow by what was written. Until then, rocelab compares "
    "these runs only with other unproven runs",
}


@frozen
class PathProof:
    """Whether a transfer used both physical HCAs."""

    outcome: Literal["pass", "fail", "unknown"]
    code: str
    """Empty on pass."""
    evidence: str


def proof_of_hardware(counts: Sequence[HcaCount], *, path_mtu_bytes: int = 1024) -> PathProof:
    """Compares the counters of the HCAs below both ends with the bytes written through them.

    When PVRDMA falls back to TCP between the hosts, perftest's numbers still look plausible.
    Counters count whole frames or payload, depending on the vendor; the tolerance covers both. A
    counter that cannot be read, or stepped back, is unknown and never a pass. If either counter
    shows a fallback, the proof fails.

    Args:
        counts: what the sender's HCA sent and the receiver's HCA received.
        path_mtu_bytes: bounds the share of headers.
    """
    evidence = "; ".join(map(_said, counts)) or "nothing was read"
    if {count.way for count in counts} != {"sent", "received"}:
        return PathProof(outcome="unknown", code=UNKNOWN, evidence=evidence)
    readable = [c for c in counts if c.counted_bytes is not None and c.counted_bytes >= 0]
    known = [c for c in readable if c.written_bytes > 0]
    shares = [(c.counted_bytes or 0) / c.written_bytes for c in known]
    if any(share < LEAST_SHARE for share in shares):
        return PathProof(outcome="fail", code=FALLBACK, evidence=evidence)
    if len(known) < len(counts):
        return PathProof(outcome="unknown", code=UNKNOWN, evidence=evidence)
    if max(shares) > MOST_SHARE / goodput_ratio(
        path_mtu_bytes, min(c.written_bytes for c in known)
    ):
        return PathProof(
            outcome="unknown", code=UNKNOWN, evidence=f"{evidence}: others use the HCA too"
        )
    return PathProof(outcome="pass", code="", evidence=evidence)


def path_tests(plan: Plan, record: RunRecord) -> Iterator[JudgedTest]:
    """One test per PVRDMA rail: did its transfers use the hardware, fall back, or is that unknown?

    In the simulator an unknown path is a finding and no state of a test: its hosts may have no
    counters, and its emulated machines may send a packet twice.
    """
    for rail in plan.rails:
        if not rail.pvrdma or len(rail.ends) < 2:
            continue
        proofs = [proof.outcome for _, proof in _proofs(rail, record)]
        count = {}
        for outcome in ("pass", "fail", "unknown"):
            count[outcome] = proofs.count(outcome)
        if record.simulated and not count["pass"] and not count["fail"]:
            continue
        known = record.simulated or not count["unknown"]
        state: Function = "pass" if count["pass"] and known else "skip"
        if count["fail"]:
            state = "fail"
        because = SHOWN_ONLY if proofs else NOTHING
        counts = dict(zip(("measured", "failed", "skipped"), count.values(), strict=True))
        yield unrated(PATH, state, because, rail=rail.name, **counts)


def proof_in_words(plan: Plan, record: RunRecord) -> str:
    """Whether the path of each PVRDMA rail is proven; empty without such a rail."""
    tests = list(path_tests(plan, record))
    left = []
    for test in tests:
        if test.function != "pass":
            left.append(test.rail or "")
    if not left:
        return PROVEN if tests else ""
    if len(left) == len(tests):
        return NOT_PROVEN
    return f"{NOT_PROVEN} on {', '.join(left)}"


def path_findings(plan: Plan, record: RunRecord) -> Iterator[Finding]:
    """The fallbacks of each rail, and its unknown paths, each with the numbers of the first."""
    for rail in plan.rails:
        proofs = list(_proofs(rail, record))
        for code in (FALLBACK, UNKNOWN):
            if of_code := [(t, proof.evidence) for t, proof in proofs if proof.code == code]:
                where = where_of([t for t, _ in of_code])
                yield Finding(code=code, where=where, evidence=of_code[0][1], hint=HINTS[code])


def path_reasons(plan: Plan, record: RunRecord) -> Iterator[str]:
    """Why the proof is not a pass."""
    for finding in path_findings(plan, record):
        if finding.code == FALLBACK or not record.simulated:
            yield f"{finding.where} {finding.code}: {finding.evidence}"


def _proofs(rail: PlannedRail, record: RunRecord) -> Iterator[tuple[TransferResult, PathProof]]:
    for t in record.transfers if rail.pvrdma else ():
        if (
            t.rail == rail.name
            and t.outcome == "measured"
            and t.unit == "Gbit/s"
            and t.shape == "one_way"
        ):
            yield t, proof_of_hardware(t.hcas, path_mtu_bytes=t.path_mtu_bytes or 1024)


def _said(count: HcaCount) -> str:
    hca = f" ({count.hca})" if count.hca else ""
    if count.counted_bytes is None:
        return (
            f"{count.way} by the HCA below {count.machine}{hca}: unknown: "
            f"{count.why or 'no counter was reported'}"
        )
    if count.counted_bytes < 0:
        counted = "counter stepped back"
    else:
        counted = f"{count.counted_bytes} bytes"
    return (
        f"{count.way} by the HCA below {count.machine}{hca}: {counted} of "
        f"{count.written_bytes} written"
    )

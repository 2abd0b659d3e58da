"""The verdict on the bandwidth of one NIC, and on a latency."""

from dataclasses import replace

from components.judge.assessment import ABOVE, BROKEN, FULL_BYTES, GOOD, Judged, Verdict
from components.judge.results import ResultRow
from components.physics.ceilings import (
    INFINIBAND_DATA_GBIT_S,
    Operation,
    Path,
    bandwidth_ceiling,
)
from components.physics.collectives import slot_gbit_s
from components.physics.mtu import mtu_fingerprint
from stacks.words import bytes_text, plural

LINE_RATES = (10.0, 25.0, 40.0, 50.0, 56.0, 100.0, 200.0, 400.0, 800.0)
ONE_OF_TWO = (0.97 / 2, ABOVE / 2)
AT_SLOT = (0.93, 1.0)
LATENCY_GOOD_US, LATENCY_LEAST_US = 5.0, 0.3
"""The first as in `LatencyThreshold`; the least is two crossings of PCIe, which no network
avoids.
"""
SMALL_BYTES = 64


def judge_bandwidth(case: Judged) -> None:
    assessment, facts, result = case.assessment, case.facts, case.result
    row = max(result.rows, key=lambda row: row.value)
    assessment.measured(row, "Gbit/s")
    cliff = case.find_cliff()
    if result.program == "ib_atomic_bw":
        assessment.why = "atomics are limited by the NIC's rate of operations, not by the line"
        return
    if facts.nic_gbit_s is None:
        _unknown_line(case, row)
        return
    limit, nics = facts.nic_gbit_s * _ways(case), facts.nics_per_node or 1
    if result.claim and limit * ABOVE < row.value <= limit * nics:
        facts = replace(facts, nic_gbit_s=facts.nic_gbit_s * nics)
        limit *= nics
        assessment.assumptions.append(f"the number is the sum of {plural(nics, 'NIC')}")
    if row.value > limit * ABOVE:
        assessment.find(
            "IMPOSSIBLE",
            f"{row.value:.1f} Gbit/s exceeds the line rate of {limit:g}",
            "a unit (GB/s for Gb/s), the sum of several NICs, memory instead of the network, "
            "or another NIC",
        )
        assessment.leave_open(
            "more than the line carries", "the line rate: ethtool IFACE, or ibstat"
        )
        return
    if result.program.startswith(("osu_", "IMB ")):
        assessment.assumptions.append("one rank on each of two nodes")
    _rate(replace(case, facts=facts), row, cliff=cliff)


def _ways(case: Judged) -> int:
    return 1 + case.result.facts.both_ways


def _path(case: Judged, row: ResultRow, line_rate_gbit_s: float) -> Path:
    facts = case.facts
    operation: Operation = "send"
    if "_write_" in case.result.program:
        operation = "write"
    elif "_read_" in case.result.program:
        operation = "read"
    return Path(
        line_rate_gbit_s=line_rate_gbit_s,
        path_mtu_bytes=facts.path_mtu_bytes or 4096,
        message_bytes=row.size_bytes or 65_536,
        operation=operation,
        framing=facts.framing or "roce_v2",
        pcie_gbit_s=facts.pcie_gbit_s,
        both_ways=_ways(case) == 2,
    )


def _rate(case: Judged, row: ResultRow, *, cliff: bool) -> None:
    assessment, facts = case.assessment, case.facts
    path = _path(case, row, facts.nic_gbit_s or 0.0)
    if path.framing == "infiniband" and row.value <= ABOVE * _data_gbit_s(path.line_rate_gbit_s):
        path = replace(path, line_rate_gbit_s=_data_gbit_s(path.line_rate_gbit_s))
    if facts.path_mtu_bytes is None:
        assessment.assumptions.append("path MTU 4096")
    if facts.framing is None:
        assessment.assumptions.append("RoCE v2")
    if row.value > bandwidth_ceiling(path).value * ABOVE:
        assessment.find(
            "MTU_CONTRADICTS",
            f"{row.value:.1f} Gbit/s is more than path MTU {path.path_mtu_bytes} allows here",
        )
        path = replace(path, path_mtu_bytes=4096, framing="infiniband")
    ceiling = bandwidth_ceiling(path)
    assessment.ceiling = ceiling.value
    for measured in case.result.rows:
        of_size = replace(path, message_bytes=measured.size_bytes or path.message_bytes)
        assessment.ceilings.append(bandwidth_ceiling(of_size).value)
    assessment.basis = f"{ceiling.basis}, {path.framing.replace('_', ' ')}"
    header = case.result.facts.path_mtu_bytes
    fingerprint = mtu_fingerprint(row.value, path, reported_bytes=header)
    if fingerprint is not None and (row.size_bytes or FULL_BYTES) >= FULL_BYTES:
        assessment.find(fingerprint.code, fingerprint.evidence, fingerprint.hint)
    ratio = row.value / ceiling.value
    if cliff:
        assessment.decide("slow", "large messages are slower than smaller ones")
    elif ratio >= GOOD:
        assessment.decide("good", f"{ratio:.1%} of what the line carries")
    elif not _left_open(case, row, ratio):
        verdict: Verdict = "slow"
        if ratio < BROKEN:
            verdict = "broken"
        assessment.decide(verdict, f"{ratio:.1%} of what the line carries")
        _find_causes(case, row)


def _left_open(case: Judged, row: ResultRow, ratio: float) -> bool:
    """Whether something other than the network may explain a value below the ceiling."""
    assessment, ways = case.assessment, _ways(case)
    gen5 = slot_gbit_s(5)
    faster_than_slot = case.facts.pcie_gbit_s is None and (case.facts.nic_gbit_s or 0.0) > gen5
    if ways == 2 and ONE_OF_TWO[0] <= ratio <= ONE_OF_TWO[1]:
        assessment.find(
            "ONE_DIRECTION", "the sum of both directions is what one direction carries alone"
        )
        assessment.leave_open(
            "either the directions do not overlap, or the number is that of one direction",
            "the same test in one direction, and the NIC's PCIe link (lspci -vv -s NIC | "
            "grep LnkSta)",
        )
    elif case.result.facts.loopback:
        assessment.leave_open(
            "both ends are one port: a loopback crosses PCIe twice and no wire",
            "the same test between two hosts",
        )
    elif row.size_bytes is not None and row.size_bytes < FULL_BYTES:
        assessment.leave_open(
            f"at {bytes_text(row.size_bytes)} the rate of messages limits, not the line",
            "a run with messages of 65536 bytes or more (-s 65536, or -a)",
        )
    elif case.facts.framing is None and _fills_infiniband(case, row):
        assessment.leave_open(
            f"{case.facts.nic_gbit_s:g} Gbit/s of InfiniBand carry less data than of Ethernet, and "
            "the value is at that limit",
            "the link: --link infiniband or --link roce",
        )
    elif faster_than_slot and row.value >= GOOD * ways * gen5:
        assessment.leave_open(
            f"a PCIe Gen5 x16 slot carries {gen5:.0f} Gbit/s, and the value is at that limit",
            "the NIC's PCIe link: lspci -vv -s NIC | grep LnkSta",
        )
    else:
        return False
    return True


def _data_gbit_s(line_rate_gbit_s: float) -> float:
    return INFINIBAND_DATA_GBIT_S.get(line_rate_gbit_s, line_rate_gbit_s)


def _fills_infiniband(case: Judged, row: ResultRow) -> bool:
    line = case.facts.nic_gbit_s or 0.0
    path = replace(_path(case, row, _data_gbit_s(line)), framing="infiniband")
    return row.value >= GOOD * bandwidth_ceiling(path).value


def _unknown_line(case: Judged, row: ResultRow) -> None:
    case.assessment.leave_open(
        "the log does not say the NIC's line rate", "the line rate of the NIC: --nic 100G"
    )
    for rate in LINE_RATES:
        share = row.value / bandwidth_ceiling(_path(case, row, rate)).value
        if 0.97 <= share <= ABOVE:
            case.assessment.assumptions.append(
                f"if the NIC has {rate:g} Gbit/s, this is {share:.1%} of its ceiling: good"
            )


def _find_causes(case: Judged, row: ResultRow) -> None:
    assessment, facts, program = case.assessment, case.result.facts, case.result.program
    for generation in (3, 4, 5):
        for lanes in (8, 16):
            slot = slot_gbit_s(generation, lanes)
            if AT_SLOT[0] <= row.value / _ways(case) / slot <= AT_SLOT[1]:
                assessment.find(
                    f"PCIE_GEN{generation}_X{lanes}",
                    f"at the limit of a PCIe Gen{generation} x{lanes} slot, {slot:.0f} Gbit/s",
                    "lspci -vv -s NIC | grep LnkSta: compare with LnkCap",
                )
    if facts.gpu_memory:
        assessment.find(
            "GPU_MEMORY",
            "the buffers are in GPU memory",
            "repeat with host memory, then with the nearest GPU (nvidia-smi topo -m)",
        )
    if row.size_bytes is not None and row.size_bytes % 64 and program != "ucx_perftest":
        assessment.find(
            "ODD_SIZE", f"{row.size_bytes} bytes are not a multiple of 64", "repeat with -s 65536"
        )
    if facts.rdma_cm:
        assessment.find(
            "RDMA_CM", "the connection manager chose the NIC and the GID", "repeat without -R"
        )
    if facts.queue_pairs == 1:
        assessment.find(
            "ONE_QUEUE_PAIR", "one queue pair", "repeat with -q 8: if that is fast, the path is too"
        )
    if not program.startswith("ib_"):
        program = "ib_write_bw"
    assessment.next_command = f"{program} -s 65536 -q 8 --report_gbits -D 10"


def judge_latency(case: Judged) -> None:
    assessment, row = case.assessment, case.result.rows[0]
    assessment.measured(row, "us")
    small = row.size_bytes is not None and row.size_bytes <= SMALL_BYTES
    if row.value < LATENCY_LEAST_US:
        assessment.find("IMPOSSIBLE", f"{row.value} us is less than two crossings of PCIe take")
        assessment.why = "faster than PCIe"
    elif small and row.value <= LATENCY_GOOD_US:
        assessment.decide("good", f"up to {LATENCY_GOOD_US:g} us is usual for small messages")
    else:
        assessment.leave_open(
            "latency has no ceiling: distance, switches and power states decide",
            "the number of switches between the ends, and the CPU's governor (cpupower "
            "frequency-info)",
        )

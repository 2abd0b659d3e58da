"""The verdict on one result, from what physics allows. An unknown is asked for, never guessed."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from components.finding import Finding, plain
from components.judge.known import KnownHardware
from components.judge.reading import Kind, Result, ResultRow
from components.physics.ceilings import Operation, Path, bandwidth_ceiling
from components.physics.collectives import Collective, GpuModel, gpu_model, slot_gbit_s
from components.physics.mtu import mtu_fingerprint
from components.physics.nccl import Ring
from components.validation.benchmarks.verbs.perftest import cause_of
from stacks.words import bytes_text, plural

Verdict = Literal["good", "slow", "broken", "cannot judge"]

GOOD = 0.90
"""As in a lab's verdict (`Threshold.fail_below`). Health checks of clouds agree on 90 to 95 %
of the line rate.
"""
SLOW_COLLECTIVE = 0.80
"""Between this and GOOD the algorithm and the GPUs' own links decide."""
BROKEN = 0.02
"""Of the ceiling: so little comes from retries or sockets, not from tuning."""
ABOVE = 1.01
"""Clocks and short runs exceed a limit by less."""
FULL_BYTES = 32_768
"""From here a single queue pair fills a line; below, the message rate limits."""
LARGE_BYTES = 256 * 2**20
"""From here a collective's latency and protocol matter little."""
LINE_RATES = (10.0, 25.0, 40.0, 50.0, 56.0, 100.0, 200.0, 400.0, 800.0)
CLIFF = 0.7
NVLINK_GOOD, NVLINK_SLOW = 0.70, 0.50
"""Of a GPU's NVLink: NCCL's rings reach 75 to 82 % of the data sheet's number."""
LATENCY_GOOD_US, LATENCY_LEAST_US = 5.0, 0.3
"""The first as in `LatencyThreshold`; the least is two crossings of PCIe, which no network
avoids.
"""


@dataclass(kw_only=True, slots=True)
class Assessment:
    """What can be concluded from one result."""

    program: str
    kind: Kind
    verdict: Verdict = "cannot judge"
    value: float | None = None
    unit: str = ""
    size_bytes: int | None = None
    ceiling: float | None = None
    basis: str = ""
    why: str = ""
    assumptions: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    ask: str = ""
    """The one fact that would decide."""
    next_command: str = ""
    rows: list[ResultRow] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        if self.ceiling is None or self.value is None:
            return None
        return self.value / self.ceiling

    def find(self, code: str, evidence: str, hint: str = "") -> None:
        where = self.program or "log"
        self.findings.append(Finding(code=code, where=where, evidence=plain(evidence), hint=hint))

    def decide(self, verdict: Verdict, why: str) -> None:
        self.verdict, self.why = verdict, why


def judge(result: Result, known: KnownHardware) -> Assessment:
    """The verdict on a result; options count more than the log, and never silently."""
    assessment = Assessment(
        program=result.program,
        kind=result.kind,
        findings=list(result.findings),
        gaps=list(result.gaps),
        rows=result.rows,
    )
    facts = known.over(
        KnownHardware(
            nic_gbit_s=result.facts.nic_gbit_s,
            nics_per_node=result.facts.nics_per_node,
            path_mtu_bytes=result.facts.path_mtu_bytes,
            framing=result.facts.framing,
            nodes=result.facts.nodes,
            gpu=result.facts.gpu,
        )
    )
    _signs(assessment, result)
    if not result.rows:
        _nothing_measured(assessment, result)
    elif result.kind == "bandwidth":
        _bandwidth(assessment, result, facts, known)
    elif result.kind == "collective":
        _collective(assessment, result, facts, known)
    elif result.kind == "latency":
        _latency(assessment, result)
    elif result.kind == "training":
        assessment.value, assessment.unit = result.rows[-1].value, "img/s"
        assessment.why = "no physics bounds images per second: model, batch size and GPU decide"
        assessment.ask = (
            "the same run on one GPU: the total divided by it and by the number of GPUs is "
            "the scaling"
        )
    else:
        assessment.value, assessment.unit = result.rows[-1].value, "Gbit/s"
        assessment.why = "the text does not say which test measured this"
        assessment.ask = "the program that printed it, such as ib_write_bw or all_reduce_perf"
    return assessment


def _nothing_measured(assessment: Assessment, result: Result) -> None:
    cause = cause_of("\n".join(result.notes))
    if cause is not None and result.program.startswith("ib_"):
        assessment.decide("broken", f"the test ended before it measured: {cause}")
        assessment.next_command = "ibv_devinfo -v on both ends, then the same test with -m 1024"
        return
    assessment.why = "the text holds no row of results that confirms itself"
    if _has(assessment, "CONTRADICTION"):
        assessment.why = "the only rows contradict themselves"
    assessment.ask = "the whole output of the test, from its first line to its last"


SIGNS = (
    (
        "GPU_FAULT",
        re.compile(r"NVRM: Xid|Xid \(PCI|Xid \d|MMU fault"),
        "the GPU reported a fault",
        "dmesg | grep -i xid",
    ),
    (
        "NET_ERROR",
        re.compile(r"NCCL WARN.*(?:completion|error|timeout|failed)", re.IGNORECASE),
        "NCCL reports an error of the network",
        "",
    ),
    (
        "VIRTUAL_MACHINE",
        re.compile(r"hypervisor|\bKVM\b|QEMU|VMware|virtual machine", re.IGNORECASE),
        "a virtual machine: without ATS, NIC and GPU reach each other through the CPU",
        "lspci -vvv | grep -E 'ATSCtl|ACSCtl'",
    ),
    (
        "ACS",
        re.compile(r"\bACS(?:Ctl)?\b.*(?:\+|enabled|on\b)"),
        "ACS sends peer-to-peer traffic through the CPU",
        "lspci -vvv | grep ACSCtl",
    ),
    (
        "ECE",
        re.compile(r"\bECE\b"),
        "congestion control negotiated by ECE collapses on some RoCE bonds",
        "UCX_RC_ECE=0",
    ),
    (
        "BOND",
        re.compile(r"\bbond|\blag\b|_bond_", re.IGNORECASE),
        "a flow uses one port of a bond",
        "NCCL_IB_QPS_PER_CONNECTION=4 NCCL_IB_SPLIT_DATA_ON_QPS=1",
    ),
    (
        "NO_FLOW_CONTROL",
        re.compile(r"flow control", re.IGNORECASE),
        "packets are dropped without PFC or ECN",
        "ethtool -S IFACE | grep -E 'discard|pause'",
    ),
)


def _signs(assessment: Assessment, result: Result) -> None:
    """What the log says of causes, whatever its numbers are."""
    text = "\n".join(result.notes)
    for code, pattern, evidence, hint in SIGNS:
        if match := pattern.search(text):
            line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0].strip()[:120]
            assessment.find(code, f"{evidence} ({line})", hint)
    facts = result.facts
    if (
        facts.device
        and "bond" in facts.device
        and not any(finding.code == "BOND" for finding in assessment.findings)
    ):
        assessment.find(
            "BOND",
            f"{facts.device} is a bond: its line rate is that of all ports",
            "ib_write_bw -q 8",
        )
    if (
        facts.path_mtu_bytes is not None
        and facts.path_mtu_bytes < 4096
        and result.kind == "bandwidth"
    ):
        assessment.find(
            f"MTU_{facts.path_mtu_bytes}",
            f"the path MTU is {facts.path_mtu_bytes}, and headers take more of the line than "
            "at 4096",
            "set the interface, the VF and each switch port on the way to MTU 9000",
        )
    network = result.network
    if facts.nodes != 1 and (facts.sockets or (network and network.transport == "socket")):
        assessment.find(
            "SOCKETS",
            "NCCL uses TCP sockets, not RDMA",
            "NCCL_NET=IB NCCL_DEBUG=INFO: it then fails and says why",
        )
    if network and network.gpu_direct in ("none", "some"):
        assessment.find(
            "GPUDIRECT_OFF",
            f"{network.gpu_direct} of the network channels use GPUDirect",
            "lsmod | grep nvidia_peermem; nvidia-smi topo -m: NIC and GPU belong under one "
            "PCIe switch",
        )


def _has(assessment: Assessment, *codes: str) -> bool:
    return any(finding.code in codes for finding in assessment.findings)


def _cliff(assessment: Assessment, rows: list[ResultRow]) -> bool:
    """Whether large messages are slower than smaller ones, which no limit of bandwidth explains."""
    best = max(rows, key=lambda row: row.value)
    last = rows[-1]
    if (
        not best.size_bytes
        or not last.size_bytes
        or last.size_bytes <= best.size_bytes
        or best.size_bytes < FULL_BYTES
    ):
        return False
    if last.value >= CLIFF * best.value:
        return False
    assessment.find(
        "CLIFF",
        f"{best.value:.4g} at {bytes_text(best.size_bytes)}, {last.value:.4g} at "
        f"{bytes_text(last.size_bytes)}",
        "lost packets or a full buffer: compare the NICs' counters before and after "
        "(rdma statistic)",
    )
    return True


def _bandwidth(
    assessment: Assessment, result: Result, facts: KnownHardware, known: KnownHardware
) -> None:
    row = max(result.rows, key=lambda row: row.value)
    assessment.value, assessment.unit, assessment.size_bytes = row.value, "Gbit/s", row.size_bytes
    cliff = _cliff(assessment, result.rows)
    ways = 2 if result.facts.both_ways else 1
    line = facts.nic_gbit_s
    if result.program == "ib_atomic_bw":
        assessment.why = "atomics are limited by the NIC's rate of operations, not by the line"
        return
    header = result.facts.path_mtu_bytes
    if header and known.path_mtu_bytes and header != known.path_mtu_bytes:
        assessment.find(
            "MTU_CONTRADICTS",
            f"the log's path MTU is {header}, yours {known.path_mtu_bytes}",
            "the path uses the smallest of both ends and all ports between",
        )
    if line is None:
        _unknown_line(assessment, result, row, ways)
        return
    if (
        result.claim
        and facts.nics_per_node
        and ways * line * ABOVE < row.value <= ways * line * facts.nics_per_node
    ):
        line *= facts.nics_per_node
        assessment.assumptions.append(
            f"the number is the sum of {plural(facts.nics_per_node, 'NIC')}"
        )
    if row.value > ways * line * ABOVE:
        assessment.find(
            "IMPOSSIBLE",
            f"{row.value:.1f} Gbit/s exceeds the line rate of {ways * line:g}",
            "a unit (GB/s for Gb/s), the sum of several NICs, memory instead of the network, "
            "or another NIC",
        )
        assessment.why = "more than the line carries"
        assessment.ask = "the line rate: ethtool IFACE, or ibstat"
        return
    if result.program.startswith(("osu_", "IMB ")):
        assessment.assumptions.append("one rank on each of two nodes")
    _rate_bandwidth(assessment, result, replace(facts, nic_gbit_s=line), row, cliff=cliff)


def _operation(program: str) -> Operation:
    operations: tuple[Operation, ...] = ("write", "read")
    for operation in operations:
        if f"_{operation}_" in program:
            return operation
    return "send"


def _rate_bandwidth(
    assessment: Assessment, result: Result, facts: KnownHardware, row: ResultRow, *, cliff: bool
) -> None:
    line, ways = facts.nic_gbit_s or 0.0, 2 if result.facts.both_ways else 1
    path = Path(
        line_rate_gbit_s=line,
        path_mtu_bytes=facts.path_mtu_bytes or 4096,
        message_bytes=row.size_bytes or 65_536,
        operation=_operation(result.program),
        framing=facts.framing or "roce_v2",
        pcie_gbit_s=facts.pcie_gbit_s,
        both_ways=ways == 2,
    )
    if facts.path_mtu_bytes is None:
        assessment.assumptions.append("path MTU 4096")
    if facts.framing is None:
        assessment.assumptions.append("RoCE v2")
    if row.value > bandwidth_ceiling(path).value * ABOVE:
        what = f"path MTU {path.path_mtu_bytes}"
        assessment.find(
            "MTU_CONTRADICTS", f"{row.value:.1f} Gbit/s is more than {what} allows on this line"
        )
        path = replace(path, path_mtu_bytes=4096, framing="infiniband")
    ceiling = bandwidth_ceiling(path)
    assessment.ceiling, assessment.basis = (
        ceiling.value,
        f"{ceiling.basis}, {path.framing.replace('_', ' ')}",
    )
    ratio = row.value / ceiling.value
    fingerprint = mtu_fingerprint(row.value, path, reported_bytes=result.facts.path_mtu_bytes)
    if fingerprint is not None and (row.size_bytes is None or row.size_bytes >= FULL_BYTES):
        assessment.find(fingerprint.code, fingerprint.evidence, fingerprint.hint)
    if cliff:
        assessment.decide("slow", "large messages are slower than smaller ones")
    elif ratio >= GOOD:
        assessment.decide("good", f"{ratio:.1%} of what the line carries")
    elif ways == 2 and ratio >= 0.97 / 2 and ratio <= ABOVE / 2:
        assessment.find(
            "ONE_DIRECTION", "the sum of both directions is what one direction carries alone"
        )
        assessment.why = (
            "either the directions do not overlap, or the number is that of one direction"
        )
        assessment.ask = (
            "the same test in one direction, and the NIC's PCIe link (lspci -vv -s NIC | "
            "grep LnkSta)"
        )
    elif result.facts.loopback:
        assessment.why = "both ends are one port: a loopback crosses PCIe twice and no wire"
        assessment.ask = "the same test between two hosts"
    elif row.size_bytes is not None and row.size_bytes < FULL_BYTES:
        assessment.why = (
            f"at {bytes_text(row.size_bytes)} the rate of messages limits, not the line"
        )
        assessment.ask = "a run with messages of 65536 bytes or more (-s 65536, or -a)"
    elif (
        facts.pcie_gbit_s is None
        and line > slot_gbit_s(5)
        and row.value >= GOOD * ways * slot_gbit_s(5)
    ):
        assessment.why = (
            f"a PCIe Gen5 x16 slot carries {slot_gbit_s(5):.0f} Gbit/s, and the value is at "
            "that limit"
        )
        assessment.ask = "the NIC's PCIe link: lspci -vv -s NIC | grep LnkSta"
    else:
        verdict: Verdict = "slow"
        if ratio < BROKEN:
            verdict = "broken"
        assessment.decide(verdict, f"{ratio:.1%} of what the line carries")
        _why_verbs(assessment, result, row, ways)


def _unknown_line(assessment: Assessment, result: Result, row: ResultRow, ways: int) -> None:
    assessment.why = "the log does not say the NIC's line rate"
    assessment.ask = "the line rate of the NIC: --nic 100G"
    mtu = result.facts.path_mtu_bytes or 4096
    for rate in LINE_RATES:
        path = Path(
            line_rate_gbit_s=rate,
            path_mtu_bytes=mtu,
            message_bytes=row.size_bytes or 65_536,
            framing=result.facts.framing or "roce_v2",
            both_ways=ways == 2,
        )
        share = row.value / bandwidth_ceiling(path).value
        if 0.97 <= share <= ABOVE:
            assessment.assumptions.append(
                f"if the NIC has {rate:g} Gbit/s, this is {share:.1%} of its ceiling: good"
            )


def _why_verbs(assessment: Assessment, result: Result, row: ResultRow, ways: int) -> None:
    facts = result.facts
    for generation in (3, 4, 5):
        for lanes in (8, 16):
            slot = slot_gbit_s(generation, lanes)
            if 0.93 <= row.value / ways / slot <= 1.0:
                assessment.find(
                    f"PCIE_GEN{generation}_X{lanes}",
                    f"at the limit of a PCIe Gen{generation} x{lanes} slot, {slot:.0f} Gbit/s",
                    "lspci -vv -s NIC | grep LnkSta: compare with LnkCap",
                )
    if facts.gpu_memory:
        assessment.find(
            "GPU_MEMORY",
            "the buffers are in GPU memory",
            "repeat without --use_cuda, then with the nearest GPU (nvidia-smi topo -m)",
        )
    if row.size_bytes is not None and row.size_bytes % 64 and result.program != "ucx_perftest":
        assessment.find(
            "ODD_SIZE", f"{row.size_bytes} bytes are no multiple of 64", "repeat with -s 65536"
        )
    if facts.queue_pairs == 1:
        assessment.find(
            "ONE_QUEUE_PAIR", "one queue pair", "repeat with -q 8: if that is fast, the path is too"
        )
    assessment.next_command = (
        f"{result.program or 'ib_write_bw'} -s 65536 -q 8 --report_gbits -D 10"
    )


def _latency(assessment: Assessment, result: Result) -> None:
    row = result.rows[0]
    assessment.value, assessment.unit, assessment.size_bytes = row.value, "us", row.size_bytes
    if row.value < LATENCY_LEAST_US:
        assessment.find("IMPOSSIBLE", f"{row.value} us is less than two crossings of PCIe take")
        assessment.why = "faster than PCIe"
    elif row.size_bytes is not None and row.size_bytes <= 64 and row.value <= LATENCY_GOOD_US:
        assessment.decide("good", f"up to {LATENCY_GOOD_US:g} us is usual for small messages")
    else:
        assessment.why = "latency has no ceiling: distance, switches and power states decide"
        assessment.ask = (
            "the number of switches between the ends, and the CPU's governor (cpupower "
            "frequency-info)"
        )


def _shape(
    assessment: Assessment, result: Result, facts: KnownHardware, known: KnownHardware
) -> tuple[int | None, int | None]:
    """Ranks and nodes; the table's own count wins, and what contradicts it is a finding."""
    ranks, nodes = result.facts.ranks, facts.nodes
    if known.nodes and result.facts.nodes and known.nodes != result.facts.nodes:
        code = "ONE_NODE_TABLE" if result.facts.nodes == 1 else "NODES_CONTRADICT"
        assessment.find(
            code, f"the log is of {plural(result.facts.nodes, 'node')}, not of {known.nodes}"
        )
        nodes = result.facts.nodes
    per_node = known.gpus_per_node
    if ranks is None and nodes and per_node:
        ranks = nodes * per_node
    if ranks and per_node and not result.facts.nodes:
        if known.nodes and ranks != known.nodes * per_node:
            code = "ONE_NODE_TABLE" if ranks <= per_node and known.nodes > 1 else "RANKS_CONTRADICT"
            assessment.find(
                code,
                f"busbw/algbw is that of {plural(ranks, 'rank')}, "
                f"not of {known.nodes} nodes with {plural(per_node, 'GPU')}",
                "see which hosts the ranks ran on: the list `# Rank` at the top of the log",
            )
        nodes = max(1, -(-ranks // per_node))
    return ranks, nodes


def _collective(
    assessment: Assessment, result: Result, facts: KnownHardware, known: KnownHardware
) -> None:
    row = result.rows[-1]
    assessment.value, assessment.unit, assessment.size_bytes = row.value, "GB/s", row.size_bytes
    ranks, nodes = _shape(assessment, result, facts, known)
    cliff = _cliff(assessment, result.rows)
    model = gpu_model(facts.gpu or "")
    if _has(assessment, "WRONG_VALUES"):
        assessment.decide("broken", "the data are wrong; a fast wrong result is no result")
        assessment.next_command = (
            "dmesg | grep -i -E 'xid|AER'; the same test with -c 1 and NCCL_* unset"
        )
    elif _has(assessment, "CONTRADICTION"):
        assessment.why = "the table contradicts itself, so none of its numbers counts"
        assessment.ask = "the untouched output of the test"
    elif result.program == "osu_allreduce" and ranks is None:
        assessment.value = None
        assessment.why = "a time becomes a bandwidth only with the number of ranks"
        assessment.ask = "the number of ranks: --nodes and --gpus-per-node"
    elif cliff:
        assessment.decide("slow", "large messages are slower than smaller ones in the same run")
        assessment.next_command = (
            "NCCL_DEBUG=INFO, and the NICs' counters before and after: out_of_sequence, "
            "rx_discards_phy"
        )
    elif _has(assessment, "SOCKETS") and nodes and nodes > 1:
        assessment.decide("broken", "the traffic between the nodes does not use RDMA")
        assessment.next_command = "NCCL_NET=IB NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET"
    elif _has(assessment, "RANKS_CONTRADICT") and result.facts.ranks_by_host:
        assessment.why = "the log's ranks contradict its numbers"
        assessment.ask = "the untouched output of the test"
    elif nodes is None:
        assessment.why = "the log does not say how many nodes took part"
        assessment.ask = "the number of nodes and of GPUs per node: --nodes 2 --gpus-per-node 8"
    elif nodes == 1:
        _one_node(assessment, result, model, ranks, row)
    elif ranks is None:
        assessment.why = "the number of ranks is unknown"
        assessment.ask = "the number of GPUs per node: --gpus-per-node"
    elif (
        model is not None
        and model.rack
        and row.value >= NVLINK_GOOD * (model.nvlink_gbyte_s or 0.0)
    ):
        _across_rack(assessment, row, model, "as fast as NVLink")
    elif facts.nic_gbit_s is None or facts.nics_per_node is None:
        missing = "--nic 400G" if facts.nic_gbit_s is None else "--nics-per-node 8"
        assessment.why = "the log does not say how much the NICs of a node carry"
        assessment.ask = f"line rate and number of NICs per node: {missing}"
    else:
        _between_nodes(
            assessment, result, facts, Collective(name=_name(result), ranks=ranks, nodes=nodes)
        )


def _name(result: Result) -> str:
    if result.program in ("osu_allreduce", "IMB Allreduce"):
        return "all_reduce"
    return result.program


def _one_node(
    assessment: Assessment,
    result: Result,
    model: GpuModel | None,
    ranks: int | None,
    row: ResultRow,
) -> None:
    assessment.find("ONE_NODE", "one node: this says nothing about the network between nodes")
    if _has(assessment, "ONE_NODE_TABLE"):
        assessment.why = "the network between the nodes was not measured"
        assessment.ask = "the log of a run whose ranks are on several nodes (list `# Rank`)"
        return
    if model is None or model.nvlink_gbyte_s is None:
        assessment.why = "the links between the GPUs of the node are unknown"
        assessment.ask = "the GPU model and nvidia-smi topo -m: --gpu H100"
        return
    limit = model.nvlink_gbyte_s
    if model.in_switch and _name(result) == "all_reduce":
        limit *= 2 * ((ranks or 8) - 1) / (ranks or 8)
    assessment.ceiling = model.nvlink_gbyte_s
    assessment.basis = f"NVLink of one GPU, {model.nvlink_gbyte_s:g} GB/s each way"
    ratio = row.value / model.nvlink_gbyte_s
    if row.value > limit * ABOVE:
        assessment.find(
            "IMPOSSIBLE", f"{row.value:.1f} GB/s exceeds {limit:.0f} that the GPU's links allow"
        )
        assessment.why = "more than the GPUs' links carry"
        assessment.ask = "the GPU model: nvidia-smi -L"
    elif ratio >= NVLINK_GOOD:
        assessment.decide("good", f"{ratio:.0%} of NVLink; rings reach about 80 %")
    elif ratio < NVLINK_SLOW and (row.size_bytes or LARGE_BYTES) >= LARGE_BYTES:
        assessment.decide("slow", f"{ratio:.0%} of NVLink")
        assessment.next_command = (
            "nvidia-smi topo -m; nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager"
        )
    else:
        assessment.why = f"{ratio:.0%} of NVLink"
        assessment.ask = "a message of 8 GiB: all_reduce_perf -b 8G -e 8G"


def _node_gbyte_s(
    assessment: Assessment, facts: KnownHardware, model: GpuModel | None, per_node: int
) -> tuple[float, str]:
    """What the NICs of a node carry each way, or what its GPUs' own links leave of it."""
    line, nics = facts.nic_gbit_s or 0.0, facts.nics_per_node or 1
    if facts.path_mtu_bytes is None:
        assessment.assumptions.append("path MTU 4096")
    path = Path(
        line_rate_gbit_s=line,
        path_mtu_bytes=facts.path_mtu_bytes or 4096,
        message_bytes=2**20,
        framing=facts.framing or "roce_v2",
        pcie_gbit_s=facts.pcie_gbit_s,
    )
    carried = bandwidth_ceiling(path).value * nics / 8
    basis = f"{nics} x {bandwidth_ceiling(path).basis}"
    if model is not None and model.host_generation is not None:
        of_gpus = per_node * slot_gbit_s(model.host_generation) / 8
        if of_gpus < carried:
            text = f"PCIe Gen{model.host_generation} x16 of {plural(per_node, 'GPU')}"
            assessment.find(
                "GPU_LINK", f"{text} carries {of_gpus:.1f} GB/s, the NICs {carried:.1f}"
            )
            return of_gpus, text
    return carried, basis


def _between_nodes(
    assessment: Assessment, result: Result, facts: KnownHardware, collective: Collective
) -> None:
    row, model = result.rows[-1], gpu_model(facts.gpu or "")
    per_node = -(-collective.ranks // collective.nodes)
    node, basis = _node_gbyte_s(assessment, facts, model, per_node)
    ring = collective.ring_gbyte_s(node)
    if model is not None and model.nvlink_gbyte_s and per_node > 1 and not model.rack:
        ring = min(ring, model.nvlink_gbyte_s)
    # the limits use the raw line: no framing can be mistaken for an impossible number
    raw = max(node, (facts.nic_gbit_s or 0.0) * (facts.nics_per_node or 1) / 8)
    bound, network = collective.bound_gbyte_s(raw), collective.in_network_gbyte_s(raw)
    size = row.size_bytes or 8 * 2**30
    latency = Ring(nodes=collective.nodes, gpus_per_node=per_node, message_bytes=size)
    assessment.ceiling = ring
    if collective.name == "all_reduce":
        assessment.ceiling = latency.busbw_gbyte_s(ring)
    assessment.basis = f"ring over {basis}; any algorithm {bound:.0f} GB/s"
    if model is not None and model.rack and row.value > ring * 1.02:
        _across_rack(assessment, row, model, f"above the NICs' ring of {ring:.0f} GB/s")
        return
    if row.value > bound * ABOVE:
        _above_bound(assessment, row, bound, network)
        return
    _rate_ring(assessment, result, facts, collective, (ring, bound, node))
    if assessment.verdict in ("slow", "broken"):
        _why_collective(assessment, result, facts, row)


def _rate_ring(
    assessment: Assessment,
    result: Result,
    facts: KnownHardware,
    collective: Collective,
    limits: tuple[float, float, float],
) -> None:
    """The verdict below the bound; the limits: ring, any algorithm, one node."""
    row, model, size = (
        result.rows[-1],
        gpu_model(facts.gpu or ""),
        result.rows[-1].size_bytes or 8 * 2**30,
    )
    ring, bound, node = limits
    per_node = -(-collective.ranks // collective.nodes)
    ratio = row.value / (assessment.ceiling or ring)
    tree = model is not None and model.in_switch and collective.nodes == 2 and per_node > 1
    pinned = "Ring" in (
        result.facts.algorithm,
        result.network.algorithm if result.network else None,
    )
    if row.value > ring * 1.02:
        if pinned:
            assessment.find(
                "IMPOSSIBLE",
                f"{row.value:.1f} GB/s is above the ring's {ring:.1f}, and NCCL_ALGO is Ring",
            )
            assessment.why = "more than a ring carries over these NICs"
            assessment.ask = (
                "line rate and number of the NICs: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH"
            )
            return
        assessment.find(
            "NOT_A_RING",
            f"above the ring's {ring:.1f} GB/s, below the {bound:.1f} of any algorithm: a "
            "tree, or the nodes' NVLink",
            "NCCL_ALGO=Ring measures the network itself",
        )
        assessment.decide("good", "above what a ring carries; it says little about the network")
    elif ratio < GOOD and _fills_gen5(facts, row.value):
        assessment.why = (
            f"a PCIe Gen5 x16 slot carries {slot_gbit_s(5) / 8:.0f} GB/s, and the value is at "
            "that limit"
        )
        assessment.ask = "the NICs' PCIe link: lspci -vv -s NIC | grep LnkSta"
    elif (
        ratio >= GOOD
        and tree
        and not pinned
        and model
        and node < 0.6 * (model.nvlink_gbyte_s or 0.0)
    ):
        assessment.why = (
            "good for a ring, slow for a tree, which NCCL prefers on two nodes with NVSwitch"
        )
        assessment.ask = "the algorithm: NCCL_ALGO=Ring, or NCCL_DEBUG_SUBSYS=TUNING"
    elif ratio >= GOOD:
        assessment.decide("good", f"{ratio:.1%} of a ring over these NICs")
    elif ratio < BROKEN and size >= 2**24:
        assessment.decide(
            "broken", f"{ratio:.1%} of a ring over these NICs: sockets, or nearly all packets lost"
        )
    elif (size >= LARGE_BYTES and ratio < SLOW_COLLECTIVE) or (
        size >= 2**20 and ratio < 0.5 and size < LARGE_BYTES
    ):
        assessment.decide("slow", f"{ratio:.1%} of a ring over these NICs")
    elif size < LARGE_BYTES:
        assessment.why = f"at {bytes_text(size)} latency and protocol matter as much as bandwidth"
        assessment.ask = "a run with messages up to 8 GiB: -b 1G -e 8G -f 2"
    else:
        assessment.why = (
            f"{ratio:.1%} of a ring: between slow and good, the algorithm and the GPUs' links "
            "decide"
        )
        assessment.ask = "one node alone (all_reduce_perf on 8 GPUs) and ib_write_bw of one NIC"


def _fills_gen5(facts: KnownHardware, gbyte_s: float) -> bool:
    """Whether NICs too fast for a Gen5 slot reach what such slots carry."""
    line, nics = facts.nic_gbit_s or 0.0, facts.nics_per_node or 1
    if facts.pcie_gbit_s is not None or line <= slot_gbit_s(5):
        return False
    return gbyte_s >= GOOD * nics * slot_gbit_s(5) / 8


def _across_rack(assessment: Assessment, row: ResultRow, model: GpuModel, evidence: str) -> None:
    """NVLink joins the nodes of a rack, so the NICs set no limit there."""
    nvlink = model.nvlink_gbyte_s or 0.0
    assessment.find("NVLINK_BETWEEN_NODES", f"{evidence}: NVLink joins these nodes")
    assessment.ceiling, assessment.basis = nvlink, "NVLink of one GPU, across the rack"
    if row.value > 2 * nvlink * ABOVE:
        assessment.find("IMPOSSIBLE", f"{row.value:.0f} GB/s exceeds even NVLink")
    elif row.value >= NVLINK_GOOD * nvlink:
        assessment.decide("good", "at the speed of NVLink; it says nothing about the NICs")
    else:
        assessment.ask = "how many racks took part: several racks share NVLink and NICs"


def _above_bound(assessment: Assessment, row: ResultRow, bound: float, network: float) -> None:
    if row.value <= network * ABOVE and _has(assessment, "SHARP"):
        assessment.decide(
            "good", "above the bound without switches that add up; the log names SHARP"
        )
        return
    code = "ABOVE_BOUND"
    if row.value > network * ABOVE:
        code = "IMPOSSIBLE"
    assessment.find(
        code,
        f"{row.value:.1f} GB/s exceeds {bound:.1f}, the most that any algorithm moves "
        "over these NICs",
        "NVLink between the nodes, SHARP in the switches, more NICs than stated, or a wrong claim",
    )
    assessment.why = "more than the NICs carry"
    assessment.ask = (
        "number and line rate of the NICs that NCCL uses: NCCL_DEBUG=INFO, lines `NET/IB : Using`"
    )


def _why_collective(
    assessment: Assessment, result: Result, facts: KnownHardware, row: ResultRow
) -> None:
    nics = facts.nics_per_node or 1
    if nics > 1 and facts.nic_gbit_s:
        used = round(row.value * 8 / facts.nic_gbit_s)
        if used and used < nics and abs(row.value * 8 / facts.nic_gbit_s / used - 1) < 0.06:
            assessment.find(
                "FEWER_NICS",
                f"the value is that of {used} of {nics} NICs",
                "NCCL_DEBUG=INFO: `NET/IB : Using`",
            )
    if not _has(assessment, "GPUDIRECT_OFF", "SOCKETS"):
        assessment.gaps.append(
            "NCCL's own lines (NCCL_DEBUG=INFO): transport, GPUDirect, algorithm"
        )
    assessment.next_command = (
        "ib_write_bw between the nodes for each NIC; at line rate, NCCL_DEBUG=INFO NCCL_ALGO=Ring"
    )

"""The verdict on a collective: on one node by NVLink, between nodes by a ring and by the bound."""

from dataclasses import replace

from components.judge.assessment import ABOVE, BROKEN, GOOD, Judged
from components.judge.results import LARGE_BYTES
from components.physics.ceilings import Path, bandwidth_ceiling
from components.physics.collectives import Collective, GpuModel, gpu_model, slot_gbit_s
from components.physics.nccl import Ring
from components.physics.signs import GPU_PEERS_HINT
from stacks.frozen import frozen
from stacks.words import bytes_text, plural

SLOW = 0.80
"""Between this and GOOD the algorithm and the GPUs' own links decide."""
SURELY_SLOW, SURELY_SLOW_BYTES = 0.5, 2**20
BROKEN_BYTES = 2**24
NVLINK_GOOD, NVLINK_SLOW = 0.70, 0.50
"""Of a GPU's NVLink: NCCL's rings reach 75 to 82 % of the data sheet's number."""
ABOVE_RING = 1.02
LEAST_PEER_GBYTE_S = 4.0
"""Between GPUs of two sockets over PCIe Gen3; from here on that path may be the limit."""
FAR_GPUS = (0.45, 0.70)
"""Share of the NICs without GPUDirect: 29.68 and 46.93 GB/s of 50 (google/dranet,
hardware-efficiency.md), 25 and 46 (kubernetes-sigs/dranet, BM.GPU.GB200-v3.4)."""
USUAL_BYTES = 8 * 2**30
"""Of a number without a message size."""
WHOLE_LOG = "the untouched output of the test"


@frozen
class Limits:
    """What the hardware allows a collective between nodes, in GB/s."""

    collective: Collective
    node: float
    """What a node's NICs carry, or what its GPUs' links leave of it."""
    ring: float
    bound: float
    """Of any algorithm."""
    in_network: float
    """With switches that add up."""
    model: GpuModel | None
    size_bytes: int
    gpu_slot: float | None
    """PCIe link of one GPU, where the GPUs of a node may have no NVLink."""

    @property
    def per_node(self) -> int:
        return -(-self.collective.ranks // self.collective.nodes)

    def ceiling_at(self, size_bytes: int) -> float:
        """The ring's busbw in a message of this size."""
        if self.collective.name != "all_reduce" or not size_bytes:
            return self.ring
        ring = Ring(
            nodes=self.collective.nodes,
            gpus_per_node=self.per_node,
            message_bytes=size_bytes,
        )
        return ring.busbw_gbyte_s(self.ring)


def judge_collective(case: Judged) -> None:
    case.assessment.measured(case.last, "GB/s")
    ranks, nodes = _shape(case)
    if not _useless(case, ranks) and not _decided_by_log(case, nodes):
        _by_hardware(case, ranks, nodes)


def _useless(case: Judged, ranks: int | None) -> bool:
    """Whether the numbers mean nothing, whatever the hardware."""
    assessment, result = case.assessment, case.result
    if assessment.has("SEPARATE_RUNS"):
        assessment.value = None
        assessment.leave_open(
            "the processes did not form one job, so nothing crossed the network",
            "the log of one job over all ranks",
        )
    elif assessment.has("WRONG_VALUES"):
        assessment.decide(
            "broken",
            "the data is wrong, so the speed means nothing",
            "dmesg | grep -i -E 'xid|AER'; the same test with -c 1 and NCCL_* unset",
        )
    elif assessment.has("CONTRADICTION"):
        assessment.leave_open(
            "the table contradicts itself, so none of its numbers counts", WHOLE_LOG
        )
    elif result.program == "osu_allreduce" and ranks is None:
        assessment.value = None
        assessment.leave_open(
            "a time becomes a bandwidth only with the number of ranks",
            "the number of ranks: --nodes and --gpus-per-node",
        )
    else:
        return False
    return True


def _decided_by_log(case: Judged, nodes: int | None) -> bool:
    assessment = case.assessment
    if case.find_cliff():
        assessment.decide(
            "slow",
            "large messages are slower than smaller ones in the same run",
            "NCCL_DEBUG=INFO, and the NICs' counters before and after: out_of_sequence, "
            "rx_discards_phy",
        )
    elif assessment.has("SOCKETS") and nodes and nodes > 1:
        assessment.decide(
            "broken",
            "the traffic between the nodes does not use RDMA",
            "NCCL_NET=IB NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET",
        )
    elif assessment.has("RANKS_CONTRADICT") and case.result.facts.listed_ranks:
        assessment.leave_open("the log's ranks contradict its numbers", WHOLE_LOG)
    else:
        return False
    return True


def _by_hardware(case: Judged, ranks: int | None, nodes: int | None) -> None:
    assessment, facts = case.assessment, case.facts
    model = gpu_model(facts.gpu or "")
    if nodes is None:
        assessment.leave_open(
            "the log does not say how many nodes took part",
            "the number of nodes and of GPUs per node: --nodes 2 --gpus-per-node 8",
        )
    elif nodes == 1:
        _one_node(case, model, ranks)
    elif ranks is None:
        assessment.leave_open(
            "the number of ranks is unknown", "the number of GPUs per node: --gpus-per-node"
        )
    elif model and model.rack and case.last.value >= NVLINK_GOOD * (model.nvlink_gbyte_s or 0):
        _across_rack(case, model, "as fast as NVLink")
    elif facts.nic_gbit_s is None or facts.nics_per_node is None:
        missing = "--nics-per-node 8"
        if facts.nic_gbit_s is None:
            missing = "--nic 400G"
        assessment.leave_open(
            "the log does not say how much the NICs of a node carry",
            f"line rate and number of NICs per node: {missing}",
        )
    else:
        name = case.result.program
        if name in ("osu_allreduce", "IMB Allreduce"):
            name = "all_reduce"
        _between_nodes(case, Collective(name=name, ranks=ranks, nodes=nodes), model)


def _shape(case: Judged) -> tuple[int | None, int | None]:
    """Ranks and nodes; the table's own count wins, and what contradicts it is a finding."""
    assessment, log, options = case.assessment, case.result.facts, case.options
    ranks, nodes = log.ranks, case.facts.nodes
    if options.nodes and log.nodes and options.nodes != log.nodes:
        code = "NODES_CONTRADICT"
        if log.nodes == 1:
            code = "ONE_NODE_TABLE"
        evidence = f"the log is of {plural(log.nodes, 'node')}, not of {options.nodes}"
        assessment.find(code, evidence)
        nodes = log.nodes
    per_node = options.gpus_per_node
    if ranks is None and nodes and per_node:
        ranks = nodes * per_node
    if ranks and per_node and not log.nodes:
        if options.nodes and ranks != options.nodes * per_node:
            code = "RANKS_CONTRADICT"
            if ranks <= per_node and options.nodes > 1:
                code = "ONE_NODE_TABLE"
            assessment.find(
                code,
                f"busbw/algbw is that of {plural(ranks, 'rank')}, "
                f"not of {options.nodes} nodes with {plural(per_node, 'GPU')}",
                "see which hosts the ranks ran on: the list `# Rank` at the top of the log",
            )
        nodes = max(1, -(-ranks // per_node))
    return ranks, nodes


def _one_node(case: Judged, model: GpuModel | None, ranks: int | None) -> None:
    assessment, row = case.assessment, case.last
    assessment.find("ONE_NODE", "one node: this says nothing about the network between nodes")
    if assessment.has("ONE_NODE_TABLE"):
        assessment.leave_open(
            "the network between the nodes was not measured",
            "the log of a run whose ranks are on several nodes (list `# Rank`)",
        )
        return
    if model is None or model.nvlink_gbyte_s is None:
        assessment.leave_open(
            "the links between the GPUs of the node are unknown",
            "the GPU model and nvidia-smi topo -m: --gpu H100",
        )
        return
    limit = assessment.ceiling = model.nvlink_gbyte_s
    assessment.basis = f"NVLink of one GPU, {limit:g} GB/s each way"
    assessment.ceilings = [limit] * len(assessment.rows)
    ratio = row.value / limit
    if model.in_switch and case.result.program in ("all_reduce", "osu_allreduce", "IMB Allreduce"):
        limit *= 2 * ((ranks or 8) - 1) / (ranks or 8)
    if row.value > limit * ABOVE:
        assessment.find(
            "IMPOSSIBLE", f"{row.value:.1f} GB/s exceeds {limit:.0f} that the GPU's links allow"
        )
        assessment.leave_open("more than the GPUs' links carry", "the GPU model: nvidia-smi -L")
    elif ratio >= NVLINK_GOOD:
        assessment.decide("good", f"{ratio:.0%} of NVLink; rings reach about 80 %")
    elif ratio < NVLINK_SLOW and (row.size_bytes or LARGE_BYTES) >= LARGE_BYTES:
        assessment.decide(
            "slow",
            f"{ratio:.0%} of NVLink",
            "nvidia-smi topo -m; nvidia-smi nvlink -s; systemctl status nvidia-fabricmanager",
        )
        _find_peers_off(case)
    else:
        assessment.leave_open(
            f"{ratio:.0%} of NVLink", "a message of 8 GiB: all_reduce_perf -b 8G -e 8G"
        )


def _find_peers_off(case: Judged) -> None:
    if any("via SHM" in line for line in case.result.notes):
        case.assessment.find(
            "GPU_PEERS_OFF",
            "NCCL moves data between GPUs of one node through the host's memory (via SHM)",
            GPU_PEERS_HINT,
        )


def _between_nodes(case: Judged, collective: Collective, model: GpuModel | None) -> None:
    assessment, row = case.assessment, case.last
    limits = _limits(case, collective, model)
    assessment.ceiling = limits.ceiling_at(limits.size_bytes)
    for measured in assessment.rows:
        assessment.ceilings.append(limits.ceiling_at(measured.size_bytes or limits.size_bytes))
    if model is not None and model.rack and row.value > limits.ring * ABOVE_RING:
        _across_rack(case, model, f"above the NICs' ring of {limits.ring:.0f} GB/s")
    elif row.value > limits.bound * ABOVE:
        _above_bound(case, limits)
    elif row.value > limits.ring * ABOVE_RING:
        _above_ring(case, limits)
    else:
        _rate_ring(case, limits)
    if assessment.verdict not in ("slow", "broken"):
        return
    if case.result.guessed and row.value >= SLOW * _all_to_all_gbyte_s(limits):
        assessment.verdict = "cannot judge"
        assessment.leave_open(
            "slow for an all_gather, and what an alltoall reaches over these NICs",
            "the name of the test: the line with its command",
        )
    elif case.result.average:
        assessment.verdict = "cannot judge"
        assessment.leave_open(
            "the mean over all message sizes: small ones lower it, whatever the network",
            "the row of the largest message",
        )
    else:
        _find_causes(case, limits)


def _all_to_all_gbyte_s(limits: Limits) -> float:
    return replace(limits.collective, name="alltoall").ring_gbyte_s(limits.node)


def _limits(case: Judged, collective: Collective, model: GpuModel | None) -> Limits:
    """The limits of any algorithm use the raw line: no framing makes a number impossible."""
    assessment, facts = case.assessment, case.facts
    line, nics = facts.nic_gbit_s or 0.0, facts.nics_per_node or 1
    if facts.path_mtu_bytes is None:
        assessment.assumptions.append("path MTU 4096")
    of_nic = bandwidth_ceiling(
        Path(
            line_rate_gbit_s=line,
            path_mtu_bytes=facts.path_mtu_bytes or 4096,
            message_bytes=2**20,
            framing=facts.framing or "roce_v2",
            pcie_gbit_s=facts.pcie_gbit_s,
        )
    )
    node, basis = of_nic.value * nics / 8, f"{nics} x {of_nic.basis}"
    per_node = -(-collective.ranks // collective.nodes)
    # no GPU of today has a faster slot; one with a coherent link is listed
    generation = (model and model.host_generation) or 5
    if model is None or model.host_generation is not None:
        of_gpus = per_node * slot_gbit_s(generation) / 8
        if of_gpus < node:
            text = f"PCIe Gen{generation} x16 of {plural(per_node, 'GPU')}"
            assessment.find("GPU_LINK", f"{text} carries {of_gpus:.1f} GB/s, the NICs {node:.1f}")
            node, basis = of_gpus, text
    ring, gpu_slot = collective.ring_gbyte_s(node), None
    nvlink = model.nvlink_gbyte_s if model else None
    if per_node > 1 and nvlink is None:
        gpu_slot = slot_gbit_s(generation) / 8
    elif per_node > 1 and nvlink is not None and not (model and model.rack):
        ring = min(ring, nvlink)
    raw = max(node, line * nics / 8)
    bound = collective.bound_gbyte_s(raw)
    assessment.basis = f"ring over {basis}; any algorithm {bound:.0f} GB/s"
    return Limits(
        collective=collective,
        node=node,
        ring=ring,
        bound=bound,
        in_network=collective.in_network_gbyte_s(raw),
        model=model,
        size_bytes=case.last.size_bytes or USUAL_BYTES,
        gpu_slot=gpu_slot,
    )


def _pinned_to_ring(case: Judged) -> bool:
    network = case.result.network
    of_log = network.algorithm if network else None
    return "Ring" in (case.result.facts.algorithm, of_log)


def _above_ring(case: Judged, limits: Limits) -> None:
    assessment, value = case.assessment, case.last.value
    if _pinned_to_ring(case):
        assessment.find(
            "IMPOSSIBLE",
            f"{value:.1f} GB/s is above the ring's {limits.ring:.1f}, and NCCL_ALGO is Ring",
        )
        assessment.leave_open(
            "more than a ring carries over these NICs",
            "line rate and number of the NICs: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH",
        )
        return
    assessment.find(
        "NOT_A_RING",
        f"above the ring's {limits.ring:.1f} GB/s, below the {limits.bound:.1f} of any algorithm: "
        "a tree, or the nodes' NVLink",
        "NCCL_ALGO=Ring measures the network itself",
    )
    assessment.decide("good", "above what a ring carries; it says little about the network")


def _rate_ring(case: Judged, limits: Limits) -> None:
    """The verdict at and below a ring."""
    assessment, value, size = case.assessment, case.last.value, limits.size_bytes
    ratio = value / limits.ceiling_at(size)
    large = size >= LARGE_BYTES
    of_ring = f"{ratio:.1%} of a ring over these NICs"
    if ratio < GOOD and _fills_slots(case, limits):
        return
    if value >= GOOD * limits.ring or (large and ratio >= GOOD):
        _rate_good(case, limits, of_ring)
    elif ratio < BROKEN and size >= BROKEN_BYTES:
        assessment.decide("broken", f"{of_ring}: sockets, or nearly all packets lost")
    elif ratio < SLOW and (large or (ratio < SURELY_SLOW and size >= SURELY_SLOW_BYTES)):
        assessment.decide("slow", of_ring)
    elif not large:
        assessment.leave_open(
            f"at {bytes_text(size)} latency and protocol matter as much as bandwidth",
            "a run with messages up to 8 GiB: -b 1G -e 8G -f 2",
        )
    else:
        assessment.leave_open(
            f"{ratio:.1%} of a ring: between slow and good, the algorithm and the GPUs' links "
            "decide",
            "one node alone (all_reduce_perf on 8 GPUs) and ib_write_bw of one NIC",
        )


def _rate_good(case: Judged, limits: Limits, of_ring: str) -> None:
    model = limits.model
    tree = model is not None and model.in_switch and limits.collective.nodes == 2
    room = model is not None and limits.node < 0.6 * (model.nvlink_gbyte_s or 0.0)
    if tree and room and limits.per_node > 1 and not _pinned_to_ring(case):
        case.assessment.leave_open(
            "good for a ring, slow for a tree, which NCCL prefers on two nodes with NVSwitch",
            "the algorithm: NCCL_ALGO=Ring, or NCCL_DEBUG_SUBSYS=TUNING",
        )
    else:
        case.assessment.decide("good", of_ring)


def _fills_slots(case: Judged, limits: Limits) -> bool:
    """Whether the value is what the slots of NICs or GPUs carry that the text does not describe."""
    facts, value = case.facts, case.last.value
    line, nics = facts.nic_gbit_s or 0.0, facts.nics_per_node or 1
    gen5 = slot_gbit_s(5)
    if facts.pcie_gbit_s is None and line > gen5 and value >= GOOD * nics * gen5 / 8:
        case.assessment.leave_open(
            f"a PCIe Gen5 x16 slot carries {gen5 / 8:.0f} GB/s, and the value is at that limit",
            "the NICs' PCIe link: lspci -vv -s NIC | grep LnkSta",
        )
        return True
    if limits.gpu_slot and LEAST_PEER_GBYTE_S <= value <= limits.gpu_slot * ABOVE:
        case.assessment.leave_open(
            "without NVLink the GPUs of a node exchange data over PCIe, at "
            f"{LEAST_PEER_GBYTE_S:g} to {limits.gpu_slot:.0f} GB/s",
            "the GPU model (--gpu H100), or the same test on one node alone",
        )
        return True
    if limits.model is not None:
        return False
    for generation in (3, 4):
        of_gpus = limits.per_node * slot_gbit_s(generation) / 8
        if of_gpus < limits.node and SLOW * of_gpus <= value <= of_gpus * ABOVE:
            case.assessment.leave_open(
                f"PCIe Gen{generation} x16 of {plural(limits.per_node, 'GPU')} carries "
                f"{of_gpus:.0f} GB/s, and the value is at that limit",
                "the GPU model: --gpu H100",
            )
            return True
    return False


def _across_rack(case: Judged, model: GpuModel, evidence: str) -> None:
    """NVLink joins the nodes of a rack, so the NICs set no limit there."""
    assessment, value, nvlink = case.assessment, case.last.value, model.nvlink_gbyte_s or 0.0
    assessment.find("NVLINK_BETWEEN_NODES", f"{evidence}: NVLink joins these nodes")
    assessment.ceiling, assessment.basis = nvlink, "NVLink of one GPU, across the rack"
    assessment.ceilings = [nvlink] * len(assessment.rows)
    if value > 2 * nvlink * ABOVE:
        assessment.find("IMPOSSIBLE", f"{value:.0f} GB/s exceeds even NVLink")
    elif value >= NVLINK_GOOD * nvlink:
        assessment.decide("good", "at the speed of NVLink; it says nothing about the NICs")
    else:
        assessment.ask = "how many racks took part: several racks share NVLink and NICs"


def _above_bound(case: Judged, limits: Limits) -> None:
    assessment, value = case.assessment, case.last.value
    code = "IMPOSSIBLE"
    if value <= limits.in_network * ABOVE:
        code = "ABOVE_BOUND"
        if assessment.has("SHARP"):
            assessment.decide(
                "good", "above the bound without in-network reduction; the log names SHARP"
            )
            return
    assessment.find(
        code,
        f"{value:.1f} GB/s exceeds {limits.bound:.1f}, the most that any algorithm moves "
        "over these NICs",
        "NVLink between the nodes, SHARP in the switches, more NICs than stated, or a wrong claim",
    )
    assessment.leave_open(
        "more than the NICs carry",
        "number and line rate of the NICs that NCCL uses: NCCL_DEBUG=INFO, lines `NET/IB : Using`",
    )


def _find_causes(case: Judged, limits: Limits) -> None:
    assessment, facts, value = case.assessment, case.facts, case.last.value
    nics, line = facts.nics_per_node or 1, facts.nic_gbit_s or 0.0
    if nics > 1 and line:
        used = round(value * 8 / line)
        if 0 < used < nics and abs(value * 8 / line / used - 1) < 0.06:
            assessment.find(
                "FEWER_NICS",
                f"the value is that of {used} of {nics} NICs",
                "NCCL_DEBUG=INFO: `NET/IB : Using`",
            )
    _find_peers_off(case)
    share = value / limits.ring
    if FAR_GPUS[0] <= share <= FAR_GPUS[1] and limits.size_bytes >= LARGE_BYTES:
        assessment.find(
            "GPU_FAR",
            f"{share:.0%} of the NICs, typical of published runs whose GPUs and NICs are far "
            "apart: 25 to 30 of 50 GB/s, against 46 when near",
            "nvidia-smi topo -m: each GPU and its NIC under one PCIe switch; GDRDMA in NCCL's log",
        )
    if not assessment.has("GPUDIRECT_OFF", "SOCKETS"):
        assessment.gaps.append(
            "NCCL's own lines (NCCL_DEBUG=INFO): transport, GPUDirect, algorithm"
        )
    assessment.next_command = (
        "ib_write_bw between the nodes for each NIC; at line rate, NCCL_DEBUG=INFO NCCL_ALGO=Ring"
    )

"""Healthy labs with noise, and the same with one slow node: how often the whole verdict is right.

    python -m tests.components.validation.judging.healthy [--draws 1000] [--nodes 2 8 16 64 256]

Every value has noise of 1 %: each repeat of each transfer, each node's own ring, and the all-reduce,
whose time is that of NCCL's published cost model. NICs of 400 Gbit/s reach 99 % of their ceiling, and
the GPUs of a node 362 GB/s among themselves. Half of the labs have AMD's processors. A slow node
sends and receives at 85 %. Suspects are measured again as in a run. Transfers of GPU memory and
latencies are not drawn.
"""

import argparse
import sys
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from components.physics.ceilings import Path, bandwidth_ceiling
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.judge import fabric_of, first_value
from components.validation.benchmarks.verbs.retest import joined
from components.validation.records import (
    CurvePoint,
    Flow,
    MeasuredHost,
    NcclResult,
    NodeRing,
    RunRecord,
    TransferResult,
)
from components.validation.search.localise import Localiser
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.components.physics.cost_model import all_reduce_s
from tests.components.validation.judging.simulation import MOST_ROUNDS, seeded
from tests.components.validation.labs import changed, hardware, plan_for, record, with_nodes
from tests.conftest import ROOT

RAILS = {2: 8, 8: 8, 16: 4, 64: 1, 256: 1}
"""By nodes. Larger labs have fewer, so that a draw takes about a second; the message shrinks with
them, so latency has the same share as with eight."""
NOISE, USUAL, SLOW = 0.01, 0.99, 0.85
LINE_GBIT_S, GPUS, NVLINK_GBYTE_S = 400.0, 8, 362.0
RAIL_GBIT_S = USUAL * bandwidth_ceiling(Path(line_rate_gbit_s=LINE_GBIT_S, path_mtu_bytes=4096)).value
VENDORS = ("GenuineIntel", "AuthenticAMD")


@lru_cache(maxsize=8)
def lab_of(nodes: int) -> Lab:
    """The reference lab with that many nodes, each with a PF on every rail."""
    whole = with_nodes(hardware(read_stack_file(ROOT / "Pulumi.lab.yaml")), nodes)
    names = [f"rail-{number}" for number in range(1, RAILS[nodes] + 1)]
    rail, pf = whole.rails[0], whole.nodes[0].pfs[0]
    rails = [rail.model_copy(update={"name": name, "resource_name": name}) for name in names]
    pfs = [pf.model_copy(update={"rail": name, "rdma_device": f"mlx5_{name}"}) for name in names]
    update = {"pfs": tuple(pfs), "gpus": GPUS}
    parts = {"rails": tuple(rails), "nodes": tuple(node.model_copy(update=update) for node in whole.nodes)}
    lab = whole.model_copy(update={**parts, "switches": (), "qos": None})
    assert lab.benchmarks
    verbs = lab.benchmarks.verbs.model_copy(update={"tests": ("ib_write_bw",), "sizes": ()})
    return changed(lab, verbs=verbs, repeats=3, budget_s=86_400)


@lru_cache(maxsize=8)
def planned(nodes: int) -> tuple[Plan, Benchmarks, RunRecord]:
    """Plan, bounds and a record whose values are drawn anew for each lab."""
    lab = lab_of(nodes)
    plan = plan_for(lab)
    assert lab.benchmarks
    transfers = [t.model_copy(update={"line_rate_gbit_s": LINE_GBIT_S}) for t in record(plan).transfers]
    return plan, lab.benchmarks, record(plan).model_copy(update={"transfers": tuple(transfers)})


@dataclass
class Drawn:
    """One lab of the simulation."""

    nodes: int
    seed: int
    slow: str = ""
    """The node at 85 %; empty for a healthy lab."""
    noise: float = NOISE
    made: dict[Flow, list[TransferResult]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.draw = seeded("healthy", self.nodes, self.seed, self.slow)
        self.vendor = self.draw.choice(VENDORS)

    @cached_property
    def summary(self) -> Summary:
        """The verdict on a run of this lab."""
        plan, benchmarks, empty = planned(self.nodes)
        self.transfers = {t.flow: t for t in empty.transfers}
        transfers = self._searched(plan, [self._transfer(t.flow, 3) for t in empty.transfers])
        rings = [self._ring(ring.node) for ring in empty.rings]
        update = {"transfers": tuple(transfers), "rings": tuple(rings), "nccl": self._reduced(plan)}
        hosts = {ring.node: MeasuredHost(cpu_vendor=self.vendor) for ring in rings}
        run = empty.model_copy(update={**update, "hosts": hosts})
        return judge(plan, benchmarks, run).verdict()

    @property
    def right(self) -> bool:
        """Whether a healthy lab passes, and a slow node alone is named.

        Of two nodes only their paths can be. A hint that a slow transfer may have a small MTU may be beside it.
        """
        findings = self.summary.findings
        if not self.slow:
            return self.summary.performance == "pass" and not findings
        if self.nodes == 2:
            return self.summary.performance == "fail" and bool(findings)
        blamed = [finding for finding in findings if not finding.code.startswith("MTU_FINGERPRINT_")]
        named = {(finding.code, finding.where.partition(",")[0]) for finding in blamed}
        return self.summary.performance == "fail" and named == {("NODE_SLOW", self.slow)}

    def _noisy(self, value: float) -> float:
        return value * self.draw.gauss(1.0, self.noise)

    def _transfer(self, flow: Flow, repeats: int) -> TransferResult:
        value = RAIL_GBIT_S * (SLOW if self.slow in flow[1:] else 1.0)
        samples = tuple(self._noisy(value) for _ in range(repeats))
        return self.transfers[flow].model_copy(update={"samples": samples})

    def _searched(self, plan: Plan, first: list[TransferResult]) -> list[TransferResult]:
        """The transfers, suspects measured again until each is cleared or confirmed."""
        stage = plan.main_stage
        assert stage
        search = Localiser(fabric_of(plan, stage, first))
        for _ in range(MOST_ROUNDS):
            values = {flow: [first_value(one) for one in tries] for flow, tries in self.made.items()}
            suspects = search.suspects(values)
            for flow in suspects:
                self.made.setdefault(flow, []).append(self._transfer(flow, 1))
            if not suspects:
                break
        return [joined(t, self.made[t.flow]) if t.flow in self.made else t for t in first]

    def _ring(self, node: str) -> NodeRing:
        return NodeRing(node=node, outcome="measured", busbw_gbyte_s=self._noisy(NVLINK_GBYTE_S))

    def _reduced(self, plan: Plan) -> NcclResult:
        """The all-reduce: as slow as the slowest part of the ring, with the latency of NCCL's model."""
        assert plan.nccl
        rails_gbyte_s = len(plan.rails) * RAIL_GBIT_S / 8 * (SLOW if self.slow else 1.0)
        carried = min(NVLINK_GBYTE_S, rails_gbyte_s)
        size, ranks = plan.nccl.largest_bytes, self.nodes * GPUS
        took_s = self._noisy(all_reduce_s(size, carried, self.nodes, GPUS, self.vendor))
        busbw = size / 1e9 / took_s * 2 * (ranks - 1) / ranks
        curve = (CurvePoint(message_bytes=size, value=busbw, time_us=took_s * 1e6),)
        return NcclResult(outcome="measured", busbw_gbyte_s=busbw, curve=curve)


def slow_node(nodes: int, seed: int) -> str:
    """The node that is slow in a draw."""
    return f"gpu{seed % nodes + 1:02}"


def main() -> int:
    """Prints for each size how many verdicts are right; the exit code is 1 if one is wrong."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--draws", type=int, default=1000)
    arguments.add_argument("--nodes", type=int, nargs="*", choices=RAILS, default=list(RAILS))
    chosen = arguments.parse_args()
    wrong = 0
    for nodes in chosen.nodes:
        passed = found = 0
        for seed in range(chosen.draws):
            passed += Drawn(nodes, seed).right
            found += Drawn(nodes, seed, slow_node(nodes, seed)).right
        wrong += 2 * chosen.draws - passed - found
        print(
            f"{nodes:3} nodes {RAILS[nodes]} rails: {passed}/{chosen.draws} healthy pass, "
            f"{found}/{chosen.draws} slow nodes found",
            flush=True,
        )
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())

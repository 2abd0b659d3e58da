"""The plan of a measurement: what, how, in which order and for how long. A pure function of the lab
file.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from itertools import islice

from pydantic import Field

from components.jobs.on_hosts import command_of
from components.physics.ceilings import goodput_ratio
from components.validation.benchmarks.jobs.plan import PlannedJob, jobs_of
from components.validation.benchmarks.jobs.plan import estimate_s as jobs_estimate_s
from components.validation.benchmarks.nccl.plan import (
    NcclPlan,
    all_reduce,
    all_reduce_job,
    nccl_of,
    node_ring_job,
)
from components.validation.benchmarks.pods.plan import HARDWARE_S, SIMULATED_S, PodPlan, pods_of
from components.validation.benchmarks.verbs.plan import (
    HARDWARE_GBIT_S,
    Schedule,
    Stage,
    Transfer,
    VerbsPlan,
    directed,
    in_one_direction,
    incast_rounds,
    ring_rounds,
    rounds_of,
    stage_s,
    warm_up_s,
)
from components.validation.records import Frozen
from stacks.base import LabError
from stacks.benchmarks import ITERATIONS, Benchmarks
from stacks.lab import Lab
from stacks.nodes import VsphereVm
from stacks.safe_yaml import to_yaml
from stacks.words import plural

MOST_PAIRED_NODES = 16
"""Above it a tournament takes too long for what it shows beyond a sample."""
CHECKS_S = 5.0
"""Connections, leases, a look at the ports and whether they are idle, and pings."""
JOB_START_S = 45.0
"""Image there already, workers started, SSH up, NCCL initialised."""
SIMULATED_JOB_S = 8.0
"""All of a job whose pods a simulated kubelet plays."""
EMULATED_JOB_S = 60.0
"""All of a job, or of the check in pods, on emulated nodes whose pods run."""
ALONE_S = 8.0
NCCL_ITERATIONS = 21 * 2
"""nccl-tests' defaults: 20 and one to warm up, out of place and in place."""


class End(Frozen):
    """A PF as the plan names it."""

    node: str
    device: str
    interface: str
    address: IPv4Address


class PlannedRail(Frozen):
    """One rail and what is expected of it."""

    name: str
    mtu_bytes: int
    path_mtu_bytes: int
    ceiling_ratio: float
    """Goodput over line rate at best; the line rate is read from the ports when it is measured."""
    resource: str
    """Device-plugin resource of the rail: a pod that holds it may be using the rail."""
    pvrdma: bool = False
    """Whether any of its ends is a VM's PVRDMA adapter."""
    ends: tuple[End, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(end.node for end in self.ends)

    def without(self, names: Collection[str]) -> "PlannedRail":
        """The rail without some nodes."""
        left = tuple(end for end in self.ends if end.node not in names)
        return self.replace(ends=left)

    def end(self, node: str) -> End:
        """The PF of a node."""
        return next(end for end in self.ends if end.node == node)


class Plan(Frozen):
    """The whole plan. Thresholds are no part of it: editing one measures nothing."""

    schema_version: int = 2
    lab: str
    simulated: bool
    emulated_pods: bool = Field(default=False, exclude_if=lambda emulated: not emulated)
    """Whether pods run, on emulated nodes, where each takes long to start."""
    verbs: VerbsPlan
    rails: tuple[PlannedRail, ...]
    alone: tuple[str, ...] = Field(default=(), exclude_if=lambda nodes: not nodes)
    pods: PodPlan | None = None
    gpu_nodes: tuple[str, ...] = Field(default=(), exclude_if=lambda nodes: not nodes)
    """Nodes whose GPUs exchange data over the rails, without any job."""
    nccl: NcclPlan | None
    jobs: tuple[PlannedJob, ...] = ()
    not_run: dict[str, str] = Field(default={}, exclude_if=lambda reasons: not reasons)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The verbs tests in their order; empty where no rail has two nodes."""
        if any(len(rail.ends) > 1 for rail in self.rails):
            return self.verbs.stages
        return ()

    def rounds_of(self, stage: Stage) -> list[list[Transfer]]:
        """The schedule of a stage: transfers of a round run at once and share no NIC, but for an
        incast.
        """
        return list(self._rounds_on(stage, self._nodes))

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes of its rails."""
        return frozenset(end.node for rail in self.rails for end in rail.ends)

    def rails_of(self, node: str) -> tuple[str, ...]:
        """The rails that a node is on."""
        rails = []
        for rail in self.rails:
            if node in [end.node for end in rail.ends]:
                rails.append(rail.name)
        return tuple(rails)

    @property
    def alone_estimate_s(self) -> float:
        """How long the nodes' own tests take, all nodes at once."""
        most = max((len(self.rails_of(node)) for node in self.alone), default=0)
        return most * ALONE_S

    @property
    def rounds_in_words(self) -> str:
        """How many rounds each of its verbs tests has."""
        return ", ".join(
            f"{stage.name} {plural(len(self.rounds_of(stage)), 'round')}" for stage in self.stages
        )

    @property
    def _nodes(self) -> dict[str, tuple[str, ...]]:
        """The nodes of each rail."""
        return {rail.name: rail.nodes for rail in self.rails}

    def _rounds_on(
        self, stage: Stage, ends: Mapping[str, Sequence[str]]
    ) -> Iterator[list[Transfer]]:
        """The schedule on some of the rails."""
        verbs = self.verbs
        if stage.shape == "incast":
            return incast_rounds(ends, verbs.incast, verbs.first_port)
        names = list(dict.fromkeys(name for nodes in self._nodes.values() for name in nodes))
        if stage.shape == "sizes":
            few = (pairs[: verbs.size_pairs] for pairs in islice(ring_rounds(names), 1))
            return in_one_direction(few, ends, verbs.first_port)
        rounds = rounds_of(verbs.schedule, names, verbs.samples, self.lab)
        turn = directed
        if stage.shape == "both_ways":
            turn = in_one_direction
        return turn(rounds, ends, verbs.first_port)

    @property
    def gpu_memory(self) -> list[list[Transfer]]:
        """The transfers between GPU memories: each NIC sends once and receives once."""
        if self.write_stage is None:
            return []
        ends = {}
        for rail, nodes in self._nodes.items():
            ends[rail] = [node for node in nodes if node in self.gpu_nodes]
        turn = in_one_direction
        if len(self.gpu_nodes) == 2:
            turn = directed
        return list(turn(ring_rounds(self.gpu_nodes), ends, self.verbs.first_port))

    @property
    def main_stage(self) -> Stage | None:
        """The bandwidth by which rails and nodes are compared."""
        for stage in self.stages:
            if stage.bandwidth and stage.shape == "one_way":
                return stage
        return None

    @property
    def write_stage(self) -> Stage | None:
        """The plain ib_write_bw, where the plan has it."""
        for stage in self.stages:
            if (stage.test, stage.shape) == ("ib_write_bw", "one_way"):
                return stage
        return None

    @property
    def rings(self) -> int:
        """How many nodes run NCCL's ring on their own first; a simulated node has no GPU."""
        if self.nccl is None or self.simulated or self.nccl.gpus_per_node < 2:
            return 0
        # outside of Slurm's jobs, its GPUs are not ours
        if self.nccl.runner == "slurm":
            return 0
        return len(self.nccl.nodes)

    def planned(self, stage: Stage, rail: str) -> int:
        """How many transfers a stage has on a rail: with fewer results it is not whole."""
        return sum(map(len, self._rounds_on(stage, {rail: self._nodes[rail]})))

    @property
    def digest(self) -> str:
        """Changes when anything changes that is measured."""
        return hashlib.sha256(
            "\n".join(text for _, text in sorted(self.documents())).encode()
        ).hexdigest()

    @property
    def verbs_estimate_s(self) -> float:
        """How long the verbs tests will take, from assumed speeds."""
        if not self.stages:
            return 0.0
        times = []
        for stage in self.stages:
            rounds = len(self.rounds_of(stage))
            times.append(stage_s(self.verbs, stage, rounds, simulated=self.simulated))
        if self.write_stage:
            once = self.write_stage.replace(repeats=1)
            times.append(stage_s(self.verbs, once, len(self.gpu_memory), simulated=self.simulated))
        return CHECKS_S + warm_up_s(self.verbs, simulated=self.simulated) + sum(times)

    @property
    def estimate_s(self) -> float:
        """How long it will take, from assumed speeds."""
        total, start_s, pods_s = self.verbs_estimate_s, JOB_START_S, HARDWARE_S
        total += self.alone_estimate_s
        if self.simulated:
            start_s, pods_s = (
                (EMULATED_JOB_S, EMULATED_JOB_S)
                if self.emulated_pods
                else (SIMULATED_JOB_S, SIMULATED_S)
            )
        if self.pods and not self.pods.impossible:
            total += pods_s
        if self.nccl:
            moved_bytes = 2 * self.nccl.largest_bytes * NCCL_ITERATIONS * 2
            # a simulated node replays a log, so only the job's start takes time
            rate = HARDWARE_GBIT_S * len(self.nccl.rails)
            total += start_s if self.rings else 0.0
            total += start_s + (0.0 if self.simulated else moved_bytes * 8 / 1e9 / rate)
        return total + jobs_estimate_s(
            self.jobs, HARDWARE_GBIT_S, start_s, simulated=self.simulated
        )

    def rail(self, name: str) -> PlannedRail:
        """The rail of that name."""
        return next(rail for rail in self.rails if rail.name == name)

    def documents(self) -> Iterator[tuple[str, str]]:
        """The plan as files for a reviewer: what is measured, and the job as it will be created."""
        without = {name for name in ("jobs", "pods") if not getattr(self, name)}
        yield "plan.yaml", to_yaml(json.loads(self.model_dump_json(exclude=without)))
        if self.pods and not self.pods.impossible:
            yield "pod-rails.yaml", to_yaml(self.pods.document(self.pods.nodes[0], self.lab, "run"))
        if self.nccl and self.nccl.runner != "pods":
            command = command_of(self.nccl, all_reduce(self.nccl), "bench-run", "AGENT")
            yield "nccl-all-reduce.sh", f"{command}\n"
        elif self.nccl:
            if self.rings:
                yield "nccl-one-node.yaml", to_yaml(node_ring_job(self.nccl, self.lab, "run"))
            yield "nccl-all-reduce.yaml", to_yaml(all_reduce_job(self.nccl, self.lab, "run"))
        for turn, job in enumerate(self.jobs, 1):
            if job.workers and job.workers.runner != "pods":
                program, name = job.mpi_program(job.workers), job.job_name("run", turn)
                yield f"{job.name}.sh", f"{command_of(job.workers, program, name, 'AGENT')}\n"
            elif job.workers:
                yield f"{job.name}.yaml", to_yaml(job.document(self.lab, "run", turn))


def plan_of(lab: Lab) -> Plan | None:
    """The plan of a lab; None when nothing is to be measured.

    Raises:
        LabError: when it would take longer than the lab allows.
    """
    benchmarks = lab.benchmarks
    if benchmarks is None or benchmarks.mode == "off":
        return None
    rails = tuple(_rail(lab, rail.name, benchmarks.verbs.message_bytes) for rail in lab.rails)
    nccl, without_nccl = nccl_of(lab, benchmarks)
    gpu_nodes, without_gpu_memory = _gpu_nodes(lab, benchmarks)
    reasons = {"gpu_memory": without_gpu_memory, "nccl_all_reduce": without_nccl}
    plan = Plan(
        lab=lab.name,
        simulated=lab.simulated,
        emulated_pods=lab.simulated and lab.has_real_pods,
        verbs=_verbs(lab, benchmarks, len({end.node for rail in rails for end in rail.ends})),
        rails=rails,
        alone=_alone(lab, benchmarks),
        pods=pods_of(lab),
        gpu_nodes=gpu_nodes,
        nccl=nccl,
        jobs=jobs_of(lab),
        not_run={test: reason for test, reason in reasons.items() if reason},
    )
    return _within_budget(plan, benchmarks)


def _within_budget(plan: Plan, benchmarks: Benchmarks) -> Plan:
    """The plan, or where the lab leaves that open the one with the most samples that fits."""
    budget_s = benchmarks.budget_s
    if plan.estimate_s <= budget_s:
        return plan
    if benchmarks.verbs.schedule == "auto":
        most = benchmarks.verbs.samples
        candidates = []
        for samples in range(most, 0, -1):
            candidates.append(_scheduled(plan, "sampled", samples))
        for smaller in (*candidates, _scheduled(plan, "ring", 0)):
            if smaller.estimate_s <= budget_s:
                return smaller
    sampled = ", set verbs.schedule to auto"
    if benchmarks.verbs.schedule == "auto":
        sampled = ""
    raise LabError(
        f"benchmarks.budget_s: the plan takes about {plan.estimate_s:.0f} s "
        f"({plan.rounds_in_words}, "
        f"{plural(benchmarks.repeats, 'time')}"
        f"{', and NCCL' if plan.nccl else ''}{', and further jobs' if plan.jobs else ''}); "
        f"{budget_s} s are allowed. "
        "Raise budget_s, or lower repeats or "
        f"verbs.{'iterations' if plan.verbs.duration_s is None else 'duration_s'}"
        f"{sampled}"
    )


def _scheduled(plan: Plan, schedule: Schedule, samples: int) -> Plan:
    verbs = plan.verbs.replace(schedule=schedule, samples=samples)
    return plan.replace(verbs=verbs)


def _rail(lab: Lab, name: str, message_bytes: int) -> PlannedRail:
    rail = lab.rail(name)
    ends, pvrdma = [], False
    for node in lab.active_nodes:
        pf = node.pf_on(name)
        if pf:
            address = pf.address.ip
            end = End(
                node=node.name, device=pf.rdma_device, interface=pf.interface, address=address
            )
            ends.append(end)
            pvrdma = pvrdma or isinstance(node, VsphereVm)
    return PlannedRail(
        name=name,
        mtu_bytes=rail.mtu_bytes,
        path_mtu_bytes=rail.path_mtu_bytes,
        ceiling_ratio=round(goodput_ratio(rail.path_mtu_bytes, message_bytes), 4),
        resource=rail.resource,
        pvrdma=pvrdma,
        ends=tuple(ends),
    )


def _verbs(lab: Lab, benchmarks: Benchmarks, nodes: int) -> VerbsPlan:
    verbs = benchmarks.verbs
    schedule = verbs.schedule
    if schedule == "auto":
        schedule = "pairs" if nodes <= MOST_PAIRED_NODES else "sampled"
    same = VerbsPlan.model_fields.keys() & type(verbs).model_fields.keys()
    settled = {
        "tests": (*verbs.bandwidths, *verbs.latencies),
        "schedule": schedule,
        "samples": verbs.samples if schedule == "sampled" else 0,
        "iterations": verbs.iterations or ITERATIONS,
        "duration_s": verbs.duration_of(simulated=lab.simulated),
        "traffic_class": lab.qos.tos if lab.qos else None,
        "repeats": benchmarks.repeats,
    }
    return VerbsPlan.model_validate({name: getattr(verbs, name) for name in same} | settled)


def _alone(lab: Lab, benchmarks: Benchmarks) -> tuple[str, ...]:
    """A simulated NIC has no limits of its own, and PVRDMA does not write to itself."""
    if lab.simulated or "ib_write_bw" not in benchmarks.verbs.tests:
        return ()
    return tuple(
        node.name for node in lab.active_nodes if node.pfs and not isinstance(node, VsphereVm)
    )


def _gpu_nodes(lab: Lab, benchmarks: Benchmarks) -> tuple[tuple[str, ...], str]:
    """The nodes whose GPU memory is measured, or why that is not done."""
    if lab.simulated:
        return (), "a simulated node has no GPU"
    nodes = [node for node in lab.active_nodes if node.gpus and node.role == "worker"]
    bare_metal = [node for node in nodes if not isinstance(node, VsphereVm)]
    if nodes and not bare_metal:
        return (), "PVRDMA does not read GPU memory"
    if len(bare_metal) < 2:
        return (), f"nodes[].gpus: {len(nodes)} active workers have GPUs, and a transfer needs two"
    if "ib_write_bw" not in benchmarks.verbs.tests:
        why = "ib_write_bw is missing, which measures the host memory to compare with"
        return (), f"benchmarks.verbs.tests: {why}"
    return tuple(node.name for node in bare_metal), ""

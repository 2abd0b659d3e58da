"""What will be measured on a lab, how, in which order and for how long: a pure function of the lab file."""

import hashlib
import json
from collections.abc import Iterator
from ipaddress import IPv4Address

from components.jobs.programs import NcclPlan, all_reduce_job
from components.jobs.text import to_yaml
from components.jobs.workers import Wanted, workers_of
from components.validation.physics.ceilings import goodput_ratio
from components.validation.planning.schedule import Transfer, transfer_rounds
from components.validation.records import Frozen
from stacks.base import LabError
from stacks.benchmarks import Nccl, Verbs
from stacks.lab import Lab

RUN_S = 4.0
"""Around the data of one run: server, rendezvous, memory registration, client."""
HARDWARE_GBIT_S = 22.5
"""Assumed for the estimate only: a 25 Gbit/s NIC, the slowest that is sold for RoCE, at 90 %."""
SIMULATED_GBIT_S = 0.04
"""Soft-RoCE between emulated NICs carries 0.02 to 0.2 Gbit/s."""
JOB_START_S = 45.0
"""Image there already, workers started, SSH up, NCCL initialised."""
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
    path_mtu_bytes: int
    ceiling_ratio: float
    """Goodput over line rate at best; the line rate is read from the ports when it is measured."""
    ends: tuple[End, ...]

    def end(self, node: str) -> End:
        """The PF of a node."""
        return next(end for end in self.ends if end.node == node)


class VerbsPlan(Frozen):
    """perftest between the PFs."""

    test: str
    message_bytes: int
    iterations: int
    queue_pairs: int
    first_port: int
    timeout_s: int
    repeats: int


class Plan(Frozen):
    """The whole plan. Thresholds are no part of it: editing one measures nothing."""

    schema_version: int = 1
    lab: str
    simulated: bool
    verbs: VerbsPlan
    rails: tuple[PlannedRail, ...]
    nccl: NcclPlan | None

    @property
    def rounds(self) -> list[list[Transfer]]:
        """The schedule."""
        ends = {rail.name: tuple(end.node for end in rail.ends) for rail in self.rails}
        return list(transfer_rounds(ends, self.verbs.first_port))

    @property
    def digest(self) -> str:
        """Changes when anything changes that is measured."""
        return hashlib.sha256("\n".join(text for _, text in sorted(self.documents())).encode()).hexdigest()

    @property
    def estimate_s(self) -> float:
        """How long it will take, from assumed speeds."""
        rate = SIMULATED_GBIT_S if self.simulated else HARDWARE_GBIT_S
        data_s = self.verbs.iterations * self.verbs.message_bytes * 8 / 1e9 / rate
        total = len(self.rounds) * self.verbs.repeats * (RUN_S + data_s)
        if self.nccl:
            moved_bytes = 2 * self.nccl.largest_bytes * NCCL_ITERATIONS * 2
            # a simulated node replays a log, so only the job's start takes time
            nccl_s = 0.0 if self.simulated else moved_bytes * 8 / 1e9 / (rate * len(self.nccl.rails))
            total += JOB_START_S + nccl_s
        return total

    def rail(self, name: str) -> PlannedRail:
        """The rail of that name."""
        return next(rail for rail in self.rails if rail.name == name)

    def documents(self) -> Iterator[tuple[str, str]]:
        """The plan as files for a reviewer: what is measured, and the job as it will be created."""
        yield "plan.yaml", to_yaml(json.loads(self.model_dump_json()))
        if self.nccl:
            yield "nccl-all-reduce.yaml", to_yaml(all_reduce_job(self.nccl, self.lab, "run"))


def plan_of(lab: Lab) -> Plan | None:
    """The plan of a lab; None when nothing is to be measured.

    Raises:
        LabError: when it would take longer than the lab allows.
    """
    benchmarks = lab.benchmarks
    if benchmarks is None or benchmarks.mode == "off":
        return None
    plan = Plan(
        lab=lab.name,
        simulated=lab.simulated,
        verbs=_verbs(benchmarks.verbs, benchmarks.repeats),
        rails=tuple(
            PlannedRail(
                name=rail.name,
                path_mtu_bytes=rail.path_mtu_bytes,
                ceiling_ratio=round(goodput_ratio(rail.path_mtu_bytes, benchmarks.verbs.message_bytes), 4),
                ends=tuple(
                    End(node=node.name, device=pf.rdma_device, interface=pf.interface, address=pf.address.ip)
                    for node in lab.active_nodes
                    if (pf := node.pf_on(rail.name))
                ),
            )
            for rail in lab.rails
        ),
        nccl=_nccl(lab, benchmarks.nccl, benchmarks.namespace) if benchmarks.nccl else None,
    )
    if plan.estimate_s > benchmarks.budget_s:
        raise LabError(
            f"benchmarks.budget_s: the plan takes about {plan.estimate_s:.0f} s ({len(plan.rounds)} rounds of "
            f"{plan.verbs.test}, {benchmarks.repeats} times{', and NCCL' if plan.nccl else ''}); "
            f"{benchmarks.budget_s} s are allowed. Raise budget_s, or lower repeats or verbs.iterations"
        )
    return plan


def _verbs(verbs: Verbs, repeats: int) -> VerbsPlan:
    return VerbsPlan(
        test=verbs.tests[0],
        message_bytes=verbs.message_bytes,
        iterations=verbs.iterations,
        queue_pairs=verbs.queue_pairs,
        first_port=verbs.first_port,
        timeout_s=verbs.timeout_s,
        repeats=repeats,
    )


def _nccl(lab: Lab, nccl: Nccl, namespace: str) -> NcclPlan | None:
    """The job over all active nodes that have GPUs; None where no such job can be."""
    try:
        workers = workers_of(lab, Wanted(namespace=namespace, image=nccl.image, timeout_s=nccl.timeout_s))
    except LabError:
        return None  # a lab of one node, or without a cluster, has verbs to measure but no job
    return NcclPlan(**dict(workers), smallest_bytes=nccl.smallest_bytes, largest_bytes=nccl.largest_bytes)

"""The validation of a lab: the plan where a review sees it, the measurement, the verdict, and the gate."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Never, Protocol

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import JsonValue

from components.validation.fingerprint import fingerprint_of, host_state
from components.validation.gate import Gate, GateArgs
from components.validation.judging.verdict import in_part, judge
from components.validation.measurement import Measurement
from components.validation.planning.plan import Plan, plan_of
from components.validation.planning.quarantine import quarantined, without
from components.validation.records import RunRecord
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

OFF: dict[str, JsonValue] = {"schema_version": 2, "function": "skip", "performance": "not rated", "mode": "off"}


NONE: Mapping[str, Never] = MappingProxyType({})


class RunningCluster(Protocol):
    """What validation needs of the cluster's component."""

    provider: kubernetes.Provider
    ready: pulumi.Output[bool]
    faults: pulumi.Output[Mapping[str, list[str]]]
    """What keeps jobs from nodes, pools or networks, by name; empty when nothing does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationArgs:
    """Inputs of `Validation`: the lab, then what hosts and cluster yield."""

    lab: Lab
    host_results: pulumi.Input[Mapping[str, object]]
    """Result of each host; its status is in the fingerprint."""
    host_facts: pulumi.Input[Mapping[str, object]] | None = None
    """What each host tells of itself; machine, boot, kernel and drivers are in the fingerprint."""
    cluster: RunningCluster | None = None


class Validation(pulumi.ComponentResource):
    """Measures the lab when something changed, and judges it at each up."""

    summary: pulumi.Output[Mapping[str, JsonValue]]
    """A `Summary`: the stack output `validation`."""

    def __init__(self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:validation:Validation", name, None, opts)
        plan, benchmarks = _plan(args.lab), args.lab.benchmarks
        if plan is None or benchmarks is None:
            self.summary = pulumi.Output.from_input({**OFF, "lab": args.lab.name})
            self.register_outputs({"summary": self.summary})
            return
        child = pulumi.ResourceOptions(parent=self)
        if args.cluster is not None:
            _place(f"{name}-plan", plan, benchmarks, args.cluster, self)
        ready = args.cluster.ready if args.cluster else True
        # the cluster's readiness orders the measurement behind it; what it is does not count
        state = pulumi.Output.all(args.host_results, args.host_facts or {}, ready).apply(
            lambda known: host_state(known[0], known[1])
        )
        results = pulumi.Output.from_input(args.host_results)
        left_out = results.apply(lambda known: sorted(quarantined(plan, known)))
        fingerprint = state.apply(lambda text: fingerprint_of(plan, text))
        measurement = Measurement(f"{name}-measurement", plan, fingerprint, left_out, child)
        # the faults are known before anything is measured, and stand beside what came of it
        faults: pulumi.Input[Mapping[str, list[str]]] = args.cluster.faults if args.cluster else {}
        self.summary = pulumi.Output.all(measurement.record, faults, results).apply(
            lambda known: summarise(plan, benchmarks, known[0], known[1], quarantined(plan, known[2]))
        )
        Gate(f"{name}-gate", GateArgs(mode=benchmarks.mode, verdict=self.summary), child)
        self.register_outputs({"summary": self.summary})


def summarise(
    plan: Plan,
    benchmarks: Benchmarks,
    record: str,
    faults: Mapping[str, list[str]] = NONE,
    excluded: Mapping[str, str] = NONE,
) -> Mapping[str, JsonValue]:
    """The verdict over a record and over the cluster that it was measured in, as plain values.

    What a cluster says of a host that is not ready follows from that, and is no second fault.
    """
    reasons = [f"{name}: {'; '.join(found)}" for name, found in faults.items() if name not in excluded]
    judged = judge(without(plan, excluded), benchmarks, RunRecord.model_validate_json(record), reasons)
    return in_part(judged, excluded).model_dump(mode="json")


def _place(
    name: str, plan: Plan, benchmarks: Benchmarks, cluster: RunningCluster, parent: pulumi.Resource
) -> kubernetes.core.v1.ConfigMap:
    """The plan as a ConfigMap: a preview shows what a change of the lab does to it."""
    return kubernetes.core.v1.ConfigMap(
        name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(
            name="rocelab-plan",
            # the namespace is there when the cluster is
            namespace=cluster.ready.apply(lambda _: benchmarks.namespace),
            annotations={
                "rocelab.dev/plan": plan.digest,
                "rocelab.dev/estimate-s": f"{plan.estimate_s:.0f}",
                # one manager for ever: a run that was killed may have to create it a second time
                "pulumi.com/patchFieldManager": f"rocelab-{plan.lab}",
            },
        ),
        data=dict(plan.documents()),
        opts=pulumi.ResourceOptions(parent=parent, provider=cluster.provider),
    )


def _plan(lab: Lab) -> Plan | None:
    try:
        return plan_of(lab)
    except LabError as error:
        raise pulumi.RunError(str(error)) from None

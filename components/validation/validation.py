"""The validation of a lab: the plan where a review sees it, the measurement, the verdict, and the gate."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import JsonValue

from components.validation.fingerprint import fingerprint_of, host_state, packed, unpacked
from components.validation.gate import Gate, GateArgs
from components.validation.judging.stale import changed_since, made_stale
from components.validation.judging.verdict import Beside, in_part, judge
from components.validation.measurement import Measurement, MeasurementArgs
from components.validation.memory.history import history_in
from components.validation.output import output_of
from components.validation.planning.plan import Plan, plan_of
from components.validation.planning.quarantine import quarantined, without
from components.validation.planning.topology import leaves_of
from components.validation.records import RunRecord
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab

OFF: dict[str, JsonValue] = {"schema_version": 2, "function": "skip", "performance": "not rated", "mode": "off"}


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
        args_of = MeasurementArgs(
            plan=plan,
            fingerprint=state.apply(lambda text: fingerprint_of(plan, text)),
            left_out=left_out,
            measured_on=state.apply(packed),
            rerun=benchmarks.rerun,
        )
        measurement = Measurement(f"{name}-measurement", args_of, child)
        found = pulumi.Output.all(
            record=measurement.record,
            plan=measurement.plan,
            history=measurement.history,
            measured_on=measurement.measured_on,
            state=state,
            # the faults are known before anything is measured, and stand beside what came of it
            faults=args.cluster.faults if args.cluster else {},
            excluded=results.apply(lambda known: quarantined(plan, known)),
        )
        topology = leaves_of(args.lab)
        self.summary = found.apply(lambda known: summarise(plan, benchmarks, Found.of(known, topology)))
        Gate(f"{name}-gate", GateArgs(mode=benchmarks.mode, verdict=self.summary), child)
        self.register_outputs({"summary": self.summary})


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a measurement left, and what is known of the lab beside it."""

    record: str
    """The compact record as JSON."""
    measured_plan: str
    """The plan that was carried out, as JSON."""
    history: str
    """A `History` as JSON."""
    measured_on: str
    """The hosts as they were measured."""
    state: str
    """The hosts as they are."""
    faults: Mapping[str, list[str]] = field(default_factory=dict)
    """Of the cluster, by node, pool or network."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Hosts that took no part, each with the reason."""
    topology: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Leaf switch by (node, rail)."""

    @classmethod
    def of(cls, known: Mapping[str, object], topology: Mapping[tuple[str, str], str]) -> "Found":
        """From the resolved outputs."""
        faults, excluded = known["faults"], known["excluded"]
        return cls(
            record=str(known["record"]),
            measured_plan=str(known["plan"]),
            history=str(known["history"]),
            measured_on=unpacked(str(known["measured_on"])),
            state=str(known["state"]),
            faults=faults if isinstance(faults, Mapping) else {},
            excluded=excluded if isinstance(excluded, Mapping) else {},
            topology=topology,
        )


def summarise(plan: Plan, benchmarks: Benchmarks, found: Found) -> Mapping[str, JsonValue]:
    """The verdict over a record and over the cluster that it was measured in, as plain values.

    What a cluster says of a host that is not ready follows from that, and is no second fault. A record of another plan
    is judged by that plan, and is stale.
    """
    carried_out = Plan.model_validate_json(found.measured_plan)
    reasons = [f"{name}: {'; '.join(texts)}" for name, texts in found.faults.items() if name not in found.excluded]
    beside = Beside(faults=reasons, history=history_in(found.history), topology=found.topology)
    record = RunRecord.model_validate_json(found.record)
    judged = in_part(judge(without(carried_out, found.excluded), benchmarks, record, beside), found.excluded)
    changes = changed_since(found.measured_on, found.state, plan_changed=carried_out.digest != plan.digest)
    return output_of(made_stale(judged, changes))


def _place(
    name: str, plan: Plan, benchmarks: Benchmarks, cluster: RunningCluster, parent: pulumi.Resource
) -> pulumi.CustomResource:
    """The plan as a ConfigMap: a preview shows what a change of the lab does to it."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "rocelab-plan",
            # the namespace is there when the cluster is
            "namespace": cluster.ready.apply(lambda _: benchmarks.namespace),
            "annotations": {
                "rocelab.dev/plan": plan.digest,
                "rocelab.dev/estimate-s": f"{plan.estimate_s:.0f}",
                # one manager for ever: a run that was killed may have to create it a second time
                "pulumi.com/patchFieldManager": f"rocelab-{plan.lab}",
            },
        },
        "data": dict(plan.documents()),
    }
    # the SDK's own class is one of a module that takes half a second to import, at every preview
    opts = pulumi.ResourceOptions(parent=parent, provider=cluster.provider)
    return pulumi.CustomResource("kubernetes:core/v1:ConfigMap", name, document, opts)


def _plan(lab: Lab) -> Plan | None:
    try:
        return plan_of(lab)
    except LabError as error:
        raise pulumi.RunError(str(error)) from None

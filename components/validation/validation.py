"""The validation of a lab: the plan where a review sees it, the measurement, the verdict, and the
gate.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import JsonValue

from components.provider.program import Declaration
from components.validation.benchmarks.part import quarantined
from components.validation.benchmarks.plan import Plan, plan_of
from components.validation.gate import Gate
from components.validation.measurement import Measurement
from components.validation.output import output_of
from components.validation.stale import (
    HostStates,
    changed_since,
    fingerprint_of,
    host_states,
    made_stale,
)
from components.validation.summary import Summary
from components.validation.verdict import in_cluster, verdict_by
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.frozen import frozen
from stacks.lab import Lab

OFF: dict[str, JsonValue] = {
    "schema_version": 2,
    "function": "skip",
    "performance": "not rated",
    "mode": "off",
}


class RunningCluster(Protocol):
    """The outputs of the cluster's component that validation uses."""

    provider: kubernetes.Provider
    ready: pulumi.Output[bool]
    faults: pulumi.Output[Mapping[str, list[str]]]
    """What keeps jobs from nodes, pools or networks, by name."""


@frozen
class ValidationArgs:
    """Inputs of `Validation`: the lab, then what hosts and cluster yield."""

    lab: Lab
    host_results: pulumi.Input[Mapping[str, object]]
    """Result of each host; its status is in the fingerprint."""
    host_facts: pulumi.Input[Mapping[str, object]] | None = None
    """Facts of each host, of which some are in the fingerprint."""
    cluster: RunningCluster | None = None


class Validation(pulumi.ComponentResource):
    """Measures the lab when something changed, and judges it at each up."""

    summary: pulumi.Output[Mapping[str, JsonValue]]

    def __init__(
        self, name: str, args: ValidationArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:validation:Validation", name, None, opts)
        plan, benchmarks = _plan(args.lab), args.lab.benchmarks
        if plan is None or benchmarks is None:
            self.summary = pulumi.Output.from_input({**OFF, "lab": args.lab.name})
            self.register_outputs({"summary": self.summary})
            return
        child = pulumi.ResourceOptions(parent=self)
        ready: pulumi.Input[bool] = True
        faults: pulumi.Input[Mapping[str, list[str]]] = {}
        if args.cluster is not None:
            _place(f"{name}-plan", plan, benchmarks, args.cluster, self)
            ready, faults = args.cluster.ready, args.cluster.faults
        # the cluster's readiness orders the measurement behind it; what it is does not count
        hosts = pulumi.Output.all(args.host_results, args.host_facts or {}, ready).apply(
            lambda known: host_states(known[0], known[1])
        )
        measurement = Declaration(
            Measurement,
            f"{name}-measurement",
            {
                "plan_digest": plan.digest,
                "fingerprint": hosts.apply(lambda states: fingerprint_of(plan, states)),
                "hosts": hosts,
                "rerun": benchmarks.rerun,
            },
            child,
        )
        measured = pulumi.Output.all(
            verdict=measurement.verdict,
            plan_digest=measurement.plan_digest,
            hosts=measurement.hosts,
            hosts_now=hosts,
            # the faults are known before the measurement, and join its verdict
            faults=faults,
            results=args.host_results,
        )
        self.summary = measured.apply(lambda known: summarise(args.lab, plan, MeasuredLab(**known)))
        axes: dict[str, pulumi.Input[object]] = {"mode": benchmarks.mode}
        for axis in ("function", "performance", "reasons"):
            axes[axis] = self.summary[axis]
        Declaration(Gate, f"{name}-gate", axes, child)
        self.register_outputs({"summary": self.summary})


@frozen
class MeasuredLab:
    """The outputs of a measurement, and the lab's current state."""

    verdict: Mapping[str, JsonValue]
    plan_digest: str
    hosts: HostStates
    """At the time of the measurement."""
    hosts_now: HostStates
    faults: Mapping[str, list[str]]
    results: Mapping[str, object]


def summarise(lab: Lab, plan: Plan, measured: MeasuredLab) -> Mapping[str, JsonValue]:
    """The verdict over a run and over the cluster that it was measured in, as plain values.

    What a cluster says of a host that is not ready follows from that, and is no second fault. A run
    of another plan is judged by that plan, and is stale.
    """
    judged = verdict_by(lab, Summary.model_validate(measured.verdict), Path.cwd())
    left_out = quarantined(plan, measured.results)
    faults = []
    for name, texts in measured.faults.items():
        if name not in left_out:
            faults.append(f"{name}: {'; '.join(texts)}")
    plan_changed = measured.plan_digest != plan.digest
    changes = changed_since(measured.hosts, measured.hosts_now, plan_changed=plan_changed)
    return output_of(made_stale(in_cluster(judged, faults, left_out), changes))


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

"""Runs over PVRDMA, with what the HCAs of both ends counted."""

from collections.abc import Sequence

from components.validation.benchmarks.plan import Plan
from components.validation.records import HcaCount, RunRecord
from stacks.lab import Lab
from tests.components.validation.labs import plan_for, record, reduced

WRITTEN = 5000 * 65_536


def counted(sent: float | None, received: float | None) -> tuple[HcaCount, HcaCount]:
    """Shares of what was written that the HCAs of both ends counted; None: nobody could read it."""

    def end(machine: str, way: str, share: float | None) -> HcaCount:
        if share is None:
            return HcaCount.model_validate({"machine": machine, "way": way, "why": "no such command"})
        told = {"written_bytes": WRITTEN, "counted_bytes": round(share * WRITTEN)}
        return HcaCount.model_validate({"machine": machine, "way": way, "hca": f"esx-{machine} vmrdma0", **told})

    return end("gpu01", "sent", sent), end("gpu02", "received", received)


def over_pvrdma(lab: Lab) -> Plan:
    plan = plan_for(lab)
    return plan.model_copy(update={"rails": tuple(r.model_copy(update={"pvrdma": True}) for r in plan.rails)})


def watched(plan: Plan, counts: Sequence[HcaCount], first: Sequence[HcaCount] | None = None) -> RunRecord:
    """A run whose bandwidths all have these counts; the first one of rail-a others, if they are given."""
    run = record(plan, gbit_s=90.0, nccl=reduced(22.0), latency_us=9.0)
    transfers = [
        t.model_copy(update={"hcas": tuple(counts)}) if (t.unit, t.shape) == ("Gbit/s", "one_way") else t
        for t in run.transfers
    ]
    if first is not None:
        number = next(n for n, t in enumerate(transfers) if t.rail == "rail-a" and t.hcas)
        transfers[number] = transfers[number].model_copy(update={"hcas": tuple(first)})
    return run.model_copy(update={"transfers": tuple(transfers)})

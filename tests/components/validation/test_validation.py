"""Validation under the recording engine: what it registers, in which order, and what it says."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.validation.benchmarks.part import quarantined, without
from components.validation.store import RunDocument
from components.validation.validation import Validation, ValidationArgs
from components.validation.verdict import verdict_on
from stacks.lab import Lab
from tests.components.validation.labs import changed, plan_for, record, reduced, with_nodes
from tests.conftest import ROOT
from tests.engine import Engine, Recorded
from tests.messages import states

MEASUREMENT = "rocelab:validation:Measurement"
GATE = "rocelab:validation:Gate"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
RESULTS = {"gpu01": {"status": "ready"}, "gpu02": {"status": "ready"}}


class Cluster:
    """As much of the cluster's component as validation asks for."""

    def __init__(self, faults: Mapping[str, list[str]]) -> None:
        self.provider = kubernetes.Provider("cluster-provider", kubeconfig="{}")
        self.ready = self.provider.id.apply(lambda _: True)
        self.faults = self.ready.apply(lambda _: dict(faults))


def built(
    lab: Lab,
    *,
    cluster: bool = True,
    gbit_s: float = 0.04,
    faults: Mapping[str, list[str]] = MappingProxyType({}),
    results: Mapping[str, Mapping[str, str]] = RESULTS,
    kept: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Recorded, dict[str, Any]]:
    said: dict[str, Any] = {}
    plan = without(plan_for(lab), quarantined(plan_for(lab), results)) if plan_wanted(lab) else None
    measured = {}
    if plan and lab.benchmarks:
        run = RunDocument(plan=plan, rails=(), record=record(plan, gbit_s, nccl=reduced(replayed=True)))
        measured = verdict_on(run, lab.benchmarks).model_dump(mode="json", exclude_defaults=True)

    def answer(type_: str, _name: str, _inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"verdict": measured, "settled": True, **kept} if type_ == MEASUREMENT else {}

    def program() -> None:
        args = ValidationArgs(
            lab=lab,
            host_results=pulumi.Output.from_input(results),
            host_facts=pulumi.Output.from_input({"gpu01": {"boot_id": "b"}}),
            cluster=Cluster(faults) if cluster else None,
        )
        Validation("validation", args).summary.apply(said.update)

    return Engine(answer).run(program), said


def plan_wanted(lab: Lab) -> bool:
    return lab.benchmarks is not None and lab.benchmarks.mode != "off"


def test_the_names_of_its_resources_are_kept_for_ever(lab: Lab) -> None:
    seen, _ = built(lab)

    assert {name: r.type for name, r in seen.resources.items() if name.startswith("validation")} == {
        "validation": "rocelab:validation:Validation",
        "validation-plan": CONFIG_MAP,
        "validation-measurement": MEASUREMENT,
        "validation-gate": GATE,
    }
    assert all(seen[name].parent == "validation" for name in seen.resources if name.startswith("validation-"))


def test_the_measurement_waits_for_the_cluster_and_the_gate_for_the_verdict(lab: Lab) -> None:
    seen, _ = built(lab)

    assert "cluster-provider" in seen["validation-measurement"].depends_on
    assert "validation-measurement" in seen["validation-gate"].depends_on


def test_the_plan_is_in_the_cluster_where_a_review_sees_it(lab: Lab) -> None:
    seen, _ = built(lab)
    plan = seen["validation-plan"].inputs

    assert plan["data"] == dict(plan_for(lab).documents())
    assert (plan["metadata"]["namespace"], plan["metadata"]["annotations"]["rocelab.dev/plan"]) == (
        "rocelab-bench",
        plan_for(lab).digest,
    )


def test_a_lab_without_a_cluster_is_measured_without_one(lab: Lab) -> None:
    seen, said = built(lab.model_copy(update={"cluster": None}), cluster=False)

    assert seen.of_type(CONFIG_MAP) == {}
    functions = {test["test"]: test["function"] for test in said["tests"]}
    unable = {"gpu_memory": "not run", "nccl_all_reduce": "not run"}
    assert functions == {"ib_write_bw": "pass", "ib_write_lat": "pass", **unable}


def test_no_input_holds_a_secret_or_a_path_of_this_machine(lab: Lab) -> None:
    seen, _ = built(lab)
    inputs = {key: value for key, value in seen["validation-measurement"].inputs.items() if key != "__provider"}

    assert set(inputs) <= {"plan_digest", "fingerprint", "hosts", "rerun"}
    assert str(ROOT) not in json.dumps(inputs), "another checkout of the stack would measure again"


def test_the_verdict_is_the_output_typed_and_small(lab: Lab) -> None:
    _, said = built(lab)

    assert (said["function"], said["performance"], said["performance_because"]) == ("pass", "not rated", "simulated")
    assert said["schema_version"] == 2
    assert len(json.dumps(said)) < 4_000


def test_a_node_at_fault_fails_the_function_axis_whatever_was_measured(lab: Lab) -> None:
    faults = ["offers 3 intel.com/sriov_111, expected 4", "cordoned"]
    _, said = built(lab, faults={"gpu02": faults})

    assert said["function"] == "fail"
    assert states(said["reasons"][0], "gpu02", *faults)


FAILED = {"status": "failed", "step": "vfs", "reason": "VF 1 is in use", "hint": "drain the node"}


def test_a_host_that_failed_leaves_the_others_their_measurement_and_a_partial_verdict(lab: Lab) -> None:
    four = with_nodes(lab, 4)
    results = {f"gpu0{n}": {"status": "ready"} for n in (1, 2, 4)} | {"gpu03": FAILED}

    # the cluster misses that host's VFs too, which is the same fault once more
    seen, said = built(four, results=results, faults={"gpu03": ["offers 0 intel.com/sriov_111, expected 4"]})

    assert seen["validation-measurement"].inputs["hosts"]["gpu03"] == {"status": "failed"}
    assert said["function"] == "partial"
    assert list(said["quarantined"]) == ["gpu03"]
    assert states(said["quarantined"]["gpu03"], *FAILED.values())
    [reason] = said["reasons"]
    assert states(reason, "gpu03", "quarantined", *FAILED.values())
    rails = [test for test in said["tests"] if test.get("rail") and test.get("shape", "one_way") == "one_way"]
    assert {test["measured"] for test in rails} == {6}, "three hosts, both directions"


def test_two_hosts_of_which_one_failed_prove_nothing_and_are_no_pass(lab: Lab) -> None:
    seen, said = built(lab, results=RESULTS | {"gpu02": FAILED})

    assert said["function"] == "partial"
    assert seen["validation-gate"].inputs["function"] == "partial"


def test_the_gate_gets_the_mode_and_both_axes(lab: Lab) -> None:
    seen, _ = built(lab)
    inputs = {key: value for key, value in seen["validation-gate"].inputs.items() if key != "__provider"}

    assert inputs == {"mode": "enforce", "function": "pass", "performance": "not rated", "reasons": []}


@pytest.mark.parametrize("mode", ["off", None])
def test_benchmarks_that_are_off_place_nothing_and_are_no_pass(lab: Lab, mode: str | None) -> None:
    seen, said = built(changed(lab, mode=mode) if mode else lab.model_copy(update={"benchmarks": None}))

    assert set(seen.resources) == {"validation", "cluster-provider"}
    assert said["function"] == "skip"


def test_a_plan_over_its_budget_stops_the_program_with_the_remedy(lab: Lab) -> None:
    args = ValidationArgs(lab=changed(lab, budget_s=30), host_results=RESULTS)

    with pytest.raises(BaseException, match=r"benchmarks\.budget_s.*\b30 s\b"):
        Engine().run(lambda: Validation("validation", args))

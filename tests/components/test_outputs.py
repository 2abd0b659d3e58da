"""Stack outputs of a large lab: small, with what is wrong in them, and complete for a small one."""

import base64
import json

import pytest

from components.fabric.fabric import fabric_outline
from components.finding import Finding
from components.outputs import few_faults, outline
from components.validation.output import LARGEST_BYTES, output_of
from components.validation.records import TransferResult
from components.validation.stale import made_stale
from components.validation.summary import Regression, Summary
from components.validation.verdict import in_cluster, judge
from stacks.lab import Lab
from tests.components.validation.labs import hardware, plan_for, record, reduced, with_nodes

LARGEST_OUTPUTS_BYTES = 16_384
READY = {"status": "ready"}
FAILED = {"status": "failed", "step": "vfs", "reason": "VF 3 of enp5s0 is in use by a pod " * 9, "hint": "drain " * 30}


def results(count: int, *bad: int) -> dict[str, dict[str, str]]:
    return {f"gpu{n:03}": FAILED if n in bad else READY for n in range(count)}


def test_a_small_lab_s_hosts_are_all_there() -> None:
    assert outline(results(16, 3)) == results(16, 3)


def test_of_many_hosts_those_that_are_not_ready_are_named_and_the_others_counted() -> None:
    shown = outline(results(256, 7, 9))

    assert set(shown) == {"gpu007", "gpu009", "..."}
    assert shown["..."] == {"status": "254 more ready"}
    assert shown["gpu007"]["step"] == "vfs"


def test_where_all_are_at_fault_the_first_ones_are_named() -> None:
    shown = outline(results(256, *range(256)))

    assert len(json.dumps(shown)) <= 3_000
    assert shown["..."]["status"].endswith("more failed")
    assert int(shown["..."]["status"].split()[0]) + len(shown) - 1 == 256


def test_faults_of_the_cluster_are_cut_in_the_same_way() -> None:
    few = {"gpu001": ["offers 0 intel.com/sriov_111, expected 4", "cordoned"]}
    many = {f"gpu{n:03}": ["offers 0 intel.com/sriov_111, expected 4"] * 4 for n in range(256)}

    assert few_faults(few) == few
    assert len(json.dumps(few_faults(many))) <= 1_500
    assert "..." in few_faults(many)


def worst(lab: Lab, nodes: int, rails: int) -> Summary:
    """A verdict in which everything is at fault, quarantined, stale, slower than before, and long."""
    first = lab.rails[0]
    more = tuple(first.model_copy(update={"name": f"rail-with-a-long-name-{n}"}) for n in range(rails))
    pf = lab.nodes[0].pfs[0]
    pfs = tuple(pf.model_copy(update={"rail": rail.name}) for rail in more)
    node = lab.nodes[0].model_copy(update={"pfs": pfs})
    real = with_nodes(hardware(lab).model_copy(update={"rails": more, "nodes": (node,)}), nodes)
    assert real.benchmarks
    plan = plan_for(real)
    reason = "the queue pair went into error: transport retry counter exceeded " * 5
    down = [
        TransferResult(
            test=stage.test,
            shape=stage.shape,
            rail=t.rail,
            client=t.client,
            server=t.server,
            outcome="failed",
            reasons=(f"{t.client}: {reason}",),
        )
        for stage in plan.stages
        for transfers in plan.rounds_of(stage)
        for t in transfers
    ]
    run = record(plan, also=down, nccl=reduced(3.0))
    summary = judge(plan, real.benchmarks, run).verdict()
    faults = [f"gpu{n}: cordoned {reason}" for n in range(256)]
    summary = in_cluster(summary, faults, {f"gpu{n:03}": f"failed: vfs; {reason}" for n in range(nodes)})
    findings = tuple(
        Finding(code=f"NODE_SLOW_{n}", where=f"gpu{n:03}", evidence=reason, hint=reason * 2) for n in range(8)
    )
    compared = Regression(baseline_run="20261121-060000-abcd", verdict="worse", reasons=(reason,) * 6)
    return made_stale(
        summary.model_copy(update={"findings": findings, "regression": compared}),
        tuple(f"gpu{n}: boot" for n in range(7)),
    )


@pytest.mark.whole
def test_the_verdict_over_256_nodes_at_fault_stays_within_its_half_and_is_still_a_verdict(lab: Lab) -> None:
    shown = output_of(worst(lab, 256, 8))

    assert len(json.dumps(shown)) <= LARGEST_BYTES
    read = Summary.model_validate_json(json.dumps(shown), strict=True)
    assert (read.function, read.stale != ()) == ("fail", True)
    assert read.tests
    assert read.findings


def test_a_small_verdict_is_complete(lab: Lab) -> None:
    real = hardware(lab)
    assert real.benchmarks
    summary = judge(plan_for(real), real.benchmarks, record(plan_for(real), 92.40, nccl=reduced(22.92))).verdict()

    assert Summary.model_validate_json(json.dumps(output_of(summary)), strict=True) == summary


@pytest.mark.whole
def test_all_outputs_of_a_lab_of_256_nodes_stay_within_16_kb_although_everything_is_at_fault(lab: Lab) -> None:
    faults = {f"gpu{n:03}": ["offers 0 intel.com/sriov_111, expected 4"] * 4 for n in range(256)}
    attachments = {
        rail.name: {"resource": "intel.com/sriov_111", "network": "x" * 40, "mtu_bytes": 9000} for rail in lab.rails
    }
    hosts = {f"esx{n:03}.site.example": "ESXi 8.0.2 build 22380479, vmnic4 nmlx5_core" for n in range(256)}
    outputs = {
        "fabric": fabric_outline(
            hosts, dict.fromkeys(hosts, "vmk3"), dict.fromkeys(faults, "esx001"), ["odd " * 99] * 9
        ),
        "lab": {"name": "lab", "kind": "hardware", "simulated": False},
        "hosts": outline(results(256, *range(256))),
        "cluster": {"faults": few_faults(faults)},
        "attachments": attachments,
        "validation": output_of(worst(lab, 256, 2)),
        # a certificate authority, a client certificate and a key, each about a kilobyte of base64
        "kubeconfig": base64.b64encode(b"k" * 2_000).decode(),
    }

    assert len(json.dumps(outputs)) <= LARGEST_OUTPUTS_BYTES

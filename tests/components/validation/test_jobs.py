"""Seed A's job in v2beta1: what it asks for comes from the rails, and what kept such jobs from working is set."""

import re

import yaml

from components.validation.jobs import job_name
from stacks.lab import Lab
from tests.components.validation.labs import plan_for, with_nodes


def test_seed_a_s_job_takes_annotation_and_limits_from_the_same_rails(lab: Lab) -> None:
    job = yaml.safe_load(dict(plan_for(lab).documents())["nccl-all-reduce.yaml"])
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    container = worker["template"]["spec"]["containers"][0]

    assert worker["template"]["metadata"]["annotations"] == {
        "k8s.v1.cni.cncf.io/networks": "default/sriov111,default/sriov112"
    }
    assert container["resources"]["limits"] == {
        "intel.com/sriov_111": "1",
        "intel.com/sriov_112": "1",
        "nvidia.com/gpu": "8",
    }
    assert (job["apiVersion"], job["spec"]["slotsPerWorker"], worker["replicas"]) == ("kubeflow.org/v2beta1", 8, 2)
    assert container["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}, "never privileged"
    assert "-np 16 " in " ".join(
        job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
    )


def test_a_rail_without_vfs_is_left_out_of_the_job(lab: Lab) -> None:
    nodes = tuple(
        node.model_copy(update={"pfs": (node.pfs[0], node.pfs[1].model_copy(update={"vfs": 0}))}) for node in lab.nodes
    )
    nccl = plan_for(lab.model_copy(update={"nodes": nodes})).nccl

    assert nccl
    assert (nccl.networks, nccl.resources) == (("default/sriov111",), ("intel.com/sriov_111",))


def test_workers_are_taken_away_at_the_end_and_the_launcher_s_log_stays(lab: Lab) -> None:
    policy = yaml.safe_load(dict(plan_for(lab).documents())["nccl-all-reduce.yaml"])["spec"]["runPolicy"]

    assert (policy["cleanPodPolicy"], policy["backoffLimit"]) == ("Running", 0)
    assert "ttlSecondsAfterFinished" not in policy, "it would delete the log before it is read"


def test_ranks_get_the_variables_that_sshd_would_lose_and_nccl_cannot_fall_back(lab: Lab) -> None:
    job = yaml.safe_load(dict(plan_for(lab).documents())["nccl-all-reduce.yaml"])
    args = " ".join(job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"])

    for words in ("-x NCCL_NET=IB", "-x NCCL_DEBUG=INFO", "-x NCCL_DEBUG_SUBSYS=INIT,NET", "-x NCCL_ALGO=Ring"):
        assert words in args


def test_the_job_s_pods_have_names_that_dns_takes_even_with_ten_thousand_workers() -> None:
    name = job_name("20261121-063523-8f8d")

    assert re.fullmatch(r"[a-z][-a-z0-9]*[a-z0-9]", name)
    assert len(f"{name}-worker-9999") <= 63


def test_the_workers_lie_on_the_lab_s_nodes_and_one_on_each(lab: Lab) -> None:
    job = yaml.safe_load(dict(plan_for(with_nodes(lab, 3)).documents())["nccl-all-reduce.yaml"])
    worker = job["spec"]["mpiReplicaSpecs"]["Worker"]
    affinity = worker["template"]["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert worker["replicas"] == 3
    assert terms[0]["matchExpressions"][0]["values"] == ["gpu01", "gpu02", "gpu03"]
    apart = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart[0]["topologyKey"] == "kubernetes.io/hostname"

"""The vSphere RDG's lab: its file loads, holds the guide's values, and previews without vCenter, hosts or VMs."""

import json
import re
from itertools import pairwise

import pytest

from components.hosts.document import host_document
from components.ports.matrix import port_matrix
from components.validation.benchmarks.jobs.plan import job_of
from components.validation.benchmarks.plan import plan_of
from stacks.lab import Lab
from stacks.nodes import VsphereVm
from stacks.read import read_stack_file
from stacks.schema import SCHEMA_FILE
from tests.components.cluster.conftest import without_upstream
from tests.conftest import ROOT
from tests.engine import Recorded
from tests.examples.previewed import deviations, no_secret_in, previewed, same_inputs, same_names
from tests.stacks.lab_schema import schema_fault

FOLDER = ROOT / "examples" / "rdg"
FILE = FOLDER / "Pulumi.rdg.yaml"


@pytest.fixture(scope="module")
def rdg() -> Lab:
    return read_stack_file(FILE)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    with without_upstream(), pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path_factory.mktemp("rdg"))
        return previewed(FILE)


def test_it_previews_offline_with_the_golden_names(program: Recorded) -> None:
    assert same_names(program, "rdg")


@pytest.mark.row("B 132")
def test_a_worker_is_given_the_golden_values(program: Recorded) -> None:
    worker = "sckubw01"
    names = [f"fabric-machines-{worker}", f"fabric-machines-{worker}-hardware", f"hosts-{worker}"]

    assert same_inputs(program, "rdg", names)


def test_neither_password_nor_token_is_in_an_input(program: Recorded) -> None:
    assert no_secret_in(program, FILE)


def test_the_addresses_are_the_guide_s(rdg: Lab) -> None:
    workers = [node for node in rdg.nodes if node.role == "worker"]

    assert [str(node.pfs[0].address) for node in workers] == [f"192.168.0.5{n}/24" for n in (1, 2, 3, 4)]
    assert [node.name for node in rdg.nodes] == ["sckubm01", "sckubw01", "sckubw02", "sckubw03", "sckubw04"]
    assert rdg.nodes[0].pfs == (), "the master has no high-speed NIC"
    assert rdg.fabric
    hosts = rdg.fabric.switches[0].hosts
    assert [(host.name, str(host.vmkernel.address)) for host in hosts if host.vmkernel] == [
        (f"sc2esx2{n}", f"192.168.0.2{n}/24") for n in (4, 5, 6, 7)
    ]
    assert (rdg.fabric.vcenter, rdg.fabric.switches[0].version) == ("sc2vc03", "6.6.0")


@pytest.mark.row("B 324-346")
def test_the_sizes_are_the_guide_s(rdg: Lab) -> None:
    sizes = {
        (node.role, node.machine.cpus, node.machine.memory_mbytes, node.machine.disk_gbytes)
        for node in rdg.nodes
        if isinstance(node, VsphereVm)
    }

    assert sizes == {("control_plane", 4, 16384, 50), ("worker", 4, 24576, 50)}
    assert all(node.vgpu and node.gpus == 1 for node in rdg.nodes[1:] if isinstance(node, VsphereVm))


def test_each_worker_keeps_its_address_and_asks_for_its_licence(rdg: Lab) -> None:
    master, *workers = [host_document(rdg, node) for node in rdg.nodes]

    assert "licence" not in master
    for document in workers:
        assert document["licence"] == {
            "kind": "nls", "server": "licence.site.example", "settings": {"FeatureType": "1"}
        }  # fmt: skip
    peers = [document["guest_network"]["peers"]["ens224f0"] for document in workers]  # type: ignore[index, call-overload]
    assert peers == ["192.168.0.52", "192.168.0.53", "192.168.0.54", "192.168.0.51"]


def test_the_workers_get_what_measures_and_speaks_rdma(rdg: Lab) -> None:
    for node in rdg.nodes[1:]:
        packages = host_document(rdg, node)["packages"]
        assert isinstance(packages, dict)
        assert all({"perftest", "rdma-core", "infiniband-diags"} <= set(names) for names in packages.values())  # type: ignore[arg-type]  # lists of names


@pytest.mark.row("B 440-448", "B 481")
@pytest.mark.parametrize(("transport", "disabled", "threads"), [("roce", "0", "1"), ("tcp", "1", "0")])
def test_the_job_is_the_guide_s_in_both_variants(rdg: Lab, transport: str, disabled: str, threads: str) -> None:
    job = job_of(rdg, "tf_cnn", transport)  # type: ignore[arg-type]  # one of them
    text = json.dumps(job)
    spec = job["spec"]
    mpirun = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    passed_on = {name for option, name in pairwise(mpirun["args"]) if option == "-x"}

    assert (spec["slotsPerWorker"], spec["runPolicy"]["cleanPodPolicy"]) == (1, "Running")
    assert [replicas["replicas"] for replicas in spec["mpiReplicaSpecs"].values()] == [1, 4]
    assert mpirun["command"] == ["mpirun"]
    assert ("--bind-to", "none") in pairwise(mpirun["args"])
    assert {"NCCL_DEBUG=INFO", "LD_LIBRARY_PATH", "PATH"} <= passed_on
    assert "--variable_update=horovod" in mpirun["args"]

    for option in ("--model=resnet50", "--batch_size=32", "--use_fp16", "--xla=True", "--num_batches=10000"):
        assert option in text
    assert '"-np", "4"' in text
    assert f"NCCL_IB_DISABLE={disabled}" in text
    assert f"HOROVOD_MPI_THREADS_DISABLE={threads}" in text
    assert ("NCCL_NET_GDR_LEVEL=LOC" in text) is (transport == "roce")
    assert ('"rdma/pvrdma": "1"' in text) is (transport == "roce")
    assert "privileged" not in text


@pytest.mark.row("B 494-498")
def test_the_guide_s_own_result_is_the_lab_s_benchmark(rdg: Lab) -> None:
    """Lines 494-498: training over RoCE against training over TCP, on all four workers."""
    plan = plan_of(rdg)

    assert plan
    assert {(job.program, job.transport, job.impossible) for job in plan.jobs} == {
        ("tf_cnn", "tcp", ""),
        ("tf_cnn", "roce", ""),
    }
    assert all(job.workers and len(job.workers.nodes) == 4 for job in plan.jobs)
    assert rdg.benchmarks
    assert plan.estimate_s < rdg.benchmarks.budget_s


def test_the_ports_of_the_guide_are_in_its_matrix(rdg: Lab) -> None:
    ways = {(row.source, row.target, row.ports) for row in port_matrix(rdg)}

    assert {("node", "control_plane", "6443"), ("esxi", "esxi", "28250-28761"), ("worker", "licence", "443")} <= ways


def test_it_follows_the_schema_that_it_names() -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)", FILE.read_text())

    assert named
    assert (FOLDER / named[1]).resolve() == SCHEMA_FILE
    assert schema_fault(FILE) is None


def test_each_deviation_names_a_line_of_the_guide_and_a_reason() -> None:
    assert len(deviations(FOLDER)) > 20


@pytest.mark.row("B 25-31")
def test_every_release_of_the_guide_that_is_not_used_has_its_line_and_a_reason() -> None:
    """ESXi, vGPU, the distributed switch and its driver, Onyx, CentOS, Kubernetes and the MPI operator."""
    lines = {line for row in deviations(FOLDER) for line in row[0].split(", ")}

    assert {"15-17", "19", "21", "23", "25", "27", "29", "31"} <= lines

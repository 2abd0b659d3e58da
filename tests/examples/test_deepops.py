"""The DeepOps RoCE guide's lab: its file loads, holds the guide's values, and previews without any of its machines."""

import json
import re

import pytest
import yaml

from components.jobs.image.build import target_of
from components.validation.benchmarks.jobs.plan import job_of
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import parse_lab, read_stack_file
from stacks.schema import SCHEMA_FILE
from tests.components.cluster.conftest import without_upstream
from tests.conftest import ROOT
from tests.engine import Recorded
from tests.examples.previewed import deviations, previewed, same_names, secrets_of
from tests.labs import HOST_KEY
from tests.messages import stating
from tests.stacks.lab_schema import schema_fault

FOLDER = ROOT / "examples" / "deepops"
FILE = FOLDER / "Pulumi.deepops.yaml"


@pytest.fixture(scope="module")
def deepops() -> Lab:
    return read_stack_file(FILE)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("deepops")
    scanned = re.search(r"^ssh-keyscan -t ed25519 ([\d. ]+) > (\S+)$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert scanned, "the README says how known_hosts is made"
    (folder / scanned[2]).write_text("".join(f"{host} ssh-ed25519 {HOST_KEY}\n" for host in scanned[1].split()))
    with without_upstream(), pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return previewed(FILE)


@pytest.mark.row("A 10a")
def test_it_previews_offline_with_the_golden_names(program: Recorded) -> None:
    assert same_names(program, "deepops")


def test_no_secret_of_it_is_needed_for_a_preview(program: Recorded) -> None:
    """The key stays in the agent and the kubeconfig comes from the control plane: a reviewer needs neither."""
    assert secrets_of(FOLDER / "README.md") == {}
    for name, seen in program.of_type("command:remote:Command").items():
        assert "privateKey" not in seen.inputs["connection"], name


def test_the_rails_are_the_guide_s(deepops: Lab) -> None:
    rails = [(rail.pod.vlan_id, rail.resource, rail.network_name) for rail in deepops.rails]
    workers = [node for node in deepops.nodes if node.role == "worker"]

    assert rails == [(111, "intel.com/sriov_111", "sriov111"), (112, "intel.com/sriov_112", "sriov112")]
    for node in workers:
        assert [(pf.interface, pf.vfs) for pf in node.pfs] == [("enp5s0", 8), ("enp132s0", 8)]
        assert node.gpus == 8
    assert [str(node.pfs[0].address.ip) for node in workers] == ["10.10.11.11", "10.10.11.12"]
    assert deepops.qos
    assert (deepops.qos.mode, deepops.qos.priority) == ("lossy", 3)
    assert (deepops.qos.ecn_min_kbytes, deepops.qos.ecn_max_kbytes) == (150, 1500)
    assert [(switch.os, switch.apply) for switch in deepops.switches] == [("onyx", False)]


@pytest.mark.row("A 123-155")
def test_the_guide_s_duplicate_address_is_refused_with_both_places() -> None:
    text = FILE.read_text().replace("192.168.2.12", "192.168.2.11")
    lab = yaml.safe_load(text)["config"]["rocelab:lab"]

    with pytest.raises(LabError, check=stating("nodes[2].address", "192.168.2.11 port 22", "nodes[1].address")):
        parse_lab(json.dumps(lab), FILE.name, text)


@pytest.mark.row("A 250-270")
def test_the_job_is_the_guide_s(deepops: Lab) -> None:
    job = job_of(deepops, "nccl", "roce")
    text = json.dumps(job)

    assert "192.168.100.10:5000/nccl-roce-test:" in text
    assert '"k8s.v1.cni.cncf.io/networks": "default/sriov111,default/sriov112"' in text
    assert '"intel.com/sriov_111": "1", "intel.com/sriov_112": "1", "nvidia.com/gpu": "8"' in text
    assert '"add": ["IPC_LOCK"]' in text
    assert "NCCL_IB_DISABLE=0" in text
    assert "NCCL_NET_GDR_LEVEL=PXB" in text
    assert "NCCL_IB_TC=106" in text, "NIC, switch and NCCL sort by the same"
    assert '"-np", "16"' in text


@pytest.mark.parametrize("job", ["horovod", "tf_cnn"])
def test_the_guide_s_other_jobs_render_for_it_too(deepops: Lab, job: str) -> None:
    assert "192.168.100.10:5000/horovod:24.03" in json.dumps(job_of(deepops, job, "tcp"))  # type: ignore[arg-type]  # one of them


def test_its_images_can_be_built(deepops: Lab) -> None:
    assert target_of(deepops, "benchmark").tag.startswith("192.168.100.10:5000/nccl-roce-test:")
    assert target_of(deepops, "training").tag == "192.168.100.10:5000/horovod:24.03"


def test_it_follows_the_schema_that_it_names() -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)", FILE.read_text())

    assert named
    assert (FOLDER / named[1]).resolve() == SCHEMA_FILE
    assert schema_fault(FILE) is None


def test_each_deviation_names_a_line_of_the_guide_and_a_reason() -> None:
    assert len(deviations(FOLDER)) > 20

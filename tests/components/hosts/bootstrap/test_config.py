"""What kubeadm reads: exact text, and the word of a real kubeadm on it."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from components.hosts.bootstrap.config import api_endpoint, init_config, join_config
from tests.components.hosts.bootstrap.kubeadm_labs import INVITATION, KUBEADM, ONE, THREE
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "hosts" / "bootstrap"
HASHES = ["sha256:" + "12" * 32]


TEXTS = {
    "init-one": init_config(ONE, ONE.nodes[0], INVITATION),
    "init-three": init_config(THREE, THREE.nodes[0], INVITATION),
    "join-control-plane": join_config(THREE, THREE.nodes[1], INVITATION, HASHES),
    "join-worker": join_config(ONE, ONE.nodes[1], INVITATION, HASHES),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_golden_one(name):
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXTS[name])

    assert path.read_text() == TEXTS[name]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.sim
@pytest.mark.skipif(KUBEADM is None, reason="no kubeadm: engine/setup --dev builds it")
def test_kubeadm_itself_finds_nothing_wrong(name, tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text(TEXTS[name])
    done = subprocess.run(
        [str(KUBEADM), "config", "validate", "--config", config], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout.strip()) == (0, "ok"), done.stderr
    assert "WARNING" not in done.stderr.upper(), "an unknown field is a warning, and then ignored"


@pytest.mark.sim
@pytest.mark.skipif(KUBEADM is None, reason="no kubeadm: engine/setup --dev builds it")
def test_kubeadm_does_find_a_field_that_it_does_not_know(tmp_path: Path):
    config = tmp_path / "config.yaml"
    config.write_text(TEXTS["init-one"].replace("clusterName", "clusterNam"))
    done = subprocess.run(
        [str(KUBEADM), "config", "validate", "--config", config], capture_output=True, text=True, check=False
    )

    assert done.returncode or "clusterNam" in done.stderr


def test_a_worker_gets_no_part_of_the_control_plane():
    joined = yaml.safe_load(TEXTS["join-worker"])

    assert "controlPlane" not in joined
    assert INVITATION.certificate_key not in TEXTS["join-worker"]


def test_every_address_is_a_management_address():
    subnets = [net for rail in THREE.rails for net in (rail.host_subnet, rail.pod.subnet)]
    for text in TEXTS.values():
        for prefix in (str(net).rpartition(".")[0] for net in subnets):
            assert f"{prefix}." not in text


def test_the_only_control_plane_is_its_own_endpoint_and_three_have_the_lab_s():
    assert api_endpoint(ONE) == "192.168.7.1:6443"
    assert api_endpoint(THREE) == "192.168.7.100:6443"


def test_an_invitation_does_not_show_itself():
    assert "0123456789" not in repr(INVITATION)
    assert INVITATION.certificate_key not in repr(INVITATION)

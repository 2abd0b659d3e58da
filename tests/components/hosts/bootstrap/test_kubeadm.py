"""A real kubeadm asked what it would do with what we give it. It makes no cluster: that needs a container runtime."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from components.hosts.bootstrap.config import init_config
from tests.components.hosts.bootstrap.kubeadm_labs import INVITATION, KUBEADM, ONE, THREE
from tests.components.hosts.bootstrap.machines import Machines

pytestmark = [pytest.mark.sim, pytest.mark.skipif(KUBEADM is None, reason="no kubeadm: engine/setup --dev builds it")]


def kubeadm(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs it with everything that it would write under a folder of the test."""
    environment = {**os.environ, "KUBEADM_INIT_DRYRUN_DIR": str(folder)}
    command = [str(KUBEADM), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module", params=[ONE, THREE], ids=["one", "three"])
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """What an init would write, and what it would say."""
    lab, folder = request.param, tmp_path_factory.mktemp("dry")
    config = folder / "given.yaml"
    config.write_text(init_config(lab, lab.nodes[0], INVITATION))
    words = ("init", "--config", str(config), "--skip-token-print", "--dry-run", "--ignore-preflight-errors=all")
    done = kubeadm(*words, folder=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, done.stdout


def arguments(folder: Path, name: str) -> dict[str, str]:
    pod = yaml.safe_load((folder / f"{name}.yaml").read_text())
    words = pod["spec"]["containers"][0]["command"][1:]
    return {key.lstrip("-"): value for key, _, value in (word.partition("=") for word in words)}


def test_api_server_and_etcd_are_bound_to_the_management_address(planned):
    folder, _ = planned
    api, etcd = arguments(folder, "kube-apiserver"), arguments(folder, "etcd")

    assert api["advertise-address"] == "192.168.7.1"
    assert etcd["listen-client-urls"] == "https://127.0.0.1:2379,https://192.168.7.1:2379"
    assert etcd["listen-peer-urls"] == "https://192.168.7.1:2380"


def test_pods_and_services_get_the_lab_s_networks(planned):
    folder, _ = planned
    manager = arguments(folder, "kube-controller-manager")

    assert manager["cluster-cidr"] == "10.244.0.0/16"
    assert manager["service-cluster-ip-range"] == "10.96.0.0/16"


def test_people_are_sent_to_the_lab_s_endpoint_and_a_control_plane_s_kubelet_to_its_own(planned, request):
    folder, _ = planned
    found = {name: yaml.safe_load((folder / f"{name}.conf").read_text())["clusters"] for name in ("admin", "kubelet")}
    servers = {name: clusters[0]["cluster"]["server"] for name, clusters in found.items()}
    three = "three" in request.node.name

    assert servers["admin"] == ("https://192.168.7.100:6443" if three else "https://192.168.7.1:6443")
    assert servers["kubelet"] == "https://192.168.7.1:6443", "kubeadm's own rule: it works while the others are away"


def test_the_kubelet_gets_the_lab_s_placement_policies(planned, request):
    folder, _ = planned
    kubelet = yaml.safe_load((folder / "config.yaml").read_text())

    assert kubelet["cgroupDriver"] == "systemd"
    if "three" in request.node.name:
        assert kubelet["topologyManagerPolicy"] == "single-numa-node"
        assert (kubelet["cpuManagerPolicy"], kubelet["reservedSystemCPUs"]) == ("static", "0-3")
    else:
        assert kubelet["topologyManagerPolicy"] == "best-effort"


def test_the_token_ends_within_an_hour(planned):
    _, said = planned
    secret = next(part for part in said.split("[dryrun]") if "name: bootstrap-token-abcdef" in part)

    assert "expiration:" in secret


def test_kubeadm_knows_every_command_that_hosts_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machines = Machines(tmp_path / "hosts", planes=3)
    machines.machines["cp02"].kubeadm_fails = "[ERROR X]: broken\n"
    machines.unite()
    machines.machines["cp02"].kubeadm_fails = ""
    machines.unite()
    given = {line for host in machines.machines.values() for line in host.commands if line.startswith("kubeadm ")}
    verbs = {" ".join(line.split()[1:3]) for line in given}
    assert {"init --config", "init phase", "join --config", "token create", "token delete", "reset -f"} <= verbs

    unknown = {}
    for line in sorted(given):
        # help comes after all flags are read, and an unknown one ends it before
        done = kubeadm(*line.split()[1:], "--help", folder=tmp_path)
        if done.returncode:
            unknown[line] = done.stderr
    assert unknown == {}


def test_the_test_of_commands_can_fail(tmp_path: Path):
    done = kubeadm("join", "--config", "x", "--no-such-flag", "--help", folder=tmp_path)

    assert done.returncode
    assert "no-such-flag" in done.stderr


def test_a_token_is_made_from_a_file_and_taken_back_by_its_name(planned):
    folder, _ = planned
    admin, config = str(folder / "admin.conf"), str(folder / "given.yaml")
    made = kubeadm("token", "create", "--config", config, "--kubeconfig", admin, "--dry-run", folder=folder)
    ended = kubeadm("token", "delete", "abcdef", "--kubeconfig", admin, "--dry-run", folder=folder)

    assert made.returncode == 0, made.stderr
    assert "bootstrap-token-abcdef" in made.stdout
    assert ended.returncode == 0, ended.stderr

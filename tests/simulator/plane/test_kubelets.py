"""What a node's own kubelet starts with, and what of the control plane differs when there is one."""

import io
import tarfile
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from cryptography import x509

from simulator.lab import simulator_of
from simulator.part import SimulatorError
from simulator.plane import cluster, components, kubelets, nodes
from simulator.plane.layout import Layout
from simulator.plane.part import ControlPlane
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def pods_lab() -> Lab:
    return read_stack_file(ROOT / "Pulumi.lab-pods.yaml")


def unpacked(content: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {info.name: tar.extractfile(info).read().decode() for info in tar}  # type: ignore[union-attr]


def files(lab: Lab, layout: Layout, address: str = "127.0.12.1") -> dict[str, str]:
    return unpacked(kubelets.archive(lab, layout, address))


def test_a_kubelet_acts_as_its_own_node_and_as_no_other(pods_lab: Lab, layout: Layout):
    files(pods_lab, layout)

    certificate = x509.load_pem_x509_certificate(layout.pki("kubelet-gpu01.crt").read_bytes())
    assert certificate.subject.rfc4514_string() == "CN=system:node:gpu01,O=system:nodes"


def test_a_kubelet_answers_where_the_api_server_looks_for_it(pods_lab: Lab, layout: Layout):
    found = files(pods_lab, layout)

    certificate = x509.load_pem_x509_certificate(found["etc/kubernetes/pki/kubelet.crt"].encode())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    status = nodes.node_status(pods_lab, pods_lab.nodes[0], layout, {})["status"]
    [external] = [entry["address"] for entry in status["addresses"] if entry["type"] == "ExternalIP"]
    assert external == "127.0.12.1"
    assert external in map(str, names.get_values_for_type(x509.IPAddress))


def test_nothing_changes_in_what_a_node_gets_or_its_snapshot_would_be_lost(pods_lab: Lab, layout: Layout):
    assert kubelets.archive(pods_lab, layout, "127.0.12.1") == kubelets.archive(pods_lab, layout, "127.0.12.1")


def test_the_authority_stays_when_kubelets_get_their_identities(pods_lab: Lab, layout: Layout):
    before = layout.pki("ca.crt").read_bytes(), layout.pki("admin.crt").read_bytes()

    files(pods_lab, layout)
    kubelets.make_api_identity(pods_lab, layout)

    assert (layout.pki("ca.crt").read_bytes(), layout.pki("admin.crt").read_bytes()) == before
    assert layout.pki("kubelet-gpu01.key").stat().st_mode & 0o077 == 0


def test_every_node_has_a_share_of_the_pod_network_and_a_route_to_the_others(pods_lab: Lab, layout: Layout):
    first, second = (files(pods_lab, layout, address) for address in ("127.0.12.1", "127.0.12.2"))

    assert "route add 10.244.2.0/24 via 10.244.255.2\n" in first["etc/kubernetes/network"]
    assert "address add 10.244.255.2/24 dev enp0s5\n" in second["etc/kubernetes/network"]
    assert '"subnet": "10.244.1.0/24"' in first["etc/cni/net.d/10-lab.conflist"]


def test_the_api_answers_pods_at_its_services_address(pods_lab: Lab, layout: Layout):
    kubelets.make_api_identity(pods_lab, layout)

    flags = components.apiserver(layout, pods_lab).command
    [file] = [flag.partition("=")[2] for flag in flags if flag.startswith("--tls-cert-file=")]
    certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = set(map(str, names.get_values_for_type(x509.IPAddress)))
    assert addresses == {layout.address, "192.168.1.8", "10.96.0.1"}
    assert "address add 10.96.0.1/32 dev services\n" in files(pods_lab, layout)["etc/kubernetes/network"]


def test_pods_ask_their_own_node_for_names(pods_lab: Lab, layout: Layout):
    found = files(pods_lab, layout)

    assert yaml.safe_load(found["etc/kubernetes/kubelet.yaml"])["clusterDNS"] == ["10.96.0.10"]
    assert "address add 10.96.0.10/32 dev services\n" in found["etc/kubernetes/network"]
    assert "DNS_ADDRESS=10.96.0.10\n" in found["etc/kubernetes/node"]


def test_who_looks_names_up_is_no_node_and_no_administrator(pods_lab: Lab, layout: Layout):
    certificate = x509.load_pem_x509_certificate(files(pods_lab, layout)["etc/kubernetes/pki/dns.crt"].encode())

    assert certificate.subject.rfc4514_string() == f"CN={cluster.DNS_USER}"


def test_a_kubelets_rights_end_at_its_node(pods_lab: Lab, lab: Lab, layout: Layout):
    assert "--authorization-mode=Node,RBAC" in components.apiserver(layout, pods_lab).command
    assert "--authorization-mode=RBAC" in components.apiserver(layout, lab).command


def test_a_kubelet_asks_everybody_who_they_are(pods_lab: Lab, layout: Layout):
    settings = yaml.safe_load(files(pods_lab, layout)["etc/kubernetes/kubelet.yaml"])

    assert settings["authentication"]["anonymous"] == {"enabled": False}
    assert settings["authorization"] == {"mode": "Webhook"}


def test_a_real_kubelet_says_itself_what_its_node_offers(pods_lab: Lab, layout: Layout):
    node = pods_lab.nodes[0]

    assert nodes.node_status(pods_lab, node, layout, {})["status"].keys() == {"addresses"}
    assert nodes.REPLAYED_LOGS not in nodes.node_object(pods_lab, node)["metadata"]["labels"]


def test_no_fake_kubelet_is_part_of_a_lab_with_real_ones(pods_lab: Lab, layout: Layout):
    plane = ControlPlane(pods_lab, layout.state, layout.binaries, address=layout.address)

    assert {"kwok", "mpi-operator"}.isdisjoint(status.name for status in plane.status())


def test_a_pod_network_without_a_share_for_every_node_is_refused(pods_lab: Lab, layout: Layout):
    assert pods_lab.cluster is not None
    small = pods_lab.cluster.model_copy(update={"pod_subnet": IPv4Network("10.244.0.0/20")})

    with pytest.raises(SimulatorError, match="pod_subnet"):
        files(pods_lab.model_copy(update={"cluster": small}), layout)


def test_a_busy_node_is_not_made_to_begin_a_pod_again(pods_lab: Lab, layout: Layout):
    settings = yaml.safe_load(files(pods_lab, layout)["etc/kubernetes/kubelet.yaml"])

    assert settings["runtimeRequestTimeout"] == "15m", "with 2 min, what is slow is torn down and begun again for ever"


def test_a_node_that_does_not_start_ends_the_wait_for_its_kubelet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise SimulatorError("gpu01: no ssh login")

    simulator = simulator_of("lab-pods", tmp_path)
    monkeypatch.setattr(simulator.nodes, "_up", fail)
    with pytest.raises(SimulatorError, match="gpu01"):
        simulator.nodes.up(print)

    api: Any = SimpleNamespace(items=lambda _: [])
    with pytest.raises(SimulatorError, match="a node did not start"):
        simulator.plane._wait_for_nodes(api, 60, print)

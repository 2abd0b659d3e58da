"""The commands that prove a Bitfusion client: those of the Bitfusion article, as data for the run."""

from ipaddress import IPv4Address
from typing import Any

import pytest
import yaml

from components.cli.app import main
from components.validation.bitfusion import checks
from stacks.base import LabError
from stacks.bitfusion import way_to
from stacks.lab import Lab
from stacks.read import KEY
from tests.labs import lab_of, section_of
from tests.messages import states


@pytest.fixture
def content() -> dict[str, Any]:
    found: dict[str, Any] = section_of("Pulumi.lab-pvrdma.yaml")
    package = {"url": "https://mirror/bitfusion.deb", "sha256": "0" * 64}
    found["bitfusion_client"] = {"nodes": ["gpu02"], "package": package, "servers": ["192.168.0.60", "192.168.0.61"]}
    return found


@pytest.fixture
def two_rails() -> dict[str, Any]:
    """Bare metal with a PF on each of two rails, and a server on the second alone."""
    found: dict[str, Any] = section_of("Pulumi.lab.yaml")
    package = {"url": "https://mirror/bitfusion.deb", "sha256": "0" * 64}
    found["bitfusion_client"] = {
        "nodes": ["gpu02"],
        "package": package,
        "servers": ["10.10.12.60"],
        "authorisation": "token",
    }
    return found


@pytest.fixture
def lab(content: dict[str, Any]) -> Lab:
    return lab_of(content)


@pytest.mark.row("C 24")
def test_the_end_proof_is_the_guide_s_command_and_the_latency_has_its_limit(lab):
    proof, latency = checks(lab)[:2]

    assert (proof.client, proof.words[:7]) == ("gpu02", ("bitfusion", "run", "-n", "1", "-l", "192.168.0.60", "--"))
    assert proof.words[7].endswith("sample_mnist")
    assert latency.words == ("ib_send_lat", "-d", "vmw_pvrdma0", "-F", "-n", "5000", "192.168.0.60")
    assert latency.server_words == ("ib_send_lat", "-F", "-n", "5000")
    assert latency.latency_max_us == 50


def test_the_bandwidth_is_the_guide_s_at_both_ends_over_the_rail_s_own_device(lab):
    bandwidth = checks(lab)[2]

    assert bandwidth.words == ("ib_send_bw", "-d", "vmw_pvrdma0", "-F", "--report_gbits", "192.168.0.60")
    assert bandwidth.server_words == ("ib_send_bw", "-F", "--report_gbits")
    assert bandwidth.latency_max_us is None


def test_every_server_is_asked_and_not_the_first_alone(lab):
    found = [(check.name, check.server) for check in checks(lab)]

    names = ("end-proof", "latency", "bandwidth")
    assert found == [(name, server) for server in ("192.168.0.60", "192.168.0.61") for name in names]


def test_the_nic_is_the_one_on_the_server_s_rail(two_rails):
    lab = lab_of(two_rails)
    first, second = lab.active_nodes[1].pfs

    latency, bandwidth = checks(lab)[1:]

    assert latency.words[:3] == ("ib_send_lat", "-d", second.rdma_device)
    assert bandwidth.words[:3] == ("ib_send_bw", "-d", second.rdma_device)
    assert first.rdma_device != second.rdma_device
    two_rails["bitfusion_client"]["servers"] = ["10.10.11.60"]
    latency = checks(lab_of(two_rails))[1]
    assert latency.words[:3] == ("ib_send_lat", "-d", first.rdma_device)


def test_a_client_off_the_rail_of_one_server_is_refused(two_rails):
    two_rails["bitfusion_client"]["servers"] = ["10.10.12.60", "10.10.11.60"]
    node = next(node for node in two_rails["nodes"] if node["name"] == "gpu02")
    lost = node["pfs"].pop(0)["rail"]

    with pytest.raises(LabError) as refused:
        lab_of(two_rails)

    said = [line for line in str(refused.value).splitlines() if "bitfusion_client" in line]
    assert len(said) == 1, said
    assert states(said[0], "bitfusion_client.nodes[0]", "gpu02", lost, "10.10.11.60")


def test_a_made_server_is_asked_on_the_rail_that_it_shares_with_the_client(lab):
    server = {"rail-a": IPv4Address("10.10.11.60"), "pvrdma": IPv4Address("192.168.0.60")}

    way = way_to(server, lab.nodes[1])

    assert way == (lab.nodes[1].pfs[0], IPv4Address("192.168.0.60"))
    assert way_to({"rail-a": IPv4Address("10.10.11.60")}, lab.nodes[1]) is None


def test_people_can_read_them(content, tmp_path, capsys):
    file = tmp_path / "Pulumi.bf.yaml"
    file.write_text(yaml.safe_dump({"config": {KEY: content}}))

    assert main(["bitfusion", "--plan", "--config-file", str(file)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "gpu02: bitfusion run -n 1 -l 192.168.0.60 -- /workspace/tensorrt/bin/sample_mnist",
        "192.168.0.60: ib_send_lat -F -n 5000",
        "gpu02: ib_send_lat -d vmw_pvrdma0 -F -n 5000 192.168.0.60   # typical latency at most 50 us",
        "192.168.0.60: ib_send_bw -F --report_gbits",
        "gpu02: ib_send_bw -d vmw_pvrdma0 -F --report_gbits 192.168.0.60",
        "gpu02: bitfusion run -n 1 -l 192.168.0.61 -- /workspace/tensorrt/bin/sample_mnist",
        "192.168.0.61: ib_send_lat -F -n 5000",
        "gpu02: ib_send_lat -d vmw_pvrdma0 -F -n 5000 192.168.0.61   # typical latency at most 50 us",
        "192.168.0.61: ib_send_bw -F --report_gbits",
        "gpu02: ib_send_bw -d vmw_pvrdma0 -F --report_gbits 192.168.0.61",
    ]


def test_a_lab_without_clients_has_nothing_to_prove(content):
    del content["bitfusion_client"]

    with pytest.raises(LabError, match="bitfusion_client: missing"):
        checks(lab_of(content))

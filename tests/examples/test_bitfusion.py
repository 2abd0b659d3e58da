"""The Bitfusion article's lab: it loads, holds the article's values, and previews with a stub OVA or without one."""

import re
from pathlib import Path

import pytest

from components.hosts.document import host_document
from components.hosts.program.guest import plan_for
from components.ports.matrix import port_matrix
from components.validation.bitfusion import checks
from stacks.lab import Lab
from stacks.read import read_stack_file
from stacks.schema import SCHEMA_FILE
from tests.components.cluster.conftest import without_upstream
from tests.components.fabric.ova import stub_ova
from tests.conftest import ROOT
from tests.engine import Recorded
from tests.examples.previewed import deviations, no_secret_in, previewed, same_inputs, same_names
from tests.stacks.lab_schema import schema_fault

FOLDER = ROOT / "examples" / "bitfusion"
FILE = FOLDER / "Pulumi.bitfusion.yaml"


@pytest.fixture(scope="module")
def lab() -> Lab:
    return read_stack_file(FILE)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("bitfusion")
    stub_ova(folder / "bitfusion-server.ova")
    with without_upstream(), pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return previewed(FILE)


def test_it_previews_offline_with_the_golden_names(program: Recorded) -> None:
    assert same_names(program, "bitfusion")


def test_without_the_two_bitfusion_sections_it_previews_as_a_pvrdma_lab_and_reads_no_ova(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with without_upstream():
        program = previewed(FILE, without=("bitfusion", "bitfusion_client"))

    assert "fabric-pvrdma-switch" in program.resources
    assert "hosts-bf-client-rho-ub20" in program.resources
    assert [name for name in program.resources if "bitfusion" in name or "bf-server" in name] == []


def test_the_readme_names_the_two_sections_to_delete() -> None:
    assert "delete the sections `bitfusion` and `bitfusion_client`" in (FOLDER / "README.md").read_text()


@pytest.mark.row("C 219, 223")
def test_a_client_is_given_the_golden_values(program: Recorded) -> None:
    assert same_inputs(program, "bitfusion", ["fabric-machines-bf-client-co8", "hosts-bf-client-co8"])


def test_the_password_is_in_no_input(program: Recorded) -> None:
    assert no_secret_in(program, FILE)


@pytest.mark.row("C 58-65")
def test_the_switch_is_the_article_s(lab: Lab) -> None:
    assert lab.fabric
    switch = lab.fabric.switches[0]

    assert (lab.fabric.datacenter, switch.name, switch.port_group) == ("SC2-DC", "vSwitch1", "BF-PVRDMA-DPORTGROUP")
    assert (switch.version, switch.mtu_bytes, switch.network_io_control) == ("7.0.2", 9000, False)
    assert [host.vmkernel.existing for host in switch.hosts if host.vmkernel] == ["vmk0", "vmk0"]
    assert switch.uplink.min_speed_mbit == 100_000


def test_server_and_clients_have_the_article_s_addresses(lab: Lab) -> None:
    assert lab.bitfusion
    assert [str(adapter.address) for adapter in lab.bitfusion.servers[0].adapters] == ["192.168.30.231/24"]
    assert [str(node.pfs[0].address.ip) for node in lab.nodes] == ["192.168.30.11", "192.168.30.201"]


@pytest.mark.row("C 252-265")
def test_the_rhel_client_s_keyfile_has_the_article_s_address_and_no_default_route(lab: Lab) -> None:
    document = host_document(lab, lab.nodes[1])

    text = plan_for("nmcli", document["pfs"][0]).text  # type: ignore[index, call-overload]

    for line in ("interface-name=ens224f0", "method=manual", "address1=192.168.30.201/24", "autoconnect=true"):
        assert line in text.splitlines()
    assert "never-default=true" in text


@pytest.mark.row("C 413-416, 428-431")
def test_the_proof_is_the_article_s_and_the_limit_too(lab: Lab) -> None:
    proof, latency, bandwidth = checks(lab)

    assert " ".join(proof.words) == "bitfusion run -n 1 -l 192.168.30.231 -- /workspace/tensorrt/bin/sample_mnist"
    assert (latency.client, latency.latency_max_us) == ("bf-client-rho-ub20", 50)
    assert " ".join(bandwidth.words) == "ib_send_bw -d rocep19s0f1 -F --report_gbits 192.168.30.231"
    assert lab.bitfusion_client
    assert lab.bitfusion_client.version == "3.0.1-4"


def test_clients_reach_the_server_on_its_port(lab: Lab) -> None:
    assert ("client", "bitfusion", "56001") in {(row.source, row.target, row.ports) for row in port_matrix(lab)}


def test_it_follows_the_schema_that_it_names() -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)", FILE.read_text())

    assert named
    assert (FOLDER / named[1]).resolve() == SCHEMA_FILE
    assert schema_fault(FILE) is None


def test_each_deviation_names_a_line_of_the_article_and_a_reason() -> None:
    assert len(deviations(FOLDER)) > 20

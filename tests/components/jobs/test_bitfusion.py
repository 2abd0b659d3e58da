"""The commands that prove a Bitfusion client: seed C's own, as plan items for whoever measures."""

import json
from typing import Any

import pytest
import yaml

from components.jobs.bitfusion import checks, main
from stacks.base import LabError
from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from tests.conftest import ROOT


@pytest.fixture
def content() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.lab-pvrdma.yaml").read_text())["config"][KEY]
    package = {"url": "https://mirror/bitfusion.deb", "sha256": "0" * 64}
    found["bitfusion_client"] = {"nodes": ["gpu02"], "package": package, "servers": ["192.168.0.60", "192.168.0.61"]}
    return found


@pytest.fixture
def lab(content: dict[str, Any]) -> Lab:
    return parse_lab(json.dumps(content), "Pulumi.lab-pvrdma.yaml")


def test_the_end_proof_is_the_guide_s_command_and_the_latency_has_its_limit(lab):
    proof, latency = checks(lab)

    assert (proof.client, proof.words[:7]) == ("gpu02", ("bitfusion", "run", "-n", "1", "-l", "192.168.0.60", "--"))
    assert proof.words[7].endswith("sample_mnist")
    assert latency.words == ("ib_send_lat", "-d", "rxe0", "-F", "-n", "5000", "192.168.0.60")
    assert latency.server_words == ("ib_send_lat", "-F", "-n", "5000")
    assert latency.latency_max_us == 50


def test_people_can_read_them(content, tmp_path, capsys):
    file = tmp_path / "Pulumi.bf.yaml"
    file.write_text(yaml.safe_dump({"config": {KEY: content}}))

    assert main(["--config-file", str(file)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "gpu02: bitfusion run -n 1 -l 192.168.0.60 -- /workspace/tensorrt/bin/sample_mnist",
        "192.168.0.60: ib_send_lat -F -n 5000",
        "gpu02: ib_send_lat -d rxe0 -F -n 5000 192.168.0.60   # typical latency at most 50 us",
    ]


def test_a_lab_without_clients_has_nothing_to_prove(content):
    del content["bitfusion_client"]

    with pytest.raises(LabError, match="bitfusion_client: missing"):
        checks(parse_lab(json.dumps(content), "Pulumi.lab-pvrdma.yaml"))

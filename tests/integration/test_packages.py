"""A vendor's packages on a real node: real apt, signatures and systemd; what is in the packages is a stand-in."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import JsonValue

from components.hosts.calls import HostCalls, Report
from components.hosts.document import host_document
from components.hosts.records import target_fields
from components.ssh.connection import Endpoint
from components.ssh.credentials import endpoint_of
from simulator.packages.catalogue import CONTAINERD_VERSION, OFED_VERSION
from simulator.packages.part import Packages
from simulator.packages.repository import SNIPPET
from stacks.access import read_host_keys, read_private_key
from stacks.drivers import NicDriver
from stacks.lab import Lab
from stacks.runtime import Runtime
from tests.conftest import ROOT
from tests.integration.conftest import sim
from tests.integration.stack import environment

pytestmark = [pytest.mark.sim, pytest.mark.whole]

OURS = ("driver", "driver_built", "containerd", "containerd_config", "memlock", "login_memlock")
CONTAINERD = {"source": "packaged", "version": CONTAINERD_VERSION, "packages": ["containerd"]}


@dataclass
class Node:
    """The first node, with what the lab asks of it."""

    endpoint: Endpoint
    hosts: HostCalls
    document: dict[str, JsonValue]

    def call(self, verb: str, **changes: JsonValue) -> Report:
        """A verb of the host program, for the fields of this test only."""
        only: list[JsonValue] = list(OURS)
        document = {**self.document, **({"only": only} if verb == "apply" else {}), **changes}
        return asyncio.run(self.hosts.call(self.endpoint, verb, document))

    def says(self, command: str) -> str:
        return asyncio.run(self.hosts.run(self.endpoint, command, answer_s=60)).strip()


@pytest.fixture
def node(simulator: Path, lab: Lab) -> Iterator[Node]:
    """Afterwards the nodes are clean again, since an undo leaves packages."""
    driver = yaml.safe_load((Packages(simulator).repository / SNIPPET).read_text())["driver"]
    runtime = Runtime.model_validate({"containerd": CONTAINERD})
    asked = lab.model_copy(update={"driver": NicDriver.model_validate(driver), "runtime": runtime})
    first = lab.nodes[0]
    key = read_host_keys(lab.access, lab.endpoints(), ROOT)[first.name]
    hosts = HostCalls(read_private_key(lab.access, ROOT))
    yield Node(endpoint_of(lab, first, key), hosts, host_document(asked, first))
    done = sim(environment("lab"), "reset", "nodes")
    assert done.returncode == 0, done.stdout


def fields(report: Report) -> dict[str, Any]:
    return {key: report.fields[key] for key in OURS}


@pytest.mark.row("A 42", "A 211")
def test_a_vendors_packages_come_by_apt_and_a_running_daemon_gets_its_limit(node: Node) -> None:
    wanted = {key: value for key, value in target_fields(node.document).items() if key in OURS}
    assert fields(node.call("probe"))["driver"] == "inbox"

    first = node.call("apply")

    assert first.failed is None
    assert first.needs_reboot == [], "no NIC of this node runs on that driver, so there is nothing to load"
    assert fields(node.call("probe")) == wanted
    assert node.says("ofed_info -n; /usr/sbin/modinfo -F version mlx5_core") == f"{OFED_VERSION}\n{OFED_VERSION}"
    pid = node.says("systemctl show -p MainPID --value containerd.service")
    assert node.says(f"grep locked /proc/{pid}/limits").split()[3:5] == ["unlimited", "unlimited"]
    assert node.says("systemctl show -p LimitMEMLOCK --value containerd.service") == "infinity"

    second = node.call("apply")
    assert (second.failed, second.changed) == (None, [])
    assert node.says("systemctl show -p MainPID --value containerd.service") == pid, "it was not restarted again"


@pytest.mark.row("C 219, 223")
def test_the_packages_of_the_lab_come_by_apt_without_a_question(node: Node) -> None:
    packages: JsonValue = {"debian": ["ofed-scripts", "ipmitool"]}
    assert node.call("apply").failed is None, "the driver brings the repository"
    assert node.call("probe", packages=packages).fields["packages"] == "missing: ipmitool"

    done = node.call("apply", packages=packages, only=["packages"])

    assert (done.failed, done.changed) == (None, ["packages"])
    assert node.says("dpkg-query --show --showformat '${Status}' ipmitool") == "install ok installed"
    assert node.call("apply", packages=packages, only=["packages"]).changed == []


def test_an_index_that_was_altered_on_its_way_brings_nothing(node: Node, simulator: Path) -> None:
    index = Packages(simulator).repository / "dists/stable/main/binary-amd64/Packages"
    text = index.read_text()
    try:
        index.write_text(text.replace("ofed_info", "ofed-info").replace("Version: 3.1.0", "Version: 3.1.1"))
        failed = node.call("apply").failed
    finally:
        index.write_text(text)

    assert failed is not None
    assert failed["step"] == "driver"
    assert node.says("command -v ofed_info || echo none") == "none"

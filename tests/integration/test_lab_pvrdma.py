"""The PVRDMA lab, from an empty vCenter to a verdict; the guests of its machines are the simulator's nodes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from components.fabric.vcenter import OPTION, RULESET, Endpoint, session
from tests.conftest import ROOT
from tests.integration.conftest import sim
from tests.integration.stack import Stack, environment, on_node

pytestmark = pytest.mark.sim

NAME = "lab-pvrdma"
PF = "/sys/class/net/enp5s0"


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The stack on a simulator of its own lab; afterwards the reference lab's is there again, clean."""
    for verb in ("up", "reset"):
        done = sim(environment(NAME), verb, "--stack", NAME)
        assert done.returncode == 0, done.stdout
    yield Stack.make(simulator / "tests-pvrdma", NAME)
    for verb in ("up", "reset"):
        done = sim(environment("lab"), verb)
        assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def endpoint() -> Endpoint:
    fabric = yaml.safe_load((ROOT / f"Pulumi.{NAME}.yaml").read_text())["config"]["rocelab:lab"]["fabric"]
    return Endpoint(
        address=fabric["vcenter"],
        port=fabric["port"],
        user=fabric["user"],
        password=(ROOT / fabric["password_file"]).read_text().strip(),
        ca_file=ROOT / fabric["ca_file"],
    )


def machines(endpoint: Endpoint) -> set[str]:
    with session(endpoint) as vcenter:
        folder = vcenter.host("DC0_C0_H0").parent.parent.parent.vmFolder
        return {machine.name for machine in folder.childEntity}


def test_one_up_goes_from_an_empty_vcenter_to_a_verdict(stack: Stack, endpoint: Endpoint) -> None:
    before = machines(endpoint)

    stack.up().succeeded()

    validation = stack.outputs()["validation"]
    assert (validation["function"], validation["performance"]) == ("pass", "not rated")
    assert machines(endpoint) - before == {"gpu01", "gpu02"}
    assert on_node("gpu01", f"cat {PF}/mtu").split() == ["9000"]
    assert endpoint.password not in stack.state_text()


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    stack.unchanged()


def test_drift_in_vcenter_and_on_a_guest_shows_and_is_repaired_in_one_run(stack: Stack, endpoint: Endpoint) -> None:
    with session(endpoint) as vcenter:
        vcenter.set_option(vcenter.host("DC0_C0_H1"), OPTION, "")  # another adapter is refused under running machines
        vcenter.set_ruleset(vcenter.host("DC0_C0_H2"), RULESET, enabled=False)
    on_node("gpu02", "sudo ip link set dev enp5s0 mtu 1500")

    shown = stack.drift().text
    stack.repair().succeeded()

    assert re.search(r"DC0_C0_H1: vmknic '' => 'vmk1'", shown)
    assert re.search(r"DC0_C0_H2: firewall_open False => True", shown)
    assert re.search(r"gpu02: enp5s0.mtu_bytes 1500 => 9000", shown)
    assert on_node("gpu02", f"cat {PF}/mtu") == "9000"
    with session(endpoint) as vcenter:
        assert vcenter.option(vcenter.host("DC0_C0_H1"), OPTION) == "vmk1"


def test_destroy_gives_vcenter_and_guests_back(stack: Stack, endpoint: Endpoint) -> None:
    stack.pulumi("destroy", "--run-program").succeeded()

    assert not machines(endpoint) & {"gpu01", "gpu02"}
    with session(endpoint) as vcenter:
        for name in ("DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"):
            host = vcenter.host(name)
            assert (vcenter.option(host, OPTION), vcenter.ruleset(host, RULESET).enabled) == ("", False)
    assert on_node("gpu01", f"cat {PF}/mtu") == "1500"

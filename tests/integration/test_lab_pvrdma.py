"""The PVRDMA lab, from an empty vCenter to a verdict; machines that are powered on get the simulator's nodes."""

import base64
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.fabric.vcenter.client import OPTION, RULESET, session
from components.fabric.vcenter.properties import collect
from components.fabric.vcenter.session import VcenterEndpoint
from tests.conftest import ROOT
from tests.integration.conftest import sim, start_clean
from tests.integration.stack import Stack, environment, on_node, provider_code, wait_for_reboot
from tests.integration.vcenter import HOSTS, machine_named
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

NAME = "lab-pvrdma"
PF = "/sys/class/net/enp5s0"


@pytest.fixture(scope="module")
def stack(simulator: Path) -> Iterator[Stack]:
    """The stack on a simulator of its own lab; afterwards the reference lab's is there again, clean."""
    start_clean(NAME)
    yield Stack.make(simulator / "tests-pvrdma", NAME)
    start_clean("lab")


@pytest.fixture(scope="module")
def made(stack: Stack, endpoint: VcenterEndpoint) -> Iterator[Stack]:
    """The lab as the first test makes it and the last takes it away, also in a lane that leaves those two out."""
    if not stack.outputs():
        stack.up().succeeded()
    yield stack
    if stack.outputs():
        stack.pulumi("destroy").succeeded()
    assert endpoint.password not in "".join(done.text for done in stack.ran)


@pytest.fixture(scope="module")
def endpoint() -> VcenterEndpoint:
    fabric = yaml.safe_load((ROOT / f"Pulumi.{NAME}.yaml").read_text())["config"]["rocelab:lab"]["fabric"]
    return VcenterEndpoint(
        address=fabric["vcenter"],
        port=fabric["port"],
        user=fabric["user"],
        password=(ROOT / fabric["password_file"]).read_text().strip(),
        ca_file=ROOT / fabric["ca_file"],
    )


def machines(endpoint: VcenterEndpoint) -> set[str]:
    with session(endpoint) as vcenter:
        folder = vcenter.host("DC0_C0_H0").parent.parent.parent.vmFolder
        return {machine.name for machine in folder.childEntity}


def guests() -> dict[str, str]:
    """The state of each node, as `sim status` has it."""
    shown = sim(environment(NAME), "status", "--stack", NAME).stdout
    return {words[0]: words[3] for words in map(str.split, shown.splitlines()) if words[0].startswith("gpu")}


def told(endpoint: VcenterEndpoint, name: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What a machine's tools report, and what it was told by guestinfo."""
    with session(endpoint) as vcenter:
        machine = machine_named(vcenter.host("DC0_C0_H0"), name)
        paths = ["guest.ipAddress", "guest.toolsRunningStatus", "config.extraConfig"]
        found = collect(vcenter.content, [machine], paths)[0]
        return found, {one.key: str(one.value) for one in found["config.extraConfig"]}


def test_one_up_goes_from_an_empty_vcenter_to_a_verdict(stack: Stack, endpoint: VcenterEndpoint) -> None:
    before = machines(endpoint)
    assert guests() == {"gpu01": "idle", "gpu02": "idle"}, "nobody has a node before its machine is powered on"

    stack.up().succeeded()

    validation = stack.outputs()["validation"]
    assert (validation["function"], validation["performance"]) == ("pass", "not rated")
    assert machines(endpoint) - before == {"gpu01", "gpu02"}
    assert on_node("gpu01", f"cat {PF}/mtu").split() == ["9000"]
    kept = stack.state_text()
    assert endpoint.password not in kept
    assert not [code for code in provider_code(kept) if endpoint.password.encode() in code]
    assert guests() == {"gpu01": "running", "gpu02": "running"}
    found, _ = told(endpoint, "gpu02")
    assert (found["guest.ipAddress"], found["guest.toolsRunningStatus"]) == ("127.0.12.2", "guestToolsRunning")


def test_a_node_presents_the_key_of_its_machine_and_no_other_user_can_read_it(
    stack: Stack, endpoint: VcenterEndpoint
) -> None:
    _, given = told(endpoint, "gpu01")
    userdata = given["guestinfo.userdata"]
    keys = yaml.safe_load(base64.b64decode(userdata))["ssh_keys"]
    seen = subprocess.run(
        ["ssh-keyscan", "-t", "ed25519", "-p", "2222", "127.0.12.1"], capture_output=True, text=True, check=True
    )

    assert keys["ed25519_public"] in seen.stdout
    kept = stack.state_text() + "".join(done.text for done in stack.ran)
    seed = (ROOT / ".sim/vcenter/host_key_seed").read_text()
    secrets = [seed, userdata[-200:], *keys["ed25519_private"].splitlines()[2:-1]]
    assert not [secret[:8] for secret in secrets if secret in kept], "in clear in the state, or in what was printed"
    serialised = b"".join(provider_code(stack.state_text()))
    assert not [secret[:8] for secret in secrets if secret.encode() in serialised], "in the code of our own resources"


def test_a_second_up_changes_nothing(stack: Stack) -> None:
    stack.unchanged()


@pytest.mark.row("C 292-298", "C 303-305", "C 309-317")
@pytest.mark.whole
def test_after_a_reboot_the_rdma_driver_is_loaded_again_once_its_netdev_has_an_address(made: Stack) -> None:
    before = on_node("gpu01", "cat /proc/sys/kernel/random/boot_id")
    on_node("gpu01", "sudo systemd-run --quiet --on-active=1 systemctl reboot")
    wait_for_reboot("gpu01", before)

    on_node("gpu01", "sudo systemctl start rocelab-rdma.service")  # logins come before its end: waits for that
    assert "vmw_pvrdma0/1 state ACTIVE" in on_node("gpu01", "rdma link")
    assert "rdma_rxe: unloaded" in on_node("gpu01", "sudo journalctl --boot --dmesg"), "udev had loaded it too early"
    assert on_node("gpu01", f"readlink {PF}/device/driver").endswith("/vmxnet3")
    assert "soft-RoCE, simulated" in made.state_text(), "whatever it is called"
    made.unchanged()


@pytest.mark.row("C 275-285")
@pytest.mark.whole
def test_drift_in_vcenter_and_on_a_guest_shows_and_is_repaired_in_one_run(
    made: Stack, endpoint: VcenterEndpoint
) -> None:
    with session(endpoint) as vcenter:
        vcenter.set_option(vcenter.host("DC0_C0_H1"), OPTION, "")  # another adapter is refused under running machines
        vcenter.set_ruleset(vcenter.host("DC0_C0_H2"), RULESET, enabled=False)
    on_node("gpu02", "sudo ip link set dev enp5s0 mtu 1500")
    on_node("gpu01", "sudo rdma link delete vmw_pvrdma0")

    shown = made.drift().text
    made.repair().succeeded()

    assert lines_naming(shown, "DC0_C0_H1:", "vmknic", "'' => 'vmk1'")
    assert lines_naming(shown, "DC0_C0_H2:", "firewall_open", "False => True")
    assert lines_naming(shown, "gpu02:", "enp5s0.mtu_bytes", "1500 => 9000")
    assert on_node("gpu02", f"cat {PF}/mtu") == "9000"
    assert lines_naming(shown, "gpu01:", "enp5s0.pvrdma_port", "ACTIVE")
    assert "vmw_pvrdma0/1 state ACTIVE" in on_node("gpu01", "rdma link")
    with session(endpoint) as vcenter:
        assert vcenter.option(vcenter.host("DC0_C0_H1"), OPTION) == "vmk1"


@pytest.mark.whole
def test_a_node_with_another_host_key_receives_nothing(made: Stack) -> None:
    key = "/etc/ssh/ssh_host_ed25519_key"
    restart = "sudo systemctl restart ssh"
    on_node("gpu02", f"sudo rm -f {key} {key}.pub; sudo ssh-keygen -q -t ed25519 -N '' -f {key} && {restart}")

    try:
        shown = made.drift().text
    finally:
        anyone = ["-F", ROOT / ".sim/nodes/ssh_config", "-o", "StrictHostKeyChecking=no"]
        subprocess.run(
            ["ssh", *anyone, "-o", "UserKnownHostsFile=/dev/null", "gpu02", f"sudo lab-identity && {restart}"],
            stdin=subprocess.DEVNULL,
            check=True,
            timeout=60,
        )

    assert lines_naming(shown, "127.0.12.2:2222", "another host key", "nothing")


def test_destroy_gives_vcenter_and_guests_back(stack: Stack, endpoint: VcenterEndpoint) -> None:
    stack.pulumi("destroy").succeeded()

    assert not machines(endpoint) & {"gpu01", "gpu02"}
    with session(endpoint) as vcenter:
        for name in HOSTS:
            host = vcenter.host(name)
            assert (vcenter.option(host, OPTION), vcenter.ruleset(host, RULESET).enabled) == ("", False)
    assert guests() == {"gpu01": "idle", "gpu02": "idle"}, "a machine's end is its node's"
    assert endpoint.password not in "".join(done.text for done in stack.ran), "printed by one of all these commands"

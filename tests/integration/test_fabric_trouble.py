"""A vCenter that goes wrong in the middle of a run, and hosts that are not fit: what is said, and how it goes on."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from components.fabric.vcenter.client import OPTION, session
from simulator.vcenter.control import SOCKET, Control
from stacks.base import LabError
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.role import beyond_the_role
from tests.integration.vcenter import done, machine_named, network_named, running
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

BY_HAND = frozenset(["MarkAsTemplate", "PowerOffVM_Task"])
"""What a test here does itself."""


@dataclass
class Troubled:
    """A stack in a vCenter that goes wrong on request."""

    stack: Vsphere
    control: Control

    def by_hand(self, name: str, vmknic: str) -> None:
        with session(self.stack.endpoint) as vcenter:
            vcenter.set_option(vcenter.host(name), OPTION, vmknic)

    def switch(self):
        with session(self.stack.endpoint) as vcenter:
            network = vcenter.host("DC0_C0_H0").parent.parent.parent.networkFolder
            return next((one.config for one in network.childEntity if one.name == "rail-a"), None)

    def vlan_id(self) -> int:
        with session(self.stack.endpoint) as vcenter:
            group = network_named(vcenter.host("DC0_C0_H0"), "rail-a-hosts")
            return int(group.config.defaultPortConfig.vlan.vlanId)

    def uplinks(self) -> list[str]:
        state = json.loads(self.stack.run("stack", "export", "--stack", "t").stdout)["deployment"]["resources"]
        return [one["outputs"]["device"] for one in state if one["type"].endswith(":Uplink")]


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    require_engine()
    folder = tmp_path_factory.mktemp("trouble")
    control = folder / SOCKET
    with running(folder, f"-control={control}") as endpoint:
        yield Troubled(a_stack(folder, endpoint), Control(control))


@pytest.fixture(autouse=True)
def _nothing_goes_wrong_afterwards(troubled: Troubled) -> Iterator[None]:
    yield
    troubled.control.clear()


@pytest.mark.row("B 282")
def test_another_certificate_than_the_pinned_one_gets_no_password_from_anybody(troubled: Troubled) -> None:
    right = troubled.stack.fabric["thumbprint_sha256"]
    troubled.stack.fabric["thumbprint_sha256"] = "0" * 64
    before = troubled.control.calls()
    try:
        said = troubled.stack.pulumi("preview", fails=True)
    finally:
        troubled.stack.fabric["thumbprint_sha256"] = right

    assert lines_naming(said, right, "fabric.thumbprint_sha256")
    assert "Traceback" not in said
    assert troubled.control.calls() == before, "neither the provider nor a session of ours has spoken to it"


def test_a_session_is_always_logged_out(troubled: Troubled) -> None:
    before = troubled.control.calls()

    with pytest.raises(LabError), session(troubled.stack.endpoint) as vcenter:
        vcenter.host("no such host")

    after = troubled.control.calls()
    assert after["Login"] - before.get("Login", 0) == 1
    assert after["Logout"] - before.get("Logout", 0) == 1


@pytest.mark.row("B 132")
def test_what_machines_are_made_from_is_named_where_it_is_missing(troubled: Troubled) -> None:
    first, second = a_worker(1), a_worker(2)
    with session(troubled.stack.endpoint) as vcenter:
        ready = machine_named(vcenter.host("DC0_C0_H0"), "DC0_H0_VM0")
        done(ready.PowerOffVM_Task())
        ready.MarkAsTemplate()
    first["machine"].update(template="gone", datastore="nvme", host="DC0_C0_H0")
    second["machine"].update(template="DC0_H0_VM0", firmware="efi", host="DC0_C0_H1")
    troubled.stack.nodes = [first, second]
    try:
        said = troubled.stack.pulumi("preview", fails=True)
    finally:
        troubled.stack.nodes = []

    named = (
        ("machine.template:", "gone", "fabric.user"),
        ("machine.datastore:", "nvme", "fabric.user", "LocalDS_0"),
        ("nodes.gpu02.machine.firmware:", "efi", "DC0_H0_VM0", "bios"),
    )
    assert [facts for facts in named if not lines_naming(said, *facts)] == [], said


@pytest.mark.row("B 304-310")
def test_unfit_hosts_stop_a_run_before_anything_is_changed(troubled: Troubled) -> None:
    troubled.control.change_host("DC0_C0_H1", nic="vmnic4", link_mbit=0, announced_mtu_bytes=1500, build="1")
    troubled.control.change_host("DC0_C0_H2", host_profile=True, ntp_running=False)

    said = troubled.stack.pulumi("up", fails=True)

    named = (
        ("DC0_C0_H1:", "vmnic4", "rail-a", "no link"),
        ("DC0_C0_H1:", "vmnic4", "MTU", "1500", "9000"),
        ("DC0_C0_H2:", "host profile"),
        ("rail-a:", "ESXi", "8.0.2 build 1", "DC0_C0_H1"),
        ("DC0_C0_H2:", "ntpd"),
        ("fabric.preflight: warn",),
    )
    assert [facts for facts in named if not lines_naming(said, *facts)] == []
    assert "Traceback" not in said
    assert troubled.switch() is None
    assert troubled.stack.seen("DC0_C0_H0") == ("", False)
    assert "CreateDVS_Task" not in troubled.control.calls()


def test_a_refused_call_names_host_and_privilege_and_the_next_run_continues(troubled: Troubled) -> None:
    troubled.control.change_host("DC0_C0_H1", nic="vmnic4", link_mbit=100_000, announced_mtu_bytes=9216)
    troubled.control.change_host("DC0_C0_H2", host_profile=False, ntp_running=True)
    troubled.control.fault("refuse", method="UpdateOptions", privilege="Host.Config.AdvancedConfig", times=1)

    said = troubled.stack.pulumi("up", fails=True)
    troubled.stack.pulumi("up")

    refused = lines_naming(said, OPTION, "fabric.user", "Host.Config.AdvancedConfig")
    assert any(re.search(r"DC0_C0_H\d: .*'vmk\d'", line) for line in refused)
    assert "Traceback" not in said
    assert troubled.stack.seen("DC0_C0_H0") == ("vmk1", True)
    assert troubled.stack.seen("DC0_C0_H1") == ("vmk0", True)


@pytest.mark.row("C 58-65")
def test_network_io_control_that_a_vcenter_turns_on_by_itself_is_off_and_stays_off(troubled: Troubled) -> None:
    assert troubled.switch().networkResourceManagementEnabled is False
    assert troubled.control.calls()["EnableNetworkResourceManagement"] == 1, "the simulated vCenter turns it on"


def test_a_session_that_ends_within_a_run_is_opened_once_more(troubled: Troubled) -> None:
    troubled.by_hand("DC0_C0_H1", "vmk7")
    before = troubled.control.calls()
    troubled.control.fault("expire", method="UpdateOptions", times=1)

    troubled.stack.pulumi("up", "--refresh")

    after = troubled.control.calls()
    assert troubled.stack.seen("DC0_C0_H1") == ("vmk0", True)
    assert after["UpdateOptions"] - before["UpdateOptions"] == 2, "refused, then repeated"


def test_sessions_that_end_again_and_again_are_an_error_without_a_loop(troubled: Troubled) -> None:
    troubled.by_hand("DC0_C0_H1", "vmk7")
    before = troubled.control.calls()["UpdateOptions"]
    troubled.control.fault("expire", method="UpdateOptions")

    said = troubled.stack.pulumi("up", "--refresh", fails=True)

    assert lines_naming(said, f"vCenter {troubled.stack.endpoint.address}", "session limit")
    assert troubled.control.calls()["UpdateOptions"] - before == 2
    troubled.control.clear()
    troubled.stack.pulumi("up", "--refresh")
    assert troubled.stack.seen("DC0_C0_H1") == ("vmk0", True)


def test_all_sessions_end_at_once_and_the_end_of_the_providers_stops_a_run_but_not_the_next(troubled: Troubled) -> None:
    with session(troubled.stack.endpoint) as vcenter:
        host = vcenter.host("DC0_C0_H1")
        logins = troubled.control.calls()["Login"]
        troubled.control.fault("expire")
        assert (host.name, host.name) == ("DC0_C0_H1", "DC0_C0_H1")
        assert troubled.control.calls()["Login"] == logins + 1, "ours is opened once more, not for each call"
    troubled.control.fault("expire", method="ReconfigureDVPortgroup_Task", times=1)
    troubled.stack.fabric["switches"][0]["vlan_id"] = 113

    said = troubled.stack.pulumi("up", fails=True)
    before = troubled.vlan_id()
    troubled.stack.pulumi("up")

    assert "NotAuthenticated" in said
    assert before != 113
    assert troubled.vlan_id() == 113


def test_a_slow_task_is_waited_for_and_a_changed_host_is_shown(troubled: Troubled) -> None:
    troubled.control.fault("slow", method="ReconfigureDVPortgroup_Task", seconds=3, times=1)
    troubled.control.change_host("DC0_C0_H2", build="1")
    troubled.stack.fabric["switches"][0]["vlan_id"] = 112

    said = troubled.stack.pulumi("up")

    changed = [line.partition(" => ") for line in lines_naming(said, "DC0_C0_H2:", "=>")]
    assert any("build 1," in after and "build 1," not in before for before, _, after in changed), changed
    assert troubled.vlan_id() == 112


@pytest.mark.row("B 15-23", "B 21", "C 58-65")
def test_hosts_of_6_7_are_asked_by_esxcli_and_get_the_same_uplinks(troubled: Troubled) -> None:
    troubled.stack.pulumi("destroy")
    switch = troubled.stack.fabric["switches"][0]
    switch["version"] = "6.6.0"
    for host in switch["hosts"]:
        troubled.control.change_host(host["name"], version="6.7.0")
    troubled.control.fault("refuse", method="ExecuteSoap", privilege="Host.Config.Settings")

    refused = troubled.stack.pulumi("up", fails=True)
    troubled.control.clear()
    troubled.stack.pulumi("up")
    troubled.stack.pulumi("up", "--refresh", "--expect-no-changes")

    assert lines_naming(refused, "DC0_C0_H0:", "vmrdma0", "7.0", "esxcli")
    assert lines_naming(refused, "fabric.user", "Host.Config.Settings")
    assert "has no RDMA device" not in " ".join(refused.split())
    assert troubled.uplinks() == ["vmnic4"] * len(switch["hosts"])
    assert troubled.switch().productInfo.version == "6.6.0"
    assert troubled.stack.seen("DC0_C0_H1") == ("vmk0", True)


@pytest.mark.row("B 318")
def test_nothing_was_called_that_the_role_does_not_have(troubled: Troubled) -> None:
    troubled.stack.pulumi("destroy")

    assert beyond_the_role(troubled.control.calls(), BY_HAND) == []

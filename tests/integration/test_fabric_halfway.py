"""A vSphere run that somebody else or a timeout stops half-way: what is said, and that the next run comes through."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyVmomi import vim

from components.fabric.vcenter.client import VCenter, session
from components.fabric.vcenter.power import is_on
from simulator.vcenter.control import SOCKET, Control
from tests.integration.conftest import require_engine
from tests.integration.fabric_stack import Vsphere, a_stack, a_worker
from tests.integration.role import beyond_the_role
from tests.integration.vcenter import a_machine, done, network_named, running

pytestmark = [pytest.mark.sim, pytest.mark.whole]

H0, H1, H2 = "DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"
TEMPLATE, SPARE = "DC0_C0_RP0_VM0", "spare"
LEFT = (
    "distributed switch rail-a exists in the vCenter, but this stack does not know it. Nothing was removed. "
    "It has no host and no port group, so its creation was probably interrupted. Delete it in vCenter, then run again"
)


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("control") / SOCKET


@pytest.fixture
def control(socket: Path) -> Iterator[Control]:
    asked = Control(socket)
    yield asked
    asked.clear()


@pytest.fixture(scope="module")
def stack(socket: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vsphere]:
    require_engine()
    folder = tmp_path_factory.mktemp("halfway")
    with running(folder, f"-control={socket}") as endpoint:
        made = a_stack(folder, endpoint)
        made.fabric["switches"][0]["hosts"][2]["vmkernel"] = {"existing": "vmk0"}
        made.nodes = [a_worker(1), a_worker(2)]
        yield made


def words(said: str) -> str:
    assert "Traceback" not in said, said[-3000:]
    return " ".join(said.split())


def machines(stack: Vsphere, name: str) -> list[str]:
    """Ids of the VMs of a name, which tell one copy from the next."""
    with session(stack.endpoint) as vcenter:
        return [one._GetMoId() for one in named(vcenter, name)]


def take_away(stack: Vsphere, name: str) -> None:
    """Deletes a VM by hand."""
    with session(stack.endpoint) as vcenter:
        for machine in named(vcenter, name):
            if is_on(vcenter, machine):
                done(machine.PowerOffVM_Task())
            done(machine.Destroy_Task())


def named(vcenter: VCenter, name: str) -> list[vim.VirtualMachine]:
    return [one for one in vcenter.host(H0).parent.parent.parent.vmFolder.childEntity if one.name == name]


def test_a_nic_that_another_switch_takes_after_the_preflight_is_named_and_never_taken_back(
    stack: Vsphere, control: Control
) -> None:
    taken = {"name": H1, "nic": "vmnic4", "nic_switch": "vSwitch1"}
    control.fault("meanwhile", method="CreateDVS_Task", does={"host": taken}, times=1)

    first = words(stack.pulumi("up", fails=True))
    second = words(stack.pulumi("preview", fails=True))
    control.change_host(H1, nic="vmnic4", nic_switch="")

    told = "uplink of vSwitch1) is in use, and rocelab never takes a NIC away; choose another, or free it"
    assert "Cannot complete a vSphere Distributed Switch operation for one or more host members." in first
    assert [f"{H1}: vmnic4" in said and told in said for said in (first, second)] == [True, True]
    assert f"{H0}: vmnic4" not in first, "only whose NIC is taken"
    assert LEFT in first, "vCenter keeps it, and has told nobody its id"


def test_the_switch_that_a_vcenter_keeps_of_such_a_run_is_named_until_its_owner_has_deleted_it(stack: Vsphere) -> None:
    said = words(stack.pulumi("up", fails=True))
    with session(stack.endpoint) as vcenter:
        kept = network_named(vcenter.host(H0), "rail-a")
        members = kept.config.host
        done(kept.Destroy_Task())

    assert "The name 'rail-a' already exists." in said
    assert LEFT in said
    assert not members


def test_a_port_group_of_that_name_that_the_stack_does_not_know_is_named(stack: Vsphere) -> None:
    dvs = vim.dvs.VmwareDistributedVirtualSwitch
    group = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name="rail-a-hosts", type="earlyBinding", numPorts=8)
    with session(stack.endpoint) as vcenter:
        folder = vcenter.host(H0).parent.parent.parent.networkFolder
        spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=dvs.ConfigSpec(name="theirs"))
        done(folder.CreateDVS_Task(spec))
        theirs = network_named(vcenter.host(H0), "theirs")
        done(theirs.AddDVPortgroup_Task([group]))

        said = words(stack.pulumi("up", fails=True))
        done(network_named(vcenter.host(H0), "rail-a-hosts").Destroy_Task())
        done(theirs.Destroy_Task())

    assert "network rail-a-hosts exists in the vCenter, but this stack does not know it. Nothing was removed" in said
    assert "No VM is connected to it. If an interrupted run left it, delete it in vCenter" in said


def test_a_host_that_leaves_its_switch_is_named_and_comes_back(stack: Vsphere, control: Control) -> None:
    gone = {"host": H0, "switch": "rail-a"}
    control.fault("meanwhile", method="AddVirtualNic", does={"leave": gone}, times=1)

    first = words(stack.pulumi("up", fails=True))

    assert "The host is no member of the distributed switch." in first
    assert f"{H0}: is no longer a member of rail-a" in first
    assert "pulumi up --refresh --run-program to add it again" in first
    assert not machines(stack, "gpu01"), "none starts before every host is set up"


def test_an_adapter_that_a_killed_run_has_left_is_named_and_gets_no_double(stack: Vsphere) -> None:
    """As after a kill between the vCenter's answer and its place in the state: the stack made it, and does not know."""
    address = vim.host.IpConfig(dhcp=False, ipAddress="10.10.11.201", subnetMask="255.255.255.0")
    with session(stack.endpoint) as vcenter:
        network = vcenter.host(H0).configManager.networkSystem
        left = network.AddVirtualNic("", vim.host.VirtualNic.Specification(ip=address))

    said = words(stack.pulumi("up", "--refresh", "--run-program", fails=True))
    with session(stack.endpoint) as vcenter:
        adapters = sorted(vcenter.vmkernel_names(vcenter.host(H0)))
        vcenter.host(H0).configManager.networkSystem.RemoveVirtualNic(left)

    assert f"{H0}: {left} already has 10.10.11.201, but does not belong to this stack" in said
    assert f"set vmkernel: {{existing: {left}}}" in said
    assert adapters == ["vmk0", left]


def test_an_unknown_copy_is_named_and_left_to_its_owner(stack: Vsphere, control: Control) -> None:
    stack.nodes = [a_worker(1)]
    control.fault("untold", times=1)

    said = words(stack.pulumi("up", "--refresh", "--run-program", fails=True))
    left = machines(stack, "gpu01")
    again = words(stack.pulumi("up", fails=True))
    kept = machines(stack, "gpu01")
    take_away(stack, "gpu01")
    control.fault("customise", times=1)
    after = words(stack.pulumi("up", fails=True))

    assert f"nodes.gpu01: the copy of template {TEMPLATE} to datastore LocalDS_0 did not end within" in said
    assert "machine.clone_timeout_minutes (30)" in said
    assert stack.seen(H0) == ("vmk1", True), "the host that had left its switch was set up by this run"
    assert "nodes.gpu01: a VM of that name exists in the vCenter, but this stack does not know it" in again
    assert (len(left), kept) == (1, left)
    assert "nodes.gpu01: its guest did not apply its name and addresses" in after


def test_a_guest_without_name_and_addresses_does_not_pass_for_one_that_is_made(
    stack: Vsphere, control: Control
) -> None:
    said = words(stack.pulumi("up", fails=True))
    take_away(stack, "gpu01")
    stack.pulumi("up", "--refresh", "--run-program")

    assert "gpu01: its guest failed to apply its name and addresses (NicSettingMismatch)" in said
    assert "To create it again, delete gpu01 in vCenter, then run pulumi up --refresh --run-program" in said
    assert len(machines(stack, "gpu01")) == 1


def test_another_owner_s_vm_of_that_name_is_left_alone(stack: Vsphere, control: Control) -> None:
    with session(stack.endpoint) as vcenter:
        a_machine(vcenter.host(H1), "gpu02")
    theirs = machines(stack, "gpu02")
    stack.nodes = [stack.nodes[0], a_worker(2)]

    said = words(stack.pulumi("up", fails=True))
    kept = machines(stack, "gpu02")
    take_away(stack, "gpu02")

    assert "nodes.gpu02: a VM of that name exists in the vCenter, but this stack does not know it" in said
    assert kept == theirs


def test_a_template_that_goes_away_before_it_is_copied_is_named(stack: Vsphere, control: Control) -> None:
    with session(stack.endpoint) as vcenter:
        template = named(vcenter, TEMPLATE)[0]
        where = vim.vm.RelocateSpec(pool=template.resourcePool)
        done(template.CloneVM_Task(template.parent, SPARE, vim.vm.CloneSpec(location=where)))
    stack.nodes[1]["machine"]["template"] = SPARE
    control.fault("meanwhile", method="CloneVM_Task", does={"delete": SPARE}, times=1)

    said = words(stack.pulumi("up", fails=True))
    stack.nodes[1]["machine"]["template"] = TEMPLATE
    stack.pulumi("up")
    stack.pulumi("up", "--expect-no-changes")

    assert f"nodes.gpu02: template {SPARE}, or another object that the copy needs, disappeared during the run" in said
    assert beyond_the_role(control.calls(), ["AddDVPortgroup_Task", "CreateVM_Task"]) == []

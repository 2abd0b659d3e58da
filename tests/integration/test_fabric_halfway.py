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
from tests.messages import lines_naming

pytestmark = [pytest.mark.sim, pytest.mark.whole]

H0, H1, H2 = "DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"
TEMPLATE, SPARE = "DC0_C0_RP0_VM0", "spare"


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


def untraced(said: str) -> str:
    assert "Traceback" not in said, said[-3000:]
    return said


def of_the_empty_switch(said: str) -> list[str]:
    """The lines about a switch that nothing uses: it can only be deleted, and there is nothing to adopt."""
    return [line for line in lines_naming(said, "switch rail-a", "Delete it") if "use: adopt" not in line]


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

    first = untraced(stack.pulumi("up", fails=True))
    second = untraced(stack.pulumi("preview", fails=True))
    control.change_host(H1, nic="vmnic4", nic_switch="")

    cannot_complete = "Cannot complete a vSphere Distributed Switch operation for one or more host members."
    assert cannot_complete in " ".join(first.split()), "vCenter's own error"
    assert all(lines_naming(said, f"{H1}:", "vmnic4", "uplink of vSwitch1") for said in (first, second))
    assert f"{H0}: vmnic4" not in first, "only whose NIC is taken"
    assert of_the_empty_switch(first), "vCenter keeps it, and has told nobody its id"


def test_the_switch_that_a_vcenter_keeps_of_such_a_run_is_named_until_its_owner_has_deleted_it(stack: Vsphere) -> None:
    said = untraced(stack.pulumi("up", fails=True))
    with session(stack.endpoint) as vcenter:
        kept = network_named(vcenter.host(H0), "rail-a")
        members = kept.config.host
        done(kept.Destroy_Task())

    assert "The name 'rail-a' already exists." in " ".join(said.split()), "vCenter's own error"
    assert of_the_empty_switch(said)
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

        said = untraced(stack.pulumi("up", fails=True))
        done(network_named(vcenter.host(H0), "rail-a-hosts").Destroy_Task())
        done(theirs.Destroy_Task())

    assert lines_naming(said, "network rail-a-hosts", "No VM", "delete it")


def test_a_host_that_leaves_its_switch_is_named_and_comes_back(stack: Vsphere, control: Control) -> None:
    gone = {"host": H0, "switch": "rail-a"}
    control.fault("meanwhile", method="AddVirtualNic", does={"leave": gone}, times=1)

    first = untraced(stack.pulumi("up", fails=True))

    assert "The host is no member of the distributed switch." in " ".join(first.split()), "vCenter's own error"
    assert lines_naming(first, f"{H0}:", "rail-a", "--refresh")
    assert not machines(stack, "gpu01"), "none starts before every host is set up"


def test_an_adapter_that_a_killed_run_has_left_is_named_and_gets_no_double(stack: Vsphere) -> None:
    """As after a kill between the vCenter's answer and its place in the state: the stack made it, and does not know."""
    address = vim.host.IpConfig(dhcp=False, ipAddress="10.10.11.201", subnetMask="255.255.255.0")
    with session(stack.endpoint) as vcenter:
        network = vcenter.host(H0).configManager.networkSystem
        left = network.AddVirtualNic("", vim.host.VirtualNic.Specification(ip=address))

    said = untraced(stack.pulumi("up", "--refresh", fails=True))
    with session(stack.endpoint) as vcenter:
        adapters = sorted(vcenter.vmkernel_names(vcenter.host(H0)))
        vcenter.host(H0).configManager.networkSystem.RemoveVirtualNic(left)

    assert lines_naming(said, f"{H0}:", "10.10.11.201", f"vmkernel: {{existing: {left}}}")
    assert adapters == ["vmk0", left]


def test_an_unknown_copy_is_named_and_left_to_its_owner(stack: Vsphere, control: Control) -> None:
    stack.nodes = [a_worker(1)]
    control.fault("untold", times=1)

    said = untraced(stack.pulumi("up", "--refresh", fails=True))
    left = machines(stack, "gpu01")
    again = untraced(stack.pulumi("up", fails=True))
    kept = machines(stack, "gpu01")
    take_away(stack, "gpu01")
    control.fault("customise", times=1)
    after = untraced(stack.pulumi("up", fails=True))

    assert lines_naming(said, "nodes.gpu01:", TEMPLATE, "LocalDS_0", "machine.clone_timeout_minutes (30)")
    assert stack.seen(H0) == ("vmk1", True), "the host that had left its switch was set up by this run"
    assert lines_naming(again, "nodes.gpu01:", "nodes.gpu01.machine: {existing: gpu01}")
    assert (len(left), kept) == (1, left)
    assert lines_naming(after, "nodes.gpu01:", "machine.customize_timeout_minutes")


def test_a_guest_without_name_and_addresses_does_not_pass_for_one_that_is_made(
    stack: Vsphere, control: Control
) -> None:
    said = untraced(stack.pulumi("up", fails=True))
    take_away(stack, "gpu01")
    stack.pulumi("up", "--refresh")

    assert lines_naming(said, "gpu01:", "(NicSettingMismatch)", "delete gpu01", "--refresh")
    assert len(machines(stack, "gpu01")) == 1


def test_another_owner_s_vm_of_that_name_is_left_alone(stack: Vsphere, control: Control) -> None:
    with session(stack.endpoint) as vcenter:
        a_machine(vcenter.host(H1), "gpu02")
    theirs = machines(stack, "gpu02")
    stack.nodes = [stack.nodes[0], a_worker(2)]

    said = untraced(stack.pulumi("up", fails=True))
    kept = machines(stack, "gpu02")
    take_away(stack, "gpu02")

    assert lines_naming(said, "nodes.gpu02:", "nodes.gpu02.machine: {existing: gpu02}")
    assert kept == theirs


def test_a_template_that_goes_away_before_it_is_copied_is_named(stack: Vsphere, control: Control) -> None:
    with session(stack.endpoint) as vcenter:
        template = named(vcenter, TEMPLATE)[0]
        where = vim.vm.RelocateSpec(pool=template.resourcePool)
        done(template.CloneVM_Task(template.parent, SPARE, vim.vm.CloneSpec(location=where)))
    stack.nodes[1]["machine"]["template"] = SPARE
    control.fault("meanwhile", method="CloneVM_Task", does={"delete": SPARE}, times=1)

    said = untraced(stack.pulumi("up", fails=True))
    stack.nodes[1]["machine"]["template"] = TEMPLATE
    stack.pulumi("up")
    stack.pulumi("up", "--expect-no-changes")

    assert [line for line in lines_naming(said, "nodes.gpu02:", SPARE) if "clone_timeout_minutes" not in line]
    assert beyond_the_role(control.calls(), ["AddDVPortgroup_Task", "CreateVM_Task"]) == []

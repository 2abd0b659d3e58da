"""The role of the vCenter user: derived from what a lab does, and no more."""

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from components.fabric.vcenter import esxcli
from components.fabric.vcenter.privileges import NEEDS, OPTIONAL, UNVERIFIED, needs_of, privileges
from tests.components.fabric.ova import a_bitfusion
from tests.conftest import ROOT
from tests.integration.role import CALLED, OWN, READS, UNCALLED
from tests.labs import lab_of, section_of

EVERY_ROLE = {"System.Anonymous", "System.View", "System.Read"}


def lab_with(change: Any = lambda _: None):
    content = section_of("Pulumi.lab-pvrdma.yaml")
    change(content)
    return lab_of(content)


def ids(change: Any = lambda _: None):
    lab = lab_with(change)
    return set(privileges(needs_of(lab, lab.fabric)))


def documented() -> dict[str, set[str | None]]:
    """The privilege that the SDK of the API's owner names for a call, where it names one."""
    found: dict[str, set[str | None]] = {}
    for owner in (
        vim.VirtualMachine,
        vim.Folder,
        vim.ClusterComputeResource,
        vim.ComputeResource,
        vim.ResourcePool,
        vim.dvs.VmwareDistributedVirtualSwitch,
        vim.DistributedVirtualSwitch,
        vim.dvs.DistributedVirtualPortgroup,
        vim.host.NetworkSystem,
        vim.host.FirewallSystem,
        vim.option.OptionManager,
        vim.AuthorizationManager,
        vim.EnvironmentBrowser,
        vim.HistoryCollector,
        vim.HttpNfcLease,
        vim.OvfManager,
        vim.SearchIndex,
        vim.ServiceInstance,
        vim.SessionManager,
        vim.dvs.DistributedVirtualSwitchManager,
        vim.event.EventManager,
        vim.host.ImageConfigManager,
        vim.view.View,
        vim.view.ViewManager,
        vmodl.query.PropertyCollector,
        vmodl.query.PropertyCollector.Filter,
    ):
        for info in owner._methodInfo.values():
            found.setdefault(info.wsdlName, set()).add(info.privId)
    return found


@pytest.mark.row("B 318")
def test_each_privilege_is_the_one_that_the_api_documents_for_its_call():
    named = documented()

    checked = 0
    for need in NEEDS:
        for privilege in named.get(need.method, set()) - {None} - EVERY_ROLE:
            ours = {other.privilege for other in NEEDS if other.method == need.method}
            assert privilege in ours, f"{need.method} needs {privilege}"
            checked += 1
    assert checked >= 12, "most calls name theirs"


def test_what_passes_for_reading_needs_by_the_api_what_every_role_has():
    named = documented()

    assert {call: named.get(call) for call in READS if not (named.get(call) or {""}) <= EVERY_ROLE} == {}
    assert {call: named.get(call) for call in OWN if named.get(call) != {None}} == {}
    assert not (READS | OWN) & ({need.method for need in NEEDS} | set(OPTIONAL)), "each call is of one kind"


def test_each_call_of_the_role_is_made_by_a_test_run_or_has_a_reason():
    called = frozenset().union(*CALLED.values())

    assert called | set(UNCALLED) == {need.method for need in NEEDS}, "a privilege that nothing uses goes from the role"
    assert not called & set(UNCALLED)


def test_a_call_that_the_role_leaves_out_is_documented_with_its_privilege():
    text, named = (ROOT / "docs" / "vsphere.md").read_text(), documented()

    for call, privilege in OPTIONAL.items():
        assert named[call] == {privilege}
        assert privilege not in privileges(NEEDS)
        assert f"`{call}`" in text
        assert f"`{privilege}`" in text


def test_a_lab_that_only_looks_things_up_needs_nothing_on_switches():
    def look(lab):
        switch = lab["fabric"]["switches"][0]
        switch.update(use="reference")
        for host in switch["hosts"]:
            host["vmkernel"] = {"existing": "vmk0"}

    found = ids(look)

    assert not [one for one in found if one.startswith(("DVSwitch.", "DVPortgroup."))]
    assert "Host.Config.Network" not in found, "no adapter is made or changed"
    assert {"Host.Config.AdvancedConfig", "Host.Config.NetService"} <= found


def test_adopting_needs_neither_creation_nor_removal():
    found = ids(lambda lab: lab["fabric"]["switches"][0].update(use="adopt"))

    assert {"DVSwitch.Modify", "DVPortgroup.Modify", "DVSwitch.HostOp"} <= found
    assert not found & {"DVSwitch.Create", "DVSwitch.Delete", "DVPortgroup.Create", "DVPortgroup.Delete"}


def test_machines_of_absent_nodes_may_be_taken_away_and_nothing_else():
    def alone(lab):
        for node in lab["nodes"]:
            node["state"] = "absent"

    found = ids(alone)

    of_machines = [one for one in found if one.startswith(("VirtualMachine.", "Datastore.", "Resource."))]
    assert sorted(of_machines) == ["VirtualMachine.Interact.PowerOff", "VirtualMachine.Inventory.Delete"]
    assert "Host.Inventory.EditCluster" in found, "their rules go too"


def test_servers_from_an_ova_alone_need_no_right_to_clone():
    def servers_only(lab):
        for node in lab["nodes"]:
            node["state"] = "absent"
        lab["bitfusion"] = a_bitfusion(Path("any.ova"))

    found = ids(servers_only)

    assert {"VApp.Import", "VirtualMachine.Inventory.Create", "Datastore.AllocateSpace", "Network.Assign"} <= found
    assert {"Resource.AssignVMToPool", "VirtualMachine.Config.Settings", "VirtualMachine.Inventory.Delete"} <= found
    assert not [one for one in found if one.startswith("VirtualMachine.Provisioning.") or one.endswith("FromExisting")]


def test_no_role_has_a_privilege_that_lets_it_out_of_its_lab():
    everything = set(privileges(NEEDS))

    for prefix in ("Authorization.", "Global.", "Sessions.", "Host.Config.Image", "Host.Local.", "Folder.Delete"):
        assert not [one for one in everything if one.startswith(prefix)]


def test_the_calls_of_an_unknown_privilege_are_those_of_esxcli_and_are_documented() -> None:
    executer = VmomiSupport.GetVmodlType("vim.rocelab.MethodExecuter")
    made = {esxcli._begin.wsdlName, *(info.wsdlName for info in executer._methodInfo.values())}

    assert set(UNVERIFIED) == made
    assert not made & {need.method for need in NEEDS}
    text = (ROOT / "docs" / "vsphere.md").read_text()
    assert [call for call in UNVERIFIED if f"`{call}`" not in text] == []


def test_the_documentation_has_the_table() -> None:
    rows = ["| privilege | on | for | call |", "|---|---|---|---|"]
    for privilege in privileges(NEEDS):
        needs = [need for need in NEEDS if need.privilege == privilege]
        places = ", ".join(sorted({need.where for need in needs}))
        parts = ", ".join(dict.fromkeys(f"{need.part} ({need.why})" if need.why else need.part for need in needs))
        calls = ", ".join(dict.fromkeys(f"`{need.method}`" for need in needs))
        rows.append(f"| {privilege} | {places} | {parts} | {calls} |")

    assert "\n".join(rows) + "\n" in (ROOT / "docs" / "vsphere.md").read_text()

"""The role of the vCenter user, as docs/vsphere.md lists it."""

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from components.fabric.vcenter import esxcli
from tests.conftest import ROOT
from tests.integration.role import CALLED, NEEDS, OWN, READS, UNCALLED, UNVERIFIED

EVERY_ROLE = {"System.Anonymous", "System.View", "System.Read"}


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
    assert not (READS | OWN) & ({need.method for need in NEEDS}), "each call is of one kind"


def test_each_call_of_the_role_is_made_by_a_test_run_or_has_a_reason():
    called = frozenset().union(*CALLED.values())

    assert called | set(UNCALLED) == {need.method for need in NEEDS}, "a privilege that nothing uses goes from the role"
    assert not called & set(UNCALLED)


def test_no_role_has_a_privilege_that_lets_it_out_of_its_lab():
    everything = {need.privilege for need in NEEDS}

    for prefix in ("Authorization.", "Global.", "Sessions.", "Host.Config.Image", "Host.Local.", "Folder.Delete"):
        assert not [one for one in everything if one.startswith(prefix)]


def test_the_calls_of_an_unknown_privilege_are_those_of_esxcli_and_are_documented() -> None:
    executer = VmomiSupport.GetVmodlType("vim.rocelab.MethodExecuter")
    made = {esxcli._begin.wsdlName, *(info.wsdlName for info in executer._methodInfo.values())}

    assert set(UNVERIFIED) == made
    assert not made & {need.method for need in NEEDS}
    text = (ROOT / "docs" / "vsphere.md").read_text()
    assert [call for call in UNVERIFIED if f"`{call}`" not in text] == []

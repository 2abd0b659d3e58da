"""What is asked of a vCenter of release 6.7, whose API lacks what came later: nothing that it would refuse."""

import ast
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyVmomi import VmomiSupport, vim, vmodl
from pyVmomi.Version import IsChildVersion

import components.fabric
from components.fabric.preflight.survey import HOST_PATHS
from components.fabric.vcenter.properties import collect, knows
from components.fabric.vms.existing import PATHS

STATUS = "guest.customizationInfo"
"""Only vCenter from 7.0.2 on knows it."""
SITE = "vim.version.version14"
"""6.7.2, which vCenter 6.7 U2 speaks."""
OURS = {path: ast.parse(path.read_text()) for path in sorted(Path(components.fabric.__path__[0]).rglob("*.py"))}
KINDS = (
    vim.HostSystem,
    vim.VirtualMachine,
    vim.ClusterComputeResource,
    vim.dvs.VmwareDistributedVirtualSwitch,
    vim.dvs.DistributedVirtualPortgroup,
    vim.Datacenter,
    vim.Datastore,
    vim.Network,
    vim.Task,
    vim.ServiceInstance,
)
LATER = {
    "rdmaDevice": "esxcli rdma device list is asked",
    "pairedUplink": "of rdmaDevice",
    "connectionInfo": "of rdmaDevice",
    "firmwareVersion": "esxcli network nic get is asked",
    "configManagerEnabled": "there are no vSphere Configuration Profiles",
    "userControllable": "the refusal of the call tells it",
}
"""What 6.7 does not have and the fabric reads, with what stands in for it."""


def test_the_paths_asked_of_hosts_and_machines_are_real_and_known_to_6_7_but_two():
    for kind, paths in ((vim.HostSystem, HOST_PATHS), (vim.VirtualMachine, PATHS)):
        assert [path for path in paths if not is_path(kind, path)] == []
        assert [path for path in paths if not knows(SITE, kind, path)] == []
    assert not knows(SITE, vim.ComputeResource, "configManagerEnabled")
    assert not knows(SITE, vim.HostSystem, "config.network.rdmaDevice")
    assert knows("vim.version.v8_0_2_0", vim.ComputeResource, "configManagerEnabled")


def is_path(kind, path):
    """Whether pyVmomi's newest tables have it."""
    for step in path.split("."):
        try:
            kind = kind._GetPropertyInfo(step).type
        except AttributeError:
            return False
    return True


def test_no_path_in_the_fabric_is_newer_than_6_7_but_those_that_are_left_out():
    newer = {
        (kind.__name__.rpartition(".")[2], path)
        for path in texts()
        for kind in KINDS
        if is_path(kind, path) and not knows(SITE, kind, path)
    }

    assert newer == {("ClusterComputeResource", "configManagerEnabled")}


def texts() -> Iterator[str]:
    for tree in OURS.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.replace(".", "").isalnum():
                yield node.value


def test_no_api_call_is_newer_than_6_7_except_those_with_a_fallback():
    oldest = versions()
    used = {
        word
        for tree in OURS.values()
        for node in ast.walk(tree)
        for word in words(node)
        if not word.islower()  # such a word is one of Python's too
    }
    newer = {word for word in used & oldest.keys() if not any(IsChildVersion(SITE, one) for one in oldest[word])}

    assert len(used & oldest.keys()) > 100, "the fabric's words are found at all"
    assert newer == LATER.keys()


def words(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.keyword):
        return [node.arg or ""]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split(".")
    return []


def versions() -> dict[str, set[str]]:
    """The API versions that each property and each method came with, whatever type it is of."""
    found: dict[str, set[str]] = {}
    for table in (VmomiSupport._dataDefMap, VmomiSupport._managedDefMap):
        for described in list(table.values()):
            if not described[0].startswith(("vim.", "vmodl.")):
                continue
            for name, _, version, *_ in described[4] or ():
                found.setdefault(name, set()).add(version)
            for _, name, version, *_ in (described[5] or ()) if table is VmomiSupport._managedDefMap else ():
                found.setdefault(name, set()).add(version)
    return found


def test_no_field_of_a_specification_is_newer_than_6_7_which_would_lose_it_without_a_word():
    given = [
        (name, keyword.arg)
        for tree in OURS.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)).startswith("vim.")
        for keyword in node.keywords
    ]
    kinds = {name: VmomiSupport.GetVmodlType(name) for name, _ in given}

    assert len(given) > 20, "the specifications are found at all"
    assert [(name, arg) for name, arg in given if not knows(SITE, kinds[name], arg)] == []
    assert knows(SITE, vim.vm.device.VirtualVmxnet3Vrdma, "deviceProtocol"), "set without a constructor"


@pytest.mark.parametrize(("version", "paths"), [(SITE, ["name"]), ("vim.version.v8_0_2_0", ["name", STATUS])])
def test_what_the_vcenter_is_too_old_to_know_is_not_asked_for(version, paths):
    asked = []

    def retrieve(specs):
        asked.extend(specs)
        return [SimpleNamespace(obj=machine, propSet=[vmodl.DynamicProperty(name="name", val="gpu01")])]

    machine = vim.VirtualMachine("vm-1")
    collector = SimpleNamespace(_stub=SimpleNamespace(version=version), RetrieveContents=retrieve)

    found = collect(SimpleNamespace(propertyCollector=collector), [machine], ["name", STATUS])

    assert [one.propSet[0].pathSet for one in asked] == [paths]
    assert found == [{"name": "gpu01"}]

"""The calls that a lab's run makes in a vCenter, and the privilege of each. Pure.

The check of the preflight comes from this table, and a test compares docs/vsphere.md with it.
Reading needs no entry: every role has System.Anonymous, System.View and System.Read.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stacks.fabric import DistributedSwitch, Fabric
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm

Part = Literal[
    "new switch",
    "any switch",
    "adopted switch",
    "new port group",
    "adopted port group",
    "vmkernel adapter",
    "PVRDMA settings",
    "machine",
    "any machine",
    "clone",
    "any clone",
    "vGPU",
    "appliance",
]
Where = Literal["host", "cluster", "datacenter"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """One call and its privilege."""

    part: Part
    method: str
    """As the API names it."""
    privilege: str
    where: Where = "datacenter"
    """The narrowest object that the role has to be given on."""
    why: str = ""


def _needs(part: Part, where: Where, *rows: tuple[str, str, str]) -> tuple[Need, ...]:
    needs = []
    for method, privilege, why in rows:
        needs.append(Need(part=part, method=method, privilege=privilege, where=where, why=why))
    return tuple(needs)


NEEDS: tuple[Need, ...] = (
    *_needs(
        "new switch",
        "datacenter",
        ("CreateDVS_Task", "DVSwitch.Create", ""),
        ("Destroy_Task", "DVSwitch.Delete", "a destroy, or a switch that leaves the lab"),
    ),
    *_needs(
        "any switch",
        "datacenter",
        ("ReconfigureDvs_Task", "DVSwitch.Modify", "MTU, uplinks"),
        ("ReconfigureDvs_Task", "DVSwitch.HostOp", "hosts join and leave"),
        ("EnableNetworkResourceManagement", "DVSwitch.ResourceManagement", "network I/O control"),
    ),
    *_needs(
        "any switch",
        "host",
        ("ReconfigureDvs_Task", "Host.Config.Network", "a host's NIC becomes an uplink"),
    ),
    *_needs(
        "adopted switch",
        "datacenter",
        ("PerformDvsProductSpecOperation_Task", "DVSwitch.Modify", "a declared version is newer"),
    ),
    *_needs(
        "new port group",
        "datacenter",
        ("CreateDVPortgroup_Task", "DVPortgroup.Create", ""),
        ("ReconfigureDVPortgroup_Task", "DVPortgroup.Modify", "another VLAN"),
        ("Destroy_Task", "DVPortgroup.Delete", ""),
    ),
    *_needs(
        "adopted port group",
        "datacenter",
        ("ReconfigureDVPortgroup_Task", "DVPortgroup.Modify", "a declared VLAN"),
    ),
    *_needs(
        "vmkernel adapter",
        "host",
        ("AddVirtualNic", "Host.Config.Network", ""),
        ("UpdateVirtualNic", "Host.Config.Network", "another address or MTU"),
        ("RemoveVirtualNic", "Host.Config.Network", ""),
    ),
    *_needs(
        "vmkernel adapter",
        "datacenter",
        ("AddVirtualNic", "Network.Assign", "it is on the port group"),
    ),
    *_needs(
        "PVRDMA settings",
        "host",
        ("UpdateOptions", "Host.Config.AdvancedConfig", "Net.PVRDMAVmknic"),
        ("EnableRuleset", "Host.Config.NetService", "the ruleset pvrdma"),
        ("DisableRuleset", "Host.Config.NetService", "closed again where it was closed before"),
    ),
    *_needs(
        "machine",
        "datacenter",
        ("ReconfigVM_Task", "VirtualMachine.Config.CPUCount", ""),
        ("ReconfigVM_Task", "VirtualMachine.Config.Memory", ""),
        ("ReconfigVM_Task", "VirtualMachine.Config.Resource", "all memory is reserved"),
        ("ReconfigVM_Task", "VirtualMachine.Config.AddRemoveDevice", "adapters"),
        ("ReconfigVM_Task", "VirtualMachine.Config.EditDevice", ""),
        (
            "ReconfigVM_Task",
            "VirtualMachine.Config.DiskExtend",
            "the system disk is larger than the template's",
        ),
        ("ReconfigVM_Task", "VirtualMachine.Config.Settings", ""),
        ("ReconfigVM_Task", "VirtualMachine.Config.AdvancedConfig", ""),
        ("ReconfigVM_Task", "VirtualMachine.Config.Annotation", "the note that says whose it is"),
        ("Rename_Task", "VirtualMachine.Config.Rename", "a node that was formerly another"),
        (
            "UpgradeVM_Task",
            "VirtualMachine.Config.UpgradeVirtualHardware",
            "a newer hardware version",
        ),
        ("PowerOnVM_Task", "VirtualMachine.Interact.PowerOn", ""),
        (
            "PbmQueryAssociatedProfile",
            "StorageProfile.View",
            "the provider reads each machine's storage policy",
        ),
    ),
    *_needs(
        "any machine",
        "datacenter",
        ("PowerOffVM_Task", "VirtualMachine.Interact.PowerOff", "one of an absent node too"),
        ("ShutdownGuest", "VirtualMachine.Interact.PowerOff", "one of an absent node too"),
        ("Destroy_Task", "VirtualMachine.Inventory.Delete", "one of an absent node too"),
    ),
    *_needs(
        "clone",
        "datacenter",
        ("CloneVM_Task", "VirtualMachine.Provisioning.DeployTemplate", "from a template"),
        ("CloneVM_Task", "VirtualMachine.Provisioning.Clone", "from a VM that is no template"),
        ("CloneVM_Task", "VirtualMachine.Inventory.CreateFromExisting", ""),
        ("CloneVM_Task", "Datastore.AllocateSpace", ""),
        ("CloneVM_Task", "Network.Assign", ""),
        ("CustomizeVM_Task", "VirtualMachine.Provisioning.Customize", "name and addresses"),
    ),
    *_needs("clone", "cluster", ("CloneVM_Task", "Resource.AssignVMToPool", "")),
    *_needs(
        "any clone",
        "cluster",
        (
            "ReconfigureComputeResource_Task",
            "Host.Inventory.EditCluster",
            "rules that keep workers apart, or in place",
        ),
    ),
    *_needs(
        "vGPU",
        "datacenter",
        ("ReconfigVM_Task", "VirtualMachine.Config.AddRemoveDevice", "the vGPU"),
    ),
    *_needs(
        "appliance",
        "datacenter",
        ("ImportVApp", "VApp.Import", ""),
        ("ImportVApp", "VirtualMachine.Inventory.Create", ""),
        ("ImportVApp", "VirtualMachine.Config.AddNewDisk", ""),
        ("ImportVApp", "Datastore.AllocateSpace", ""),
        ("ImportVApp", "Network.Assign", ""),
        ("ReconfigVM_Task", "VirtualMachine.Config.Settings", "its OVF properties"),
    ),
    *_needs("appliance", "cluster", ("ImportVApp", "Resource.AssignVMToPool", "")),
)


UNVERIFIED = ("RetrieveManagedMethodExecuter", "ExecuteSoap")
"""Calls of a run whose privilege no documentation names: esxcli.

Measurements read an HCA's counters through it; the preflight reads driver versions that a host
reports in no other way, and the RDMA devices of ESXi before 7.0. None of this changes anything. If
it is refused, a version stays unknown, `pvrdma_path` is skipped, and a host before 7.0 is a fault
that names the privilege.
"""

OPTIONAL = {"fetchSoftwarePackages": "Host.Config.Image"}
"""Optional calls, with the privilege that the role leaves out.

It reads the version of the vGPU driver; the same privilege lets its owner change what a host boots.
"""


def needs_of(lab: Lab, fabric: Fabric) -> tuple[Need, ...]:
    """The calls that this lab makes."""
    parts = set(_parts(lab, fabric))
    return tuple(need for need in NEEDS if need.part in parts)


def privileges(needs: Iterable[Need], where: Where | None = None) -> tuple[str, ...]:
    """The privileges, each once, sorted."""
    return tuple(sorted({need.privilege for need in needs if where in (None, need.where)}))


def _parts(lab: Lab, fabric: Fabric) -> Iterable[Part]:
    for switch in fabric.switches:
        yield from _parts_of(switch)
    # the VM of an absent node is deleted
    machines = [node for node in lab.nodes if isinstance(node, VsphereVm)]
    if any(isinstance(node.machine, Machine) for node in machines):
        yield from ("any machine", "any clone")
    if any(isinstance(node.machine, Machine) for node in lab.vms):
        yield from ("machine", "clone")
    if any(node.vgpu is not None and isinstance(node.machine, Machine) for node in lab.vms):
        yield "vGPU"
    if lab.bitfusion is not None:
        yield from ("machine", "any machine", "appliance")


def _parts_of(switch: DistributedSwitch) -> Iterable[Part]:
    for host in switch.hosts:
        if host.vmkernel is not None:
            yield "PVRDMA settings"
            if host.vmkernel.use == "adopt" or host.vmkernel.address is not None:
                yield "vmkernel adapter"
    if switch.use == "create":
        yield from ("new switch", "any switch")
    elif switch.use == "adopt":
        yield from ("any switch", "adopted switch")
    if switch.group_use == "create":
        yield "new port group"
    elif switch.group_use == "adopt":
        yield "adopted port group"

"""The VMs of a lab that are there already: what the lab declares of each, placed as resources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.fabric.adopt_machine import AdoptedMachine, AdoptedMachineArgs
from components.fabric.machine_baseline import MachineBaseline
from components.fabric.vms.theirs import ADAPTER, ALL, OPTION, RESERVATION, ROCE_VERSION, VGPUS
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.machines import ExistingMachine
from stacks.nodes import VsphereVm
from stacks.rules.machines import hardware_needed


def declared(node: VsphereVm, machine: ExistingMachine) -> dict[str, str | int | bool]:
    """By field, what the lab says of a VM; no default of ours is among it."""
    wanted: dict[str, str | int | bool] = {}
    if machine.cpus is not None:
        wanted["cpus"] = machine.cpus
    if machine.memory_mbytes is not None:
        wanted["memory_mbytes"] = machine.memory_mbytes
    if node.pfs or node.vgpu:
        # both hand guest memory to hardware, so this is declared with them
        wanted[RESERVATION] = ALL
    if node.vgpu is not None:
        wanted[VGPUS] = ",".join([node.vgpu.profile] * node.vgpu.count)
        if node.vgpu.mmio_gbytes is not None:
            # only where it is named: what the machine has may be more than the rule gives, and needed
            wanted[f"{OPTION}pciPassthru.use64bitMMIO"] = "TRUE"
            wanted[f"{OPTION}pciPassthru.64bitMMIOSizeGB"] = str(node.vgpu.mmio_gbytes)
    for pf in node.pfs:
        wanted[ADAPTER + pf.rail] = True
        if machine.roce_version is not None:
            wanted[ROCE_VERSION + pf.rail] = machine.roce_version
    return wanted


@dataclass(frozen=True, kw_only=True, slots=True)
class AdoptionArgs:
    """What an adoption has to know beside its node."""

    lab: Lab
    fabric: Fabric
    port_groups: Mapping[str, pulumi.Input[str]]
    """Managed object id by rail."""
    hosts: Sequence[str]
    """The ESXi hosts that the node's rails reach."""


def adopt(
    name: str, node: VsphereVm, machine: ExistingMachine, args: AdoptionArgs, opts: pulumi.ResourceOptions
) -> tuple[MachineBaseline, AdoptedMachine]:
    """Places one VM: what it had, then what it is given; the options are those of both."""
    lab, fabric, port_groups = args.lab, args.fabric, args.port_groups
    path, wanted = f"{fabric.datacenter}/{machine.existing}", declared(node, machine)
    networks = {pf.rail: port_groups[pf.rail] for pf in node.pfs}
    least, needs = hardware_needed(node, lab.nodes, lab.hosts)

    def named(end: str) -> pulumi.ResourceOptions:
        before = [pulumi.Alias(name=name.removesuffix(node.name) + node.formerly + end)] if node.formerly else []
        return pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(aliases=before))

    baseline = MachineBaseline(f"{name}-baseline", path, list(wanted), networks, named("-baseline"))
    asked = AdoptedMachineArgs(
        path=path,
        wanted=wanted,
        networks=networks,
        baseline=baseline,
        allow_power_off=machine.allow_power_off,
        terms={
            "hosts": list(args.hosts),
            "host": machine.host or "",
            "least_hardware": least,
            "needs": needs,
            "several_pvrdma": machine.several_pvrdma,
            "guest_s": 0 if lab.simulated else lab.hosts.reboot_wait_s,
        },
    )
    # the baseline stands in the state before anything is set, whatever it found
    after = pulumi.ResourceOptions.merge(named("-existing"), pulumi.ResourceOptions(depends_on=[baseline]))
    return baseline, AdoptedMachine(f"{name}-existing", asked, after)

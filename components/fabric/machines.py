"""The VMs of a lab: cloned from a template, all memory reserved, PVRDMA on every rail, one worker a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_vsphere as vsphere

from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.nodes import VsphereVm

MANAGEMENT = "vmxnet3"
PVRDMA = "vmxnet3vrdma"
"""The provider's own text says `vrdma`, which its code refuses."""
GUEST_NET_MINUTES = 15


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinesArgs:
    """Inputs of `Machines`."""

    lab: Lab
    fabric: Fabric
    datacenter: pulumi.Input[str]
    port_groups: Mapping[str, pulumi.Input[str]]
    """Managed object id by rail."""
    lookups: pulumi.InvokeOutputOptions


class Machines(pulumi.ComponentResource):
    """Every VM of the lab that is not absent."""

    def __init__(self, name: str, args: MachinesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:fabric:Machines", name, None, opts)
        self._name, self._args = name, args
        self._cluster = vsphere.get_compute_cluster_output(
            name=args.fabric.cluster, datacenter_id=args.datacenter, opts=args.lookups
        )
        nodes = machines_of(args.lab)
        made = {node.name: self._machine(node) for node in nodes}
        free = [made[node.name].id for node in nodes if node.machine.host is None and node.role == "worker"]
        if len(free) > 1:
            vsphere.ComputeClusterVmAntiAffinityRule(
                f"{name}-apart",
                name=f"rocelab-{args.lab.name}-workers",
                compute_cluster_id=self._cluster.id,
                virtual_machine_ids=free,
                mandatory=True,  # two workers on one host talk by memory copies: a benchmark would measure nothing
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.register_outputs({})

    def _machine(self, node: VsphereVm) -> vsphere.VirtualMachine:
        args, wanted = self._args, node.machine
        datacenter, lookups = args.datacenter, args.lookups
        host = (
            vsphere.get_host_output(name=wanted.host, datacenter_id=datacenter, opts=lookups).id
            if wanted.host
            else None
        )
        management = vsphere.get_network_output(
            name=wanted.management_network, datacenter_id=datacenter, opts=lookups
        ).id
        adapters = [(MANAGEMENT, management), *((PVRDMA, args.port_groups[pf.rail]) for pf in node.pfs)]
        return vsphere.VirtualMachine(
            f"{self._name}-{node.name}",
            name=node.name,
            annotation=f"made by rocelab for lab {args.lab.name}",
            resource_pool_id=self._cluster.resource_pool_id,
            host_system_id=host,
            datastore_id=vsphere.get_datastore_output(name=wanted.datastore, datacenter_id=datacenter, opts=lookups).id,
            guest_id=wanted.guest_id,
            hardware_version=wanted.hardware_version,
            num_cpus=wanted.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=wanted.memory_mbytes,
            memory_reservation=wanted.memory_mbytes,
            memory_reservation_locked_to_max=True,
            network_interfaces=[
                vsphere.VirtualMachineNetworkInterfaceArgs(network_id=network, adapter_type=kind)
                for kind, network in adapters
            ],
            disks=[vsphere.VirtualMachineDiskArgs(label="system", size=wanted.disk_gbytes)],
            clone=vsphere.VirtualMachineCloneArgs(
                template_uuid=vsphere.get_virtual_machine_output(
                    name=wanted.template, datacenter_id=datacenter, opts=lookups
                ).id,
                customize=_customization(node),
            ),
            # a simulated machine has no guest that could report an address
            wait_for_guest_net_timeout=0 if args.lab.simulated else GUEST_NET_MINUTES,
            opts=pulumi.ResourceOptions(
                parent=self,
                aliases=[pulumi.Alias(name=f"{self._name}-{node.formerly}")] if node.formerly else [],
                protect=None if args.lab.simulated else True,
                # a template that is replaced by a newer one must not replace the machines made from the old one
                ignore_changes=["clone"],
            ),
        )


def machines_of(lab: Lab) -> Sequence[VsphereVm]:
    """The nodes that the fabric makes, in their order."""
    return [node for node in lab.nodes if isinstance(node, VsphereVm) and node.state != "absent"]


def _customization(node: VsphereVm) -> vsphere.VirtualMachineCloneCustomizeArgs:
    """Name and addresses; matched to the adapters by their position."""
    wanted = node.machine
    addresses = [(str(node.address), wanted.prefix_length)]
    addresses += [(str(pf.address.ip), pf.address.network.prefixlen) for pf in node.pfs]
    return vsphere.VirtualMachineCloneCustomizeArgs(
        linux_options=vsphere.VirtualMachineCloneCustomizeLinuxOptionsArgs(host_name=node.name, domain=wanted.domain),
        network_interfaces=[
            vsphere.VirtualMachineCloneCustomizeNetworkInterfaceArgs(ipv4_address=address, ipv4_netmask=length)
            for address, length in addresses
        ],
        ipv4_gateway=str(wanted.gateway) if wanted.gateway else None,
        dns_server_lists=[str(server) for server in wanted.dns_servers],
    )

"""How a VM is cloned: with name and addresses, and the remedy told where it fails."""

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.vms.halfway import remedy
from components.fabric.vms.members import machines_of
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm


def clone_hooks(name: str, lab: Lab) -> pulumi.ResourceHookBinding:
    """What is said beside the provider's error when a VM named `name`-node cannot be made. Asks nobody."""
    machines = {
        f"{name}-{node.name}": (node.name, node.machine)
        for node in machines_of(lab)
        if isinstance(node.machine, Machine)
    }

    def explain(failed: pulumi.ErrorHookArgs) -> bool:
        """True would have the engine try again at once, which mends none of the causes."""
        known = machines.get(failed.name)  # a change or a removal fails for other reasons than a copy
        if failed.failed_operation == "create" and known and (said := remedy(*known, failed.errors)):
            pulumi.log.error(said)
        return False

    return pulumi.ResourceHookBinding(on_error=[pulumi.ErrorHook(f"{name}-remedy", explain)])


def clone_of(node: VsphereVm, wanted: Machine, template: pulumi.Input[str]) -> vsphere.VirtualMachineCloneArgs:
    """How a machine is made from its template.

    Args:
        node: whose machine it is.
        wanted: the machine.
        template: UUID of the template.
    """
    return vsphere.VirtualMachineCloneArgs(
        template_uuid=template, timeout=wanted.clone_timeout_minutes, customize=_customization(node, wanted)
    )


def _customization(node: VsphereVm, wanted: Machine) -> vsphere.VirtualMachineCloneCustomizeArgs:
    """Name and addresses; matched to the adapters by their position."""
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
        timeout=wanted.customize_timeout_minutes,
    )

"""How a VM is cloned: with name and addresses, room made before it, and the remedy told where it fails."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.endpoint import peer_of
from components.fabric.halfway import MARK, Copy, make_room, remedy
from components.fabric.members import machines_of
from components.fabric.vcenter import Endpoint, session
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm

__all__ = ["MARK", "CloneHooksArgs", "clone_hooks", "clone_of", "endpoint_now"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CloneHooksArgs:
    """What the hooks work with."""

    lab: Lab
    fabric: Fabric
    password: pulumi.Input[str]


def clone_hooks(name: str, args: CloneHooksArgs) -> pulumi.ResourceHookBinding:
    """The hooks of all VMs that are cloned and named `name`-node; a preview runs none of them."""
    machines = {
        f"{name}-{node.name}": (node.name, node.machine)
        for node in machines_of(args.lab)
        if isinstance(node.machine, Machine)
    }

    async def room(asked: pulumi.ResourceHookArgs) -> None:
        node, machine = machines[asked.name]
        endpoint = await endpoint_now(args.fabric, args.password)
        wanted = Copy(name=node, template=machine.template, datacenter=args.fabric.datacenter, lab=args.lab.name)

        def at_once() -> None:
            with session(endpoint, pulumi.log.info) as vcenter:
                make_room(vcenter, wanted)

        await asyncio.to_thread(at_once)  # pyVmomi waits for each answer, and the program has other things to do

    def explain(failed: pulumi.ErrorHookArgs) -> bool:
        """True would have the engine try again at once, which mends none of the causes."""
        if said := remedy(*machines[failed.name], failed.errors):
            pulumi.log.error(said)
        return False

    return pulumi.ResourceHookBinding(
        before_create=[pulumi.ResourceHook(f"{name}-room", room)],
        on_error=[pulumi.ErrorHook(f"{name}-remedy", explain)],
    )


async def endpoint_now(fabric: Fabric, password: pulumi.Input[str]) -> Endpoint:
    """The vCenter for whoever looks at it while the program runs."""
    told = await pulumi.Output.from_input(password).future() or ""
    return replace(peer_of(fabric, Path.cwd()), user=fabric.user, password=told)


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

"""Where the VMs of a lab are created, and what each of them needs."""

from collections.abc import Iterable
from dataclasses import field

import pulumi
import pulumi_vsphere as vsphere

from components.provider.program import Declaration
from stacks.fabric import Fabric
from stacks.frozen import frozen
from stacks.lab import Lab

MANAGEMENT = "vmxnet3"
PVRDMA = "vmxnet3vrdma"
"""The provider's own text says `vrdma`, which its code refuses."""


@frozen
class Site:
    """The datacenter of a lab, with port groups and settings as far as they are made."""

    lab: Lab
    fabric: Fabric
    datacenter: pulumi.Input[str]
    lookups: pulumi.InvokeOutputOptions
    preflight: pulumi.Resource
    """No VM is created before it has passed."""
    port_groups: dict[str, pulumi.Output[str]] = field(default_factory=dict)
    """Managed object id by rail."""
    settings: dict[str, Declaration] = field(default_factory=dict)
    """PVRDMA's settings by ESXi host: a VM that starts before them silently falls back to TCP, and
    one that still runs when they are restored loses its connections."""

    def host(self, name: str) -> pulumi.Output[vsphere.GetHostResult]:
        return vsphere.get_host_output(name=name, datacenter_id=self.datacenter, opts=self.lookups)

    def datastore(self, name: str) -> pulumi.Output[str]:
        return vsphere.get_datastore_output(
            name=name, datacenter_id=self.datacenter, opts=self.lookups
        ).id

    def adapters(
        self, management_network: str, rails: Iterable[str]
    ) -> list[vsphere.VirtualMachineNetworkInterfaceArgs]:
        """The management adapter, then a PVRDMA adapter for each rail."""
        management = self.network(management_network)
        interface = vsphere.VirtualMachineNetworkInterfaceArgs
        adapters = [interface(network_id=management, adapter_type=MANAGEMENT)]
        for rail in rails:
            adapters.append(interface(network_id=self.port_groups[rail], adapter_type=PVRDMA))
        return adapters

    def network(self, name: str) -> pulumi.Output[str]:
        return vsphere.get_network_output(
            name=name, datacenter_id=self.datacenter, opts=self.lookups
        ).id

    def guest_net_minutes(self, minutes: int) -> int:
        """How long a power-on waits for an address; a simulated VM may have no guest at all."""
        return 0 if self.lab.simulated else minutes

    @property
    def protect(self) -> bool | None:
        """Whether the engine refuses to delete what is real, short of `pulumi state unprotect`."""
        return None if self.lab.simulated else True

    def set_up(self, hosts: Iterable[str]) -> list[pulumi.Resource]:
        """What must exist before a VM starts on one of the hosts, and as long as it exists."""
        needed: list[pulumi.Resource] = [self.preflight]
        for host in hosts:
            if host in self.settings:
                needed.append(self.settings[host])
        return needed

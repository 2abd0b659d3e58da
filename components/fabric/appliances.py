"""The Bitfusion servers of a lab: from an OVA to a host, all adapters there before the first power-on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.appliance import checked_descriptor, faults_of, properties_of, spelled_out
from components.fabric.machines import MANAGEMENT, PVRDMA, set_up
from components.fabric.ovf import Descriptor
from stacks.base import LabError
from stacks.bitfusion import Bitfusion, BitfusionServer
from stacks.fabric import Fabric
from stacks.lab import Lab
from stacks.nodes import SEVERAL_PVRDMA

GUEST_NET_MINUTES = 15
"""How long a server's tools may take to tell an address."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AppliancesArgs:
    """Inputs of `Appliances`."""

    lab: Lab
    fabric: Fabric
    bitfusion: Bitfusion
    root: Path
    """The checkout, where the OVA's path begins."""
    datacenter: pulumi.Input[str]
    port_groups: Mapping[str, pulumi.Input[str]]
    """Managed object id by rail."""
    password: pulumi.Input[str]
    lookups: pulumi.InvokeOutputOptions
    preflight: pulumi.Resource
    settings: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    """PVRDMA's settings by ESXi host, as for `Machines`."""


class Appliances(pulumi.ComponentResource):
    """Every server; the first enters itself into the vCenter, and the others wait for it."""

    addresses: Mapping[str, str]
    """Management address by name."""

    def __init__(self, name: str, args: AppliancesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:fabric:Appliances", name, None, opts)
        self._name, self._args = name, args
        first, *others = args.bitfusion.servers
        told = {server.name: properties_of(args.bitfusion, server, args.fabric) for server in (first, *others)}
        try:
            descriptor = checked_descriptor(args.bitfusion, args.root)
            self._refuse_what_the_ova_would_not_take(told, descriptor)
        except LabError as error:
            raise pulumi.RunError(str(error)) from None
        made = self._server(first, told[first.name], descriptor, [])
        for server in others:
            self._server(server, told[server.name], descriptor, [made])
        self.addresses = {server.name: str(server.address.ip) for server in (first, *others)}
        self.register_outputs({"addresses": self.addresses})

    def _refuse_what_the_ova_would_not_take(
        self, told: Mapping[str, Mapping[str, str]], descriptor: Descriptor
    ) -> None:
        bitfusion = self._args.bitfusion
        faults: dict[str, None] = {}  # in order, each once: most are the same for all servers
        for server in bitfusion.servers:
            faults |= dict.fromkeys(faults_of(told[server.name], self._password_key(server), descriptor))
        if faults:
            raise LabError("\n".join([f"bitfusion.ova {bitfusion.ova}:", *(f"  {fault}" for fault in faults)]))

    def _password_key(self, server: BitfusionServer) -> str | None:
        return self._args.bitfusion.keys.vcenter_password if server is self._args.bitfusion.servers[0] else None

    def _server(
        self, server: BitfusionServer, told: Mapping[str, str], descriptor: Descriptor, after: list[pulumi.Resource]
    ) -> vsphere.VirtualMachine:
        args = self._args
        datacenter, lookups = args.datacenter, args.lookups
        if len(server.adapters) > 1 and (descriptor.hardware_version or 0) < SEVERAL_PVRDMA:
            pulumi.log.warn(
                f"{server.name} has {len(server.adapters)} PVRDMA adapters: the Bitfusion guide allows three, VMware's "
                "KB 328676 (written for 6.5) one a VM. Nothing here can tell which is right for your version"
            )
        host = vsphere.get_host_output(name=server.host, datacenter_id=datacenter, opts=lookups)
        management = vsphere.get_network_output(
            name=args.bitfusion.management_network, datacenter_id=datacenter, opts=lookups
        ).id
        adapters = [(MANAGEMENT, management), *((PVRDMA, args.port_groups[one.rail]) for one in server.adapters)]
        key = self._password_key(server)
        properties = {**spelled_out(told, descriptor), **({key: args.password} if key else {})}
        return vsphere.VirtualMachine(
            f"{self._name}-{server.name}",
            name=server.name,
            annotation=f"made by rocelab for lab {args.lab.name}",
            datacenter_id=datacenter,
            resource_pool_id=host.resource_pool_id,
            host_system_id=host.id,
            datastore_id=vsphere.get_datastore_output(name=server.datastore, datacenter_id=datacenter, opts=lookups).id,
            num_cpus=server.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=server.memory_mbytes,
            memory_reservation=server.memory_mbytes,
            memory_reservation_locked_to_max=True,
            # the OVA brings the first; the provider adds the others to what it deployed, then powers it on
            network_interfaces=[
                vsphere.VirtualMachineNetworkInterfaceArgs(network_id=network, adapter_type=kind)
                for kind, network in adapters
            ],
            ovf_deploy=vsphere.VirtualMachineOvfDeployArgs(
                local_ovf_path=str((args.root / args.bitfusion.ova).absolute()),
                disk_provisioning="thin",
                ovf_network_map=dict.fromkeys(descriptor.networks, management),
            ),
            vapp=vsphere.VirtualMachineVappArgs(properties=properties),
            wait_for_guest_net_timeout=0 if args.lab.simulated else GUEST_NET_MINUTES,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=[*set_up([server.host], args.preflight, args.settings), *after],
                protect=None if args.lab.simulated else True,
                # a file that was moved or replaced must not replace servers that were made from it; GPUs that somebody
                # passed through to a server are not taken away; and vCenter does not tell a password again
                ignore_changes=["ovfDeploy", "pciDeviceIds", *([f'vapp.properties["{key}"]'] if key else [])],
                additional_secret_outputs=["vapp"] if key else None,
            ),
        )

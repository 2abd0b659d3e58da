"""The VMs of a lab.

Cloned from a template, or existing ones, with PVRDMA on every rail and one worker per ESXi host.

Existing VMs get no DRS rule, and nothing changes or moves them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.machine_hardware import MachineHardware
from components.fabric.placement import Placement
from components.fabric.referenced_machines import ReferencedMachines
from components.fabric.vms.existing import ALL, OPTION, RESERVATION, VGPUS, DeclaredMachine
from components.fabric.vms.guestinfo import SECRET, SETTINGS, guestinfo
from components.provider.program import Declaration
from stacks.fabric import Fabric
from stacks.host_keys import HostKey
from stacks.lab import Lab
from stacks.machines import ExistingMachine, Machine
from stacks.nodes import VsphereVm
from stacks.rules.machines import hardware_needed

MANAGEMENT = "vmxnet3"
PVRDMA = "vmxnet3vrdma"
"""The provider's own text says `vrdma`, which its code refuses."""
RULES = {"apart": "workers", "planes-apart": "control-planes"}
"""The VMs that each rule keeps apart, as vCenter shows its name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinesArgs:
    lab: Lab
    fabric: Fabric
    datacenter: pulumi.Input[str]
    port_groups: Mapping[str, pulumi.Input[str]]
    """Managed object id by rail."""
    lookups: pulumi.InvokeOutputOptions
    preflight: pulumi.Resource
    """No VM is created before it has passed."""
    settings: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    """PVRDMA's settings by ESXi host: a VM that starts before them silently falls back to TCP, and
    one that still runs when they are restored loses its connections."""
    keys: Mapping[str, HostKey] = field(default_factory=dict)
    """SSH host key of each VM, by node; without one the VM generates a key that rocelab does not
    know."""


class Machines(pulumi.ComponentResource):
    """Every VM of the lab that is not absent."""

    places: pulumi.Output[Mapping[str, str]]
    """The ESXi host that each VM runs on."""

    def __init__(
        self, name: str, args: MachinesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:fabric:Machines", name, None, opts)
        self._name, self._args = name, args
        self._cluster = vsphere.get_compute_cluster_output(
            name=args.fabric.cluster, datacenter_id=args.datacenter, opts=args.lookups
        )
        nodes = args.lab.vms
        made = {}
        for node in nodes:
            if isinstance(node.machine, Machine):
                made[node.name] = self._machine(node, node.machine)
        new = [node for node in nodes if node.name in made]
        apart = [node for node in new if node.role == "worker" and node.machine.apart]
        planes = [node for node in new if node.role == "control_plane"]
        # an override belongs to the cluster, and a control plane may be with the management hosts
        # outside of it
        inside = {host.name for switch in args.fabric.switches for host in switch.hosts}
        rules = self._stay([node for node in new if node.machine.host in inside], made)
        movable = apart if free(apart) else []
        rules += [
            # two workers on one host exchange data by memory copies: a benchmark would not measure
            # the network
            *self._rule("apart", movable, made, mandatory=True, after=rules),
            # a failing host takes one control plane only; with too few hosts they run all the same
            *self._rule("planes-apart", free(planes), made, mandatory=False, after=[]),
        ]
        complete: list[pulumi.Resource] = [
            self._complete(node, made[node.name], rules) for node in new
        ]
        uuids: dict[str, pulumi.Input[str]] = {name: machine.id for name, machine in made.items()}
        existing = [node.name for node in nodes if isinstance(node.machine, ExistingMachine)]
        if existing:
            referenced = self._referenced(nodes)
            for node_name in existing:
                uuids[node_name] = referenced.uuids[node_name]
            complete.append(referenced)
        placed = {
            "cluster": args.fabric.cluster,
            "machines": pulumi.Output.all(**{node.name: uuids[node.name] for node in nodes}),
            "apart": [node.name for node in nodes if node.role == "worker" and node.machine.apart],
            "pinned": {node.name: node.machine.host for node in nodes if node.machine.host},
            "ruled": list(made),
            "patient": not args.lab.simulated,
        }
        # a VM may move when it gets its vGPUs, and when DRS applies a rule
        after = pulumi.ResourceOptions(parent=self, depends_on=[*rules, *complete])
        self.places = Declaration(Placement, f"{name}-placement", placed, after).places
        self.register_outputs({"places": self.places})

    def _rule(
        self,
        key: str,
        nodes: Sequence[VsphereVm],
        made: Mapping[str, vsphere.VirtualMachine],
        *,
        mandatory: bool,
        after: Sequence[pulumi.Resource],
    ) -> list[pulumi.Resource]:
        if len(nodes) < 2:
            return []
        rule = vsphere.ComputeClusterVmAntiAffinityRule(
            f"{self._name}-{key}",
            name=f"rocelab-{self._args.lab.name}-{RULES[key]}",
            compute_cluster_id=self._cluster.id,
            virtual_machine_ids=[made[node.name].id for node in nodes],
            mandatory=mandatory,
            # pins must exist before anything moves
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        return [rule]

    def _stay(
        self, nodes: Sequence[VsphereVm], made: Mapping[str, vsphere.VirtualMachine]
    ) -> list[pulumi.Resource]:
        """Excludes pinned VMs from DRS, which would otherwise move them."""
        overrides: list[pulumi.Resource] = []
        for node in nodes:
            overrides.append(
                vsphere.DrsVmOverride(
                    f"{self._name}-{node.name}-stays",
                    compute_cluster_id=self._cluster.id,
                    virtual_machine_id=made[node.name].id,
                    drs_enabled=False,
                    opts=pulumi.ResourceOptions(parent=self, aliases=self._before(node, "-stays")),
                )
            )
        return overrides

    def _complete(
        self, node: VsphereVm, machine: vsphere.VirtualMachine, rules: Sequence[pulumi.Resource]
    ) -> Declaration:
        """What the provider cannot set. It restarts the VM, so that DRS applies its rules."""
        lab = self._args.lab
        inputs = {
            "name": node.name,
            "machine": machine.id,
            "hosts": self._args.fabric.hosts_of(node),
            "vgpus": [node.vgpu.profile] * node.vgpu.count if node.vgpu else [],
            "roce_version": node.machine.roce_version or "",
            "may_restart": lab.hosts.reboot == "roll",
            "guest_s": 0 if lab.simulated else lab.hosts.reboot_wait_s,
        }
        # a removal of its own would power the VM off, although the VM is deleted anyway
        options = pulumi.ResourceOptions(
            parent=self,
            depends_on=rules,
            deleted_with=machine,
            aliases=self._before(node, "-hardware"),
        )
        return Declaration(MachineHardware, f"{self._name}-{node.name}-hardware", inputs, options)

    def _referenced(self, nodes: Sequence[VsphereVm]) -> Declaration:
        args, fabric = self._args, self._args.fabric
        machines = {}
        for node in nodes:
            machine = node.machine
            if not isinstance(machine, ExistingMachine):
                continue
            least, needs = hardware_needed(node, args.lab.nodes, args.lab.hosts)
            machines[node.name] = DeclaredMachine(
                path=f"{fabric.datacenter}/{machine.existing}",
                fields=declared(node, machine),
                rails=tuple(pf.rail for pf in node.pfs),
                roce_version=machine.roce_version or "",
                hosts=tuple(fabric.hosts_of(node)),
                host=machine.host or "",
                least_hardware=least,
                needs=needs,
            )
        rails = sorted({rail for machine in machines.values() for rail in machine.rails})
        groups = {}
        for rail in rails:
            switch = fabric.switch_by_rail[rail]
            groups[rail] = f"{fabric.datacenter}/{switch.name}/{switch.port_group}"
        inputs = {
            "machines": machines,
            "port_groups": groups,
            "networks": (
                pulumi.Output.all(**{rail: args.port_groups[rail] for rail in rails})
                if rails
                else {}
            ),
        }
        opts = pulumi.ResourceOptions(parent=self, depends_on=[args.preflight])
        return Declaration(ReferencedMachines, f"{self._name}-existing", inputs, opts)

    def _machine(self, node: VsphereVm, declared: Machine) -> vsphere.VirtualMachine:
        args = self._args
        datacenter, lookups = args.datacenter, args.lookups
        host = None
        if declared.host:
            host = vsphere.get_host_output(
                name=declared.host, datacenter_id=datacenter, opts=lookups
            )
        management = vsphere.get_network_output(
            name=declared.management_network, datacenter_id=datacenter, opts=lookups
        ).id
        adapters = [
            (MANAGEMENT, management),
            *((PVRDMA, args.port_groups[pf.rail]) for pf in node.pfs),
        ]
        if len(adapters) > 2 and not node.knows_several_pvrdma:
            pulumi.log.warn(
                f"{node.name} has {len(adapters) - 1} PVRDMA adapters: VMware's KB 328676 allows "
                "one per VM, the Bitfusion article three. rocelab cannot tell which holds for "
                "your version; watch its vmware.log"
            )
        reserved = 0
        if node.pfs or node.vgpu:
            reserved = declared.memory_mbytes
        if host:
            resource_pool_id = host.resource_pool_id
        else:
            resource_pool_id = self._cluster.resource_pool_id
        host_system_id = host.id if host else None
        if args.lab.simulated:
            wait_for_guest_net_timeout = 0
        else:
            wait_for_guest_net_timeout = declared.address_timeout_minutes
        protect = None if args.lab.simulated else True
        additional_secret_outputs = None
        if node.name in args.keys:
            additional_secret_outputs = ["extraConfig"]
        return vsphere.VirtualMachine(
            f"{self._name}-{node.name}",
            name=node.name,
            annotation=f"made by rocelab for lab {args.lab.name}",
            # a host outside the cluster, such as a management host, has its own pool
            resource_pool_id=resource_pool_id,
            host_system_id=host_system_id,
            datastore_id=vsphere.get_datastore_output(
                name=declared.datastore, datacenter_id=datacenter, opts=lookups
            ).id,
            guest_id=declared.guest_id,
            firmware=declared.firmware,
            hardware_version=declared.hardware_version,
            num_cpus=declared.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=declared.memory_mbytes,
            memory_reservation=reserved,
            memory_reservation_locked_to_max=bool(reserved),
            extra_config=self._extra_config(node) or None,
            network_interfaces=network_interfaces(adapters),
            disks=[vsphere.VirtualMachineDiskArgs(label="system", size=declared.disk_gbytes)],
            clone=clone_of(
                node,
                declared,
                vsphere.get_virtual_machine_output(
                    name=declared.template, datacenter_id=datacenter, opts=lookups
                ).id,
            ),
            # of a simulated machine the power-on ends only when its guest, if it has one, has
            # reported an address
            wait_for_guest_net_timeout=wait_for_guest_net_timeout,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=set_up(args.fabric.hosts_of(node), args.preflight, args.settings),
                aliases=self._before(node, ""),
                protect=protect,
                # A newer template must not replace VMs that were cloned from the old one. And a VM
                # reads its settings only at its first start: changing them later would restart it
                # for nothing.
                ignore_changes=["clone", *(f'extraConfig["{name}"]' for name in SETTINGS)],
                # the provider returns this value without its secret mark
                additional_secret_outputs=additional_secret_outputs,
            ),
        )

    def _extra_config(self, node: VsphereVm) -> dict[str, pulumi.Input[str]]:
        """Settings of the VM's file, including its host key."""
        settings: dict[str, pulumi.Input[str]] = {}
        if node.vgpu is not None:
            # space above 4 GB for the memory of its vGPUs (VMware's rule for large GPUs)
            settings["pciPassthru.use64bitMMIO"] = "TRUE"
            settings["pciPassthru.64bitMMIOSizeGB"] = str(node.vgpu.mmio_space_gbytes)
        if key := self._args.keys.get(node.name):
            for name, value in guestinfo(node, key).items():
                settings[name] = pulumi.Output.secret(value) if name in SECRET else value
        return settings

    def _before(self, node: VsphereVm, suffix: str) -> list[pulumi.Alias]:
        """The resource's name before its node was renamed."""
        if node.formerly:
            return [pulumi.Alias(name=f"{self._name}-{node.formerly}{suffix}")]
        return []


def network_interfaces(
    adapters: Iterable[tuple[str, pulumi.Input[str]]],
) -> list[vsphere.VirtualMachineNetworkInterfaceArgs]:
    """Adapters by kind and network, in their order."""
    interface = vsphere.VirtualMachineNetworkInterfaceArgs
    return [interface(network_id=network, adapter_type=kind) for kind, network in adapters]


def set_up(
    hosts: Iterable[str], preflight: pulumi.Resource, settings: Mapping[str, pulumi.Resource]
) -> list[pulumi.Resource]:
    """What must exist before a VM starts on one of the hosts, and as long as the VM exists."""
    return [preflight, *(settings[host] for host in hosts if host in settings)]


def clone_of(
    node: VsphereVm, declared: Machine, template: pulumi.Input[str]
) -> vsphere.VirtualMachineCloneArgs:
    """How a VM is cloned; `template` is the template's UUID."""
    return vsphere.VirtualMachineCloneArgs(
        template_uuid=template,
        timeout=declared.clone_timeout_minutes,
        customize=_customization(node, declared),
    )


def _customization(node: VsphereVm, declared: Machine) -> vsphere.VirtualMachineCloneCustomizeArgs:
    """Name and addresses, which vCenter matches to the adapters by position."""
    addresses = [(str(node.address), declared.prefix_length)]
    for pf in node.pfs:
        addresses.append((str(pf.address.ip), pf.address.network.prefixlen))
    ipv4_gateway = str(declared.gateway) if declared.gateway else None
    interface = vsphere.VirtualMachineCloneCustomizeNetworkInterfaceArgs
    interfaces = []
    for ip, length in addresses:
        interfaces.append(interface(ipv4_address=ip, ipv4_netmask=length))
    return vsphere.VirtualMachineCloneCustomizeArgs(
        linux_options=vsphere.VirtualMachineCloneCustomizeLinuxOptionsArgs(
            host_name=node.name, domain=declared.domain
        ),
        network_interfaces=interfaces,
        ipv4_gateway=ipv4_gateway,
        dns_server_lists=[str(server) for server in declared.dns_servers],
        timeout=declared.customize_timeout_minutes,
    )


def declared(node: VsphereVm, machine: ExistingMachine) -> dict[str, str | int]:
    """The fields that the lab file sets for a VM, without any default."""
    fields: dict[str, str | int] = {}
    if machine.cpus is not None:
        fields["cpus"] = machine.cpus
    if machine.memory_mbytes is not None:
        fields["memory_mbytes"] = machine.memory_mbytes
    if node.pfs or node.vgpu:
        # both give hardware access to guest memory, so they imply this field
        fields[RESERVATION] = ALL
    if node.vgpu is not None:
        fields[VGPUS] = ",".join([node.vgpu.profile] * node.vgpu.count)
        if node.vgpu.mmio_gbytes is not None:
            # only if it is declared: the VM may need more than the rule gives
            fields[f"{OPTION}pciPassthru.use64bitMMIO"] = "TRUE"
            fields[f"{OPTION}pciPassthru.64bitMMIOSizeGB"] = str(node.vgpu.mmio_gbytes)
    return fields


def free(nodes: Sequence[VsphereVm]) -> list[VsphereVm]:
    """The nodes that the cluster places."""
    return [node for node in nodes if node.machine.host is None]

"""The VMs of a lab: cloned from a template, or existing ones, with PVRDMA on every rail and one
worker per ESXi host.

Existing VMs get no DRS rule, and nothing changes or moves them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.machine_hardware import MachineHardware
from components.fabric.placement import Placement
from components.fabric.referenced_machines import ReferencedMachines
from components.fabric.site import Site
from components.fabric.vms.existing import ALL, OPTION, RESERVATION, VGPUS, DeclaredMachine
from components.fabric.vms.guestinfo import SECRET, SETTINGS, guestinfo
from components.provider.program import Declaration
from stacks.frozen import frozen
from stacks.host_keys import HostKey
from stacks.machines import ExistingMachine, Machine
from stacks.nodes import VsphereVm
from stacks.rules.machines import hardware_needed

RULES = {"apart": "workers", "planes-apart": "control-planes"}
"""The VMs that each rule keeps apart, as vCenter shows its name."""


@frozen
class MachinesArgs:
    site: Site
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
        site = args.site
        self._name, self._site, self._keys = name, site, args.keys
        self._cluster = vsphere.get_compute_cluster_output(
            name=site.fabric.cluster, datacenter_id=site.datacenter, opts=site.lookups
        )
        nodes = site.lab.vms
        made = {}
        for node in nodes:
            if isinstance(node.machine, Machine):
                made[node.name] = self._machine(node, node.machine)
        new = [node for node in nodes if node.name in made]
        apart = [node for node in new if node.role == "worker" and node.machine.apart]
        planes = [node for node in new if node.role == "control_plane"]
        # an override belongs to the cluster, and a control plane may be with the management hosts
        # outside of it
        inside = {host.name for switch in site.fabric.switches for host in switch.hosts}
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
            "cluster": site.fabric.cluster,
            "machines": pulumi.Output.all(**{node.name: uuids[node.name] for node in nodes}),
            "apart": [node.name for node in nodes if node.role == "worker" and node.machine.apart],
            "pinned": {node.name: node.machine.host for node in nodes if node.machine.host},
            "ruled": list(made),
            "patient": not site.lab.simulated,
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
            name=f"rocelab-{self._site.lab.name}-{RULES[key]}",
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
        lab = self._site.lab
        inputs = {
            "name": node.name,
            "machine": machine.id,
            "hosts": self._site.fabric.hosts_of(node),
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
        site, fabric = self._site, self._site.fabric
        machines = {}
        for node in nodes:
            machine = node.machine
            if not isinstance(machine, ExistingMachine):
                continue
            least, needs = hardware_needed(node, site.lab.nodes, site.lab.hosts)
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
                pulumi.Output.all(**{rail: site.port_groups[rail] for rail in rails})
                if rails
                else {}
            ),
        }
        opts = pulumi.ResourceOptions(parent=self, depends_on=[site.preflight])
        return Declaration(ReferencedMachines, f"{self._name}-existing", inputs, opts)

    def _machine(self, node: VsphereVm, declared: Machine) -> vsphere.VirtualMachine:
        site = self._site
        host = site.host(declared.host) if declared.host else None
        if len(node.pfs) > 1 and not node.knows_several_pvrdma:
            pulumi.log.warn(
                f"{node.name} has {len(node.pfs)} PVRDMA adapters: VMware's KB 328676 allows "
                "one per VM, the Bitfusion article three. rocelab cannot tell which holds for "
                "your version; watch its vmware.log"
            )
        reserved = 0
        if node.pfs or node.vgpu:
            reserved = declared.memory_mbytes
        host_system_id = host.id if host else None
        additional_secret_outputs = None
        if node.name in self._keys:
            additional_secret_outputs = ["extraConfig"]
        return vsphere.VirtualMachine(
            f"{self._name}-{node.name}",
            name=node.name,
            annotation=f"made by rocelab for lab {site.lab.name}",
            # a host outside the cluster, such as a management host, has its own pool
            resource_pool_id=(host or self._cluster).resource_pool_id,
            host_system_id=host_system_id,
            datastore_id=site.datastore(declared.datastore),
            guest_id=declared.guest_id,
            firmware=declared.firmware,
            hardware_version=declared.hardware_version,
            num_cpus=declared.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=declared.memory_mbytes,
            memory_reservation=reserved,
            memory_reservation_locked_to_max=bool(reserved),
            extra_config=self._extra_config(node) or None,
            network_interfaces=site.adapters(
                declared.management_network, [pf.rail for pf in node.pfs]
            ),
            disks=[vsphere.VirtualMachineDiskArgs(label="system", size=declared.disk_gbytes)],
            clone=vsphere.VirtualMachineCloneArgs(
                template_uuid=vsphere.get_virtual_machine_output(
                    name=declared.template, datacenter_id=site.datacenter, opts=site.lookups
                ).id,
                timeout=declared.clone_timeout_minutes,
                customize=_customization(node, declared),
            ),
            wait_for_guest_net_timeout=site.guest_net_minutes(declared.address_timeout_minutes),
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=site.set_up(site.fabric.hosts_of(node)),
                aliases=self._before(node, ""),
                protect=site.protect,
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
        if key := self._keys.get(node.name):
            for name, value in guestinfo(node, key).items():
                settings[name] = pulumi.Output.secret(value) if name in SECRET else value
        return settings

    def _before(self, node: VsphereVm, suffix: str) -> list[pulumi.Alias]:
        """The resource's name before its node was renamed."""
        if node.formerly:
            return [pulumi.Alias(name=f"{self._name}-{node.formerly}{suffix}")]
        return []


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

"""The VMs of a lab: cloned from a template, memory reserved, PVRDMA on every rail, one worker a host, and proven so.

Those that are there already are placed by `adopted_machines`; no rule is made for them, and nobody moves them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_vsphere as vsphere

from components.fabric.adopted_machines import AdoptionArgs, adopt
from components.fabric.cloning import clone_hooks, clone_of
from components.fabric.machine_hardware import MachineHardware, MachineHardwareArgs
from components.fabric.placement import Placement, PlacementArgs
from components.fabric.vms.guestinfo import SECRET, TOLD, guestinfo
from components.fabric.vms.members import free, hosts_of, machines_of
from stacks.fabric import Fabric
from stacks.host_keys import HostKey
from stacks.lab import Lab
from stacks.machines import ExistingMachine, Machine
from stacks.nodes import VsphereVm

MANAGEMENT = "vmxnet3"
PVRDMA = "vmxnet3vrdma"
"""The provider's own text says `vrdma`, which its code refuses."""
RULES = {"apart": "workers", "planes-apart": "control-planes"}
"""Whom each rule keeps apart; the name that people see in vCenter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinesArgs:
    """Inputs of `Machines`."""

    lab: Lab
    fabric: Fabric
    datacenter: pulumi.Input[str]
    port_groups: Mapping[str, pulumi.Input[str]]
    """Managed object id by rail."""
    lookups: pulumi.InvokeOutputOptions
    preflight: pulumi.Resource
    """Before it has passed, no machine is made."""
    settings: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    """PVRDMA's settings by ESXi host: a machine that starts before them falls back to TCP without a word, and one that
    still runs when they are taken back is cut off."""
    keys: Mapping[str, HostKey] = field(default_factory=dict)
    """The host key that each machine is given, by node; without one it makes its own, which nobody knows."""


class Machines(pulumi.ComponentResource):
    """Every VM of the lab that is not absent."""

    places: pulumi.Output[Mapping[str, str]]
    """The ESXi host that each machine runs on, as it was seen."""

    def __init__(self, name: str, args: MachinesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:fabric:Machines", name, None, opts)
        self._name, self._args = name, args
        self._cluster = vsphere.get_compute_cluster_output(
            name=args.fabric.cluster, datacenter_id=args.datacenter, opts=args.lookups
        )
        nodes = machines_of(args.lab)
        self._hooks = clone_hooks(name, args.lab)
        made = {node.name: self._machine(node, node.machine) for node in nodes if isinstance(node.machine, Machine)}
        new = [node for node in nodes if node.name in made]
        apart = [node for node in new if node.role == "worker" and node.machine.apart]
        planes = [node for node in new if node.role == "control_plane"]
        # an override belongs to the cluster, and a control plane may stand with the management hosts outside of it
        inside = {host.name for switch in args.fabric.switches for host in switch.hosts}
        rules = self._stay([node for node in new if node.machine.host in inside], made)
        rules += [
            # two workers on one host talk by memory copies: a benchmark would measure nothing
            *self._rule("apart", apart if free(apart) else [], made, mandatory=True, after=rules),
            # a host that fails takes one control plane; where there are too few hosts they still run
            *self._rule("planes-apart", free(planes), made, mandatory=False, after=[]),
        ]
        complete: list[pulumi.Resource] = [self._complete(node, made[node.name], rules) for node in new]
        uuids: dict[str, pulumi.Input[str]] = {name: machine.id for name, machine in made.items()}
        for node in nodes:
            if isinstance(node.machine, ExistingMachine):
                uuids[node.name], adopted = self._adopted(node, node.machine)
                complete.append(adopted)
        placed = PlacementArgs(
            cluster=args.fabric.cluster,
            machines={node.name: uuids[node.name] for node in nodes},
            apart=[node.name for node in nodes if node.role == "worker" and node.machine.apart],
            pinned={node.name: node.machine.host for node in nodes if node.machine.host},
            ruled=list(made),
            patient=not args.lab.simulated,
        )
        # a machine may move when it gets its vGPUs, and when DRS hears of a rule
        after = pulumi.ResourceOptions(parent=self, depends_on=[*rules, *complete])
        self.places = Placement(f"{name}-placement", placed, after).places
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
            # what must stay where it is has to be known before anything is moved
            opts=pulumi.ResourceOptions(parent=self, depends_on=after),
        )
        return [rule]

    def _stay(self, nodes: Sequence[VsphereVm], made: Mapping[str, vsphere.VirtualMachine]) -> list[pulumi.Resource]:
        """Takes pinned machines out of DRS, which would otherwise move them for its own reasons."""
        return [
            vsphere.DrsVmOverride(
                f"{self._name}-{node.name}-stays",
                compute_cluster_id=self._cluster.id,
                virtual_machine_id=made[node.name].id,
                drs_enabled=False,
                opts=pulumi.ResourceOptions(parent=self, aliases=self._before(node, "-stays")),
            )
            for node in nodes
        ]

    def _complete(
        self, node: VsphereVm, machine: vsphere.VirtualMachine, rules: Sequence[pulumi.Resource]
    ) -> MachineHardware:
        """What the provider cannot give; it powers the machine on anew, so that DRS obeys its rules then."""
        lab = self._args.lab
        wanted = MachineHardwareArgs(
            name=node.name,
            machine=machine.id,
            hosts=hosts_of(node, self._args.fabric),
            vgpus=[node.vgpu.profile] * node.vgpu.count if node.vgpu else [],
            roce_version=node.machine.roce_version or "",
            may_restart=lab.hosts.allow_reboot,
            guest_s=0 if lab.simulated else lab.hosts.reboot_wait_s,
        )
        # what goes with its machine needs no removal of its own, for which it would have to be powered off
        options = pulumi.ResourceOptions(
            parent=self, depends_on=rules, deleted_with=machine, aliases=self._before(node, "-hardware")
        )
        return MachineHardware(f"{self._name}-{node.name}-hardware", wanted, options)

    def _adopted(self, node: VsphereVm, machine: ExistingMachine) -> tuple[pulumi.Output[str], pulumi.Resource]:
        """UUID of a VM that is there, and what stands for it."""
        args, hosts = self._args, hosts_of(node, self._args.fabric)
        wanted = AdoptionArgs(lab=args.lab, fabric=args.fabric, port_groups=args.port_groups, hosts=hosts)
        after = pulumi.ResourceOptions(parent=self, depends_on=set_up(hosts, args.preflight, args.settings))
        baseline, adopted = adopt(f"{self._name}-{node.name}", node, machine, wanted, after)
        return baseline.uuid, adopted

    def _machine(self, node: VsphereVm, wanted: Machine) -> vsphere.VirtualMachine:
        args = self._args
        datacenter, lookups = args.datacenter, args.lookups
        host = (
            vsphere.get_host_output(name=wanted.host, datacenter_id=datacenter, opts=lookups) if wanted.host else None
        )
        management = vsphere.get_network_output(
            name=wanted.management_network, datacenter_id=datacenter, opts=lookups
        ).id
        adapters = [(MANAGEMENT, management), *((PVRDMA, args.port_groups[pf.rail]) for pf in node.pfs)]
        if len(adapters) > 2 and not node.knows_several_pvrdma:
            pulumi.log.warn(
                f"{node.name} has {len(adapters) - 1} PVRDMA adapters: VMware's KB 328676 allows one a VM, the "
                "Bitfusion guide three. Nothing here can tell which is right for your version: watch its log"
            )
        reserved = wanted.memory_mbytes if node.pfs or node.vgpu else 0
        return vsphere.VirtualMachine(
            f"{self._name}-{node.name}",
            name=node.name,
            annotation=f"made by rocelab for lab {args.lab.name}",
            # a host may stand outside the cluster, with the management hosts: then the pool is its own
            resource_pool_id=host.resource_pool_id if host else self._cluster.resource_pool_id,
            host_system_id=host.id if host else None,
            datastore_id=vsphere.get_datastore_output(name=wanted.datastore, datacenter_id=datacenter, opts=lookups).id,
            guest_id=wanted.guest_id,
            firmware=wanted.firmware,
            hardware_version=wanted.hardware_version,
            num_cpus=wanted.cpus,
            # the three go together: the provider drops the lock when the first two differ
            memory=wanted.memory_mbytes,
            memory_reservation=reserved,
            memory_reservation_locked_to_max=bool(reserved),
            extra_config=self._extra_config(node) or None,
            network_interfaces=[
                vsphere.VirtualMachineNetworkInterfaceArgs(network_id=network, adapter_type=kind)
                for kind, network in adapters
            ],
            disks=[vsphere.VirtualMachineDiskArgs(label="system", size=wanted.disk_gbytes)],
            clone=clone_of(
                node,
                wanted,
                vsphere.get_virtual_machine_output(name=wanted.template, datacenter_id=datacenter, opts=lookups).id,
            ),
            # of a simulated machine the power-on ends only when its guest, if it has one, has reported an address
            wait_for_guest_net_timeout=0 if args.lab.simulated else wanted.address_timeout_minutes,
            opts=pulumi.ResourceOptions(
                parent=self,
                hooks=self._hooks,
                depends_on=set_up(hosts_of(node, args.fabric), args.preflight, args.settings),
                aliases=self._before(node, ""),
                protect=None if args.lab.simulated else True,
                # A template that is replaced by a newer one must not replace the machines made from the old one. And
                # what a machine was told is read at its first start only: told anew it would restart for nothing.
                ignore_changes=["clone", *(f'extraConfig["{name}"]' for name in TOLD)],
                # the provider gives back what it was given, and not that it is a secret
                additional_secret_outputs=["extraConfig"] if node.name in args.keys else None,
            ),
        )

    def _extra_config(self, node: VsphereVm) -> dict[str, pulumi.Input[str]]:
        """Settings of the VM's file, its host key among them."""
        found: dict[str, pulumi.Input[str]] = {}
        if node.vgpu is not None:
            # space above 4 GB for the memory of its vGPUs (VMware's rule for large GPUs)
            found["pciPassthru.use64bitMMIO"] = "TRUE"
            found["pciPassthru.64bitMMIOSizeGB"] = str(node.vgpu.mmio_space_gbytes)
        if key := self._args.keys.get(node.name):
            for name, value in guestinfo(node, key).items():
                found[name] = pulumi.Output.secret(value) if name in SECRET else value
        return found

    def _before(self, node: VsphereVm, suffix: str) -> list[pulumi.Alias]:
        """The name that a resource had before its node was renamed."""
        return [pulumi.Alias(name=f"{self._name}-{node.formerly}{suffix}")] if node.formerly else []


def set_up(
    hosts: Iterable[str], preflight: pulumi.Resource, settings: Mapping[str, pulumi.Resource]
) -> list[pulumi.Resource]:
    """What has to be there before a machine starts on one of the hosts, and stays until it is gone."""
    return [preflight, *(settings[host] for host in hosts if host in settings)]

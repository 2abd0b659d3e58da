"""The vSphere fabric of a lab: switches with their uplinks, port groups, vmkernel adapters,
PVRDMA's host settings.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pulumi
import pulumi_vsphere as vsphere
from pydantic import JsonValue

from components.fabric.adopt import Adopted
from components.fabric.appliances import Appliances, AppliancesArgs
from components.fabric.baseline import Baseline
from components.fabric.inspection import Inspection
from components.fabric.machines import Machines, MachinesArgs
from components.fabric.preflight.claims import taken_address
from components.fabric.settings import HostSettings
from components.fabric.site import Site
from components.fabric.uplink import Uplink
from components.fabric.vcenter import client, session
from components.fabric.vcenter.objects import MEMBER
from components.outputs import REST, shortened
from components.provider.program import Declaration
from stacks.base import LabError
from stacks.fabric import DistributedSwitch, EsxiHost, Fabric
from stacks.frozen import frozen
from stacks.host_keys import HostKey
from stacks.lab import Lab

Fields = Mapping[str, pulumi.Input[str | int | bool]]

HOOKS = ThreadPoolExecutor(max_workers=4, thread_name_prefix="rocelab-look")
"""Separate threads: each resource in creation holds one of the event loop's until its hooks end, so
a hook that waited for one of those could deadlock."""
UPLINK = "uplink1"
"""rocelab sets name, count and order: vCenter's own values would show as differences."""


@frozen
class VsphereFabricArgs:
    lab: Lab
    fabric: Fabric
    password: pulumi.Input[str]
    machine_keys: Mapping[str, HostKey] = field(default_factory=dict)
    """Host keys that machines are given, by node."""


class VsphereFabric(pulumi.ComponentResource):
    """Everything of a lab in vCenter.

    VMs start once every host is set up, and are deleted before the host settings. Those are
    restored next, while the adapter that they name still exists.
    """

    port_groups: Mapping[str, pulumi.Output[str]]
    """Managed object id of the port group of each rail."""
    places: pulumi.Output[Mapping[str, str]]
    """ESXi host by VM."""
    outline: pulumi.Output[dict[str, object]]
    """For people: port groups, what each ESXi host is and uses, machines, warnings."""
    provider: vsphere.Provider

    def __init__(
        self, name: str, args: VsphereFabricArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:fabric:VsphereFabric", name, None, opts)
        self._name, self._fabric = name, args.fabric
        fabric = args.fabric
        refuse_another_peer(fabric)
        self.provider = vsphere.Provider(
            f"{name}-provider",
            vsphere_server=f"{fabric.vcenter}:{fabric.port}",
            user=fabric.user,
            password=args.password,
            # the provider knows the system's authorities only; a pinned certificate was checked
            # just above
            allow_unverified_ssl=has_own_trust(fabric),
            opts=pulumi.ResourceOptions(parent=self),
        )
        place = {"datacenter": fabric.datacenter, "cluster": fabric.cluster}
        self.inspection = Declaration(
            Inspection, f"{name}-preflight", place, pulumi.ResourceOptions(parent=self)
        )
        lookups = pulumi.InvokeOutputOptions(parent=self, provider=self.provider)
        self._site = Site(
            lab=args.lab,
            fabric=fabric,
            datacenter=vsphere.get_datacenter_output(name=fabric.datacenter, opts=lookups).id,
            lookups=lookups,
            preflight=self.inspection,
        )
        self._made: list[pulumi.Resource] = []
        self._password = args.password
        self.port_groups = self._site.port_groups
        for switch in fabric.switches:
            self.port_groups[switch.rail] = self._place(switch)
        self.places = pulumi.Output.from_input({})
        inside = pulumi.ResourceOptions(parent=self, providers=[self.provider])
        if args.lab.vms:
            machines = MachinesArgs(site=self._site, keys=args.machine_keys)
            self.places = Machines(f"{name}-machines", machines, inside).places
        if args.lab.bitfusion is not None:
            servers = AppliancesArgs(
                site=self._site,
                bitfusion=args.lab.bitfusion,
                root=Path.cwd(),
                password=args.password,
            )
            Appliances(f"{name}-bitfusion", servers, inside)
        self.outline = self._outline()
        self.register_outputs({"port_groups": self.port_groups})

    def _outline(self) -> pulumi.Output[dict[str, object]]:
        vmkernels = pulumi.Output.all(
            **{host: settings.vmknic for host, settings in self._site.settings.items()}
        )
        groups, inspection = pulumi.Output.all(**self.port_groups), self.inspection
        return pulumi.Output.all(
            groups, inspection.hosts, vmkernels, self.places, inspection.warnings
        ).apply(
            lambda all_: (
                {"port_groups": all_[0]} | fabric_outline(all_[1], all_[2], all_[3], all_[4] or [])
            )
        )

    def _place(self, switch: DistributedSwitch) -> pulumi.Output[str]:
        uuid = self._switch(switch)
        group = self._group(switch, uuid)
        for host in switch.hosts:
            if host.vmkernel is not None:
                self._set(host, *self._adapter(switch, host, uuid, group))
        return group

    def _switch(self, switch: DistributedSwitch) -> pulumi.Output[str]:
        """UUID of the switch, which is created, adopted or only looked up."""
        path = f"{self._fabric.datacenter}/{switch.name}"
        if switch.use == "create":
            made = self._new_switch(switch)
            # at creation the provider can only turn it on, and vCenter has its own default
            self._read_back(
                f"{switch.rail}-switch",
                "switch",
                path,
                {"network_io_control": switch.network_io_control},
                made,
            )
            # one after the other: after a failed change, the provider would deadlock at the next
            # one
            self._made.append(made)
            return made.id
        fields: dict[str, pulumi.Input[str | int | bool]] = {}
        if switch.use == "adopt":
            for key in ("mtu_bytes", "version", "network_io_control"):
                if switch.declared(key):
                    fields[key] = getattr(switch, key)
            for host in switch.hosts:
                fields[MEMBER + host.name] = self._uplink(switch, host).device
        return self._existing(f"{switch.rail}-switch", "switch", path, fields).uuid

    def _group(self, switch: DistributedSwitch, uuid: pulumi.Output[str]) -> pulumi.Output[str]:
        """Managed object ID of the port group."""
        path = f"{self._fabric.datacenter}/{switch.name}/{switch.port_group}"
        vlan = {"vlan_id": switch.vlan_id}
        if switch.group_use == "create":
            made = self._new_group(switch, uuid)
            self._read_back(f"{switch.rail}-group", "group", path, vlan, made)
            return made.id
        declared = switch.group_use == "adopt" and switch.declared("vlan_id")
        fields: Fields = vlan if declared else {}
        return self._existing(f"{switch.rail}-group", "group", path, fields).moid

    def _new_group(
        self, switch: DistributedSwitch, uuid: pulumi.Output[str]
    ) -> vsphere.DistributedPortGroup:
        new = switch.use == "create"
        active_uplinks = [UPLINK] if new else None
        standby_uplinks: list[pulumi.Input[str]] | None = None
        if new:
            standby_uplinks = []
        return vsphere.DistributedPortGroup(
            f"{self._name}-{switch.rail}-group",
            name=switch.port_group,
            distributed_virtual_switch_uuid=uuid,
            # the provider takes 0 for no value, so `Adopted` reads the VLAN back and sets it
            vlan_id=switch.vlan_id or None,
            # the names of an existing switch's uplinks are unknown; it has one NIC per host
            active_uplinks=active_uplinks,
            standby_uplinks=standby_uplinks,
            opts=self._child(provider=True),
        )

    def _read_back(
        self, name: str, kind: str, path: str, fields: Fields, made: pulumi.Resource
    ) -> None:
        """Sets the fields of a new object that the provider does not."""
        inputs = {"kind": kind, "path": path, "fields": pulumi.Output.all(**fields), "ours": True}
        after = pulumi.ResourceOptions(parent=self, depends_on=[made])
        Declaration(Adopted, f"{self._name}-{name}-read-back", inputs, after)

    def _existing(self, name: str, kind: str, path: str, fields: Fields) -> Declaration:
        inputs: dict[str, pulumi.Input[Any]] = {"kind": kind, "path": path}
        if fields:  # of nothing, `all` makes a list
            inputs["fields"] = pulumi.Output.all(**fields)
        return Declaration(Adopted, f"{self._name}-{name}-existing", inputs, self._child())

    def _new_switch(self, switch: DistributedSwitch) -> vsphere.DistributedVirtualSwitch:
        return vsphere.DistributedVirtualSwitch(
            f"{self._name}-{switch.rail}-switch",
            name=switch.name,
            datacenter_id=self._site.datacenter,
            version=switch.version,
            max_mtu=switch.mtu_bytes,
            uplinks=[UPLINK],
            active_uplinks=[UPLINK],
            standby_uplinks=[],
            network_resource_control_enabled=switch.network_io_control,
            hosts=[self._member(switch, host) for host in switch.hosts],
            # its name is unique in the datacenter, so the old one must go first
            opts=pulumi.ResourceOptions.merge(
                self._child(provider=True, delete_before_replace=True),
                # `Adopted` sets it; the provider would show what it missed at creation
                pulumi.ResourceOptions(
                    ignore_changes=["networkResourceControlEnabled"], depends_on=[*self._made]
                ),
            ),
        )

    def _member(
        self, switch: DistributedSwitch, host: EsxiHost
    ) -> vsphere.DistributedVirtualSwitchHostArgs:
        return vsphere.DistributedVirtualSwitchHostArgs(
            host_system_id=self._host_id(host), devices=[self._uplink(switch, host).device]
        )

    def _uplink(self, switch: DistributedSwitch, host: EsxiHost) -> Declaration:
        inputs = {
            "host": host.name,
            "switch": switch.name,
            "choice": host.uplink or switch.uplink,
            "rdma": switch.carries_pvrdma,
        }
        return Declaration(
            Uplink, f"{self._name}-{switch.rail}-{host.name}-uplink", inputs, self._child()
        )

    def _adapter(
        self,
        switch: DistributedSwitch,
        host: EsxiHost,
        uuid: pulumi.Output[str],
        group: pulumi.Output[str],
    ) -> tuple[pulumi.Input[str], list[pulumi.Resource]]:
        """Name of the vmkernel adapter, and the resources that must exist before it is used.

        ESXi chooses the number of a new adapter; every other is known in a preview.
        """
        vmkernel = host.vmkernel
        if vmkernel is not None and vmkernel.existing is not None:
            if vmkernel.use == "reference" or vmkernel.mtu_bytes is None:
                return vmkernel.existing, []
            path, mtu = f"{host.name}/{vmkernel.existing}", {"mtu_bytes": vmkernel.mtu_bytes}
            return vmkernel.existing, [
                self._existing(f"{switch.rail}-{host.name}-vmkernel", "vmkernel", path, mtu)
            ]
        address = vmkernel.address if vmkernel else None
        ipv4 = None
        if address:
            ipv4 = vsphere.VnicIpv4Args(ip=str(address.ip), netmask=str(address.netmask))
        adapter = vsphere.Vnic(
            f"{self._name}-{switch.rail}-{host.name}-vmkernel",
            host=self._host_id(host),
            distributed_switch_port=uuid,
            distributed_port_group=group,
            ipv4=(ipv4),
            mtu=switch.mtu_bytes,
            opts=self._child(provider=True, hooks=self._refuse_a_double(switch, host)),
        )
        return adapter.id.apply(lambda id_: id_.rpartition("_")[2]), []  # <host>_<vmkN>

    def _refuse_a_double(
        self, switch: DistributedSwitch, host: EsxiHost
    ) -> pulumi.ResourceHookBinding:
        """Refuses a vmkernel adapter whose address another adapter of the host has.

        It runs before the creation, when the state has no adapter of this stack. A run after an
        interrupted one would create a second adapter.
        """

        async def refuse(_: pulumi.ResourceHookArgs) -> None:
            password = await pulumi.Output.from_input(self._password).future() or ""
            peer = session.peer_of(self._fabric, Path.cwd())
            endpoint = replace(peer, user=self._fabric.user, password=password)
            loop = asyncio.get_running_loop()
            context = copy_context()  # it knows where the log goes
            reason = await loop.run_in_executor(HOOKS, context.run, doubled, endpoint, host)
            if reason:
                raise LabError(reason)

        hook = pulumi.ResourceHook(f"{self._name}-{switch.rail}-{host.name}-doubled", refuse)
        return pulumi.ResourceHookBinding(before_create=[hook])

    def _set(
        self, host: EsxiHost, vmknic: pulumi.Input[str], adapter: list[pulumi.Resource]
    ) -> None:
        baseline = Declaration(
            Baseline, f"{self._name}-{host.name}-baseline", {"host": host.name}, self._child()
        )
        inputs = {
            "host": host.name,
            "vmknic": vmknic,
            "firewall_open": self._fabric.pvrdma_firewall,
            "vmknic_before": baseline.vmknic,
            "firewall_open_before": baseline.firewall_open,
            "allow_management": self._fabric.allow_management_vmkernel,
        }
        # the state has the baseline before anything is set
        after = pulumi.ResourceOptions(
            parent=self, depends_on=[baseline, self.inspection, *adapter]
        )
        self._site.settings[host.name] = Declaration(
            HostSettings, f"{self._name}-{host.name}-settings", inputs, after
        )

    def _host_id(self, host: EsxiHost) -> pulumi.Output[str]:
        return self._site.host(host.name).id

    def _child(
        self,
        *,
        provider: bool = False,
        delete_before_replace: bool = False,
        hooks: pulumi.ResourceHookBinding | None = None,
    ) -> pulumi.ResourceOptions:
        of_vsphere = self.provider if provider else None
        protect = self._site.protect if provider else None
        return pulumi.ResourceOptions(
            parent=self,
            provider=of_vsphere,
            delete_before_replace=delete_before_replace or None,
            hooks=hooks,
            protect=protect,
            # nothing changes before the preflight has passed
            depends_on=[self.inspection],
        )


def doubled(endpoint: session.VcenterEndpoint, host: EsxiHost) -> str:
    """Why a host cannot have its new vmkernel adapter; empty when its address is free there."""
    if host.vmkernel is None or host.vmkernel.address is None:
        return ""
    with client.session(endpoint, pulumi.log.info) as vcenter:
        for vmk, address in vcenter.vmkernel_names(vcenter.host(host.name)).items():
            if address == str(host.vmkernel.address.ip):
                return taken_address(host.name, vmk, address)
    return ""


def has_own_trust(fabric: Fabric) -> bool:
    """Whether the lab pins its vCenter itself, instead of trusting the system's authorities."""
    return fabric.ca_file is not None or fabric.thumbprint_sha256 is not None


def refuse_another_peer(fabric: Fabric) -> None:
    """Checks the certificate of a pinned vCenter before the vSphere provider exists.

    That provider knows the system's authorities only. Without this check it would have to skip
    verification, and send the password to whatever answers.

    Raises:
        pulumi.RunError: when another vCenter answers, or none does.
    """
    if not has_own_trust(fabric):
        return
    try:
        session.verify(session.peer_of(fabric, Path.cwd()))
    except LabError as error:
        raise pulumi.RunError(str(error)) from None


LARGEST_BYTES = 900
"""Of hosts, VMs and warnings together: other stacks fetch all outputs to read one."""
MOST_WARNINGS = 2


def fabric_outline(
    hosts: Mapping[str, str] | None,
    vmkernels: Mapping[str, str] | None,
    places: Mapping[str, str] | None,
    warnings: Sequence[str],
) -> dict[str, JsonValue]:
    """The stack output `fabric`: few words per host, and in a large lab the first hosts only.

    Args:
        hosts: what the preflight saw of each ESXi host.
        vmkernels: the adapter that PVRDMA has on a host, such as `vmk3`.
        places: ESXi host by machine.
        warnings: the preflight's.
    """
    hosts, vmkernels, places = hosts or {}, vmkernels or {}, places or {}
    lines = {}
    for host, line in hosts.items():
        lines[host] = ", ".join(filter(None, [line, vmkernels.get(host, "")]))
    shown_warnings: list[JsonValue] = [shortened(text) for text in warnings[:MOST_WARNINGS]]
    if len(warnings) > MOST_WARNINGS:
        shown_warnings.append(f"{len(warnings) - MOST_WARNINGS} more")
    for count in range(max(len(lines), len(places)), -1, -1):
        cut: dict[str, JsonValue] = {
            "hosts": _first(lines, count),
            "machines": _first(places, count),
            "warnings": shown_warnings,
        }
        if len(json.dumps(cut).encode()) <= LARGEST_BYTES:
            return cut
    return {}


def _first(lines: Mapping[str, str], count: int) -> dict[str, JsonValue]:
    shown: dict[str, JsonValue] = dict(list(lines.items())[:count])
    if len(lines) > count:
        shown[REST] = f"{len(lines) - count} more"
    return shown

"""Checks that names in a vCenter are free, adoptable, or usable to create VMs. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from components.fabric.preflight.facts import FabricFacts, SwitchFacts, newest_hardware
from stacks.fabric import DistributedSwitch
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm
from stacks.words import some


def names_made(switches: Sequence[DistributedSwitch]) -> list[str]:
    """Names that a run creates, such as `switch/port group`; from then on they belong to
    the stack.
    """
    made = [switch.name for switch in switches if switch.use == "create"]
    made += [
        f"{switch.name}/{switch.port_group}" for switch in switches if switch.group_use == "create"
    ]
    return sorted(made)


def adapters_made(switches: Sequence[DistributedSwitch]) -> list[str]:
    """The vmkernel adapters that a run creates, as `host: address`; from then on they belong to the
    stack.
    """
    return sorted(_adapter(host, address) for host, address in _new_adapters(switches))


def refused_adapters(
    switches: Sequence[DistributedSwitch], facts: FabricFacts, ours: frozenset[str]
) -> Iterator[str]:
    """A sentence per new adapter whose address another adapter has.

    Args:
        switches: as the lab declares them.
        facts: what exists.
        ours: the adapters that earlier runs of this stack created or began to create.
    """
    there = []
    for host in facts.hosts.values():
        for vmk, adapter in host.vmkernels.items():
            if _adapter(host.name, adapter.address) not in ours:
                there.append((host.name, vmk, adapter.address))
    for name, address in _new_adapters(switches):
        for owner, vmk, taken in there:
            if taken != address:
                continue
            if owner == name:
                yield taken_address(name, vmk, address)
            else:
                yield (
                    f"{name}: its new vmkernel adapter cannot use {address}: {vmk} of {owner} has "
                    "it; use another"
                )


def taken_address(host: str, vmk: str, address: str) -> str:
    """The fault of an address that another adapter of the host has."""
    return (
        f"{host}: {vmk} already has {address}, but does not belong to this stack; use it with "
        f"vmkernel: {{existing: {vmk}}}, remove it there, or set another address"
    )


def _new_adapters(switches: Sequence[DistributedSwitch]) -> Iterator[tuple[str, str]]:
    for switch in switches:
        for host in switch.hosts:
            if host.vmkernel is not None and host.vmkernel.address is not None:
                yield host.name, str(host.vmkernel.address.ip)


def _adapter(host: str, address: str) -> str:
    return f"{host}: {address}"


def refused_names(
    switches: Sequence[DistributedSwitch], facts: FabricFacts, ours: frozenset[str]
) -> Iterator[str]:
    """A sentence per name that is missing, or belongs to another owner.

    Args:
        switches: as the lab declares them.
        facts: what exists.
        ours: the names that earlier runs of this stack created or began to create.
    """
    for switch in switches:
        existing = facts.switches.get(switch.name)
        if switch.use == "create":
            if existing is not None and switch.name not in ours:
                yield (
                    f"distributed switch {switch.name} exists, but does not belong to this stack; "
                    "set use: adopt or use: reference, or choose another name"
                )
        elif existing is None:
            others = ", ".join(sorted(facts.switches)) or "none"
            yield (
                f"distributed switch {switch.name} cannot be {_past(switch.use)}: it does not "
                f"exist; the datacenter has {others}"
            )
        yield from _group(switch, existing, facts, ours)


def _group(
    switch: DistributedSwitch,
    existing: SwitchFacts | None,
    facts: FabricFacts,
    ours: frozenset[str],
) -> Iterator[str]:
    groups = existing.port_groups if existing is not None else {}
    if switch.group_use == "create":
        if switch.port_group in facts.networks and f"{switch.name}/{switch.port_group}" not in ours:
            yield (
                f"network {switch.port_group} exists, but does not belong to this stack; set "
                "port_group_use: adopt or port_group_use: reference, or choose another name"
            )
    elif existing is not None and switch.port_group not in groups:
        yield (
            f"port group {switch.port_group} cannot be {_past(switch.group_use)}: {switch.name} "
            f"does not have it; it has {', '.join(sorted(groups)) or 'none'}"
        )
    elif switch.group_use == "reference" and switch.declared("vlan_id") and existing is not None:
        vlan_id = groups[switch.port_group]
        if vlan_id != switch.vlan_id:
            yield (
                f"port group {switch.port_group} has {_vlan(vlan_id)}, but the lab file sets "
                f"{switch.vlan_id}; correct vlan_id, or set port_group_use: adopt"
            )


def refused_mtus(switches: Sequence[DistributedSwitch], facts: FabricFacts) -> Iterator[str]:
    """A sentence for each referenced switch that differs from the lab file."""
    for switch in switches:
        existing = facts.switches.get(switch.name)
        if (
            switch.use == "reference"
            and existing is not None
            and existing.mtu_bytes < switch.mtu_bytes
        ):
            yield (
                f"distributed switch {switch.name} has an MTU of {existing.mtu_bytes}, less than "
                f"the {switch.mtu_bytes} of the lab file; raise it in vCenter, or set use: adopt"
            )


def _past(use: str) -> str:
    return "adopted" if use == "adopt" else "referenced"


def _vlan(number: int | None) -> str:
    if number is None:
        return "a trunk or private VLAN"
    return f"VLAN {number}"


class _ClaimedName(NamedTuple):
    where: str
    """Dotted path, in which `*` is the VM's name."""
    name: str


MOST_NAMES = 8
"""Most existing names that an error lists."""
WHAT = {
    "template": "VM or template",
    "datastore": "datastore",
    "management_network": "network",
    "host": "host",
}
"""The kind of object that each field names."""


def refused_supplies(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """A sentence per object that VMs need and that is missing or unsuitable."""
    there: Mapping[str, Collection[str]] = {
        "template": facts.machines,
        "datastore": facts.datastores,
        "management_network": facts.networks,
        "host": facts.host_names,
    }
    machines_by_claim: dict[_ClaimedName, list[str]] = {}
    for claim, machine in _asked(lab):
        machines_by_claim.setdefault(claim, []).append(machine)
    for (where, name), machines in machines_by_claim.items():
        field = where.rsplit(".", 1)[-1]
        if name not in there[field]:
            templates = []
            for machine_name in there[field]:
                if field == "template" and facts.machines[machine_name].template:
                    templates.append(machine_name)
            others = ", ".join(sorted(templates or there[field])[:MOST_NAMES]) or "none"
            path = where.replace("*", some(machines, 3))
            yield (
                f"{path}: the datacenter has no {WHAT[field]} {name} that fabric.user may see; it "
                f"has {others}"
            )
    yield from _templates(lab, facts)
    yield from _old_hosts(lab, facts)


def _asked(lab: Lab) -> Iterator[tuple[_ClaimedName, str]]:
    for node, machine in _new_machines(lab):
        for field in WHAT:
            if name := getattr(machine, field):
                yield _ClaimedName(f"nodes.*.machine.{field}", name), node.name
    if lab.bitfusion is not None:
        yield _ClaimedName("bitfusion.management_network", lab.bitfusion.management_network), ""
        for server in lab.bitfusion.servers:
            yield _ClaimedName("bitfusion.servers.*.datastore", server.datastore), server.name
            yield _ClaimedName("bitfusion.servers.*.host", server.host), server.name


def _templates(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """Checks templates only: an ordinary VM may still change before it is cloned."""
    for node, machine in _new_machines(lab):
        template = facts.machines.get(machine.template)
        if template is None or not template.template:
            continue
        if template.firmware not in ("", machine.firmware):
            yield (
                f"nodes.{node.name}.machine.firmware: {machine.firmware}, but template "
                f"{machine.template} has {template.firmware} and would not boot"
            )
        if template.guest_id not in ("", machine.guest_id):
            yield (
                f"nodes.{node.name}.machine.guest_id: {machine.guest_id}, but template "
                f"{machine.template} has {template.guest_id}"
            )


def _old_hosts(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """Virtual hardware that a host is too old for: vCenter would refuse the clone or its move."""
    for node, machine in _new_machines(lab):
        for name in lab.fabric.hosts_of(node) if lab.fabric else ():
            host = facts.hosts.get(name)
            newest = None
            if host is not None:
                newest = newest_hardware(host.version)
            if host is not None and newest is not None and machine.hardware_version > newest:
                supported = "none with PVRDMA"
                if newest:
                    supported = f"up to {newest}"
                yield (
                    f"nodes.{node.name}.machine.hardware_version: {machine.hardware_version}, but "
                    f"{name}, where it may run, has ESXi {host.version}, which supports "
                    f"{supported}; lower it, or use newer hosts"
                )


def _new_machines(lab: Lab) -> Iterator[tuple[VsphereVm, Machine]]:
    for node in lab.vms:
        if isinstance(node.machine, Machine):
            yield node, node.machine

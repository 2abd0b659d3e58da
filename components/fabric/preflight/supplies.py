"""Whether what machines and servers are made from is there: template, datastore, network, host. Pure.

The provider's own lookups fail one by one, with the vCenter's words and without what there is.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from components.fabric.preflight.facts import FabricFacts
from components.fabric.preflight.releases import newest_hardware
from stacks.lab import Lab
from stacks.machines import Machine
from stacks.nodes import VsphereVm
from stacks.words import some


class _Asked(NamedTuple):
    where: str
    """Dotted path, in which `*` is the machine's name."""
    name: str


MOST_NAMES = 8
"""Of those that there are, in an error."""
WHAT = {"template": "VM or template", "datastore": "datastore", "management_network": "network", "host": "host"}
"""How the things are called that a field names."""


def refused_supplies(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """A sentence for each thing that is missing, or is not what the lab says of it.

    Args:
        lab: what is asked for.
        facts: what there is in the datacenter.
    """
    there: Mapping[str, Collection[str]] = {
        "template": facts.machines,
        "datastore": facts.datastores,
        "management_network": facts.networks,
        "host": facts.host_names,
    }
    wanted: dict[_Asked, list[str]] = {}
    for asked, machine in _asked(lab):
        wanted.setdefault(asked, []).append(machine)
    for (where, name), machines in wanted.items():
        field = where.rsplit(".", 1)[-1]
        if name not in there[field]:
            templates = [one for one in there[field] if field == "template" and facts.machines[one].template]
            others = ", ".join(sorted(templates or there[field])[:MOST_NAMES]) or "none"
            path = where.replace("*", some(machines, 3))
            yield f"{path}: the datacenter has no {WHAT[field]} {name} that our user may see; it has {others}"
    yield from _templates(lab, facts)
    yield from _old_hosts(lab, facts)


def _asked(lab: Lab) -> Iterator[tuple[_Asked, str]]:
    for node, machine in _new_machines(lab):
        for field in WHAT:
            if name := getattr(machine, field):
                yield _Asked(f"nodes.*.machine.{field}", name), node.name
    if lab.bitfusion is not None:
        yield _Asked("bitfusion.management_network", lab.bitfusion.management_network), ""
        for server in lab.bitfusion.servers:
            yield _Asked("bitfusion.servers.*.datastore", server.datastore), server.name
            yield _Asked("bitfusion.servers.*.host", server.host), server.name


def _templates(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """Of a template only: an ordinary VM that is cloned may be changed at any time before."""
    for node, machine in _new_machines(lab):
        found = facts.machines.get(machine.template)
        if found is None or not found.template:
            continue
        if found.firmware not in ("", machine.firmware):
            yield (
                f"nodes.{node.name}.machine.firmware: {machine.firmware}, and template {machine.template} was "
                f"installed for {found.firmware}: it would not boot; write {found.firmware}, or take another template"
            )
        if found.guest_id not in ("", machine.guest_id):
            yield (
                f"nodes.{node.name}.machine.guest_id: {machine.guest_id}, and template {machine.template} has "
                f"{found.guest_id}; write that"
            )


def _old_hosts(lab: Lab, facts: FabricFacts) -> Iterator[str]:
    """Virtual hardware that a host is too old for: the clone would be refused, or never move there."""
    for node, machine in _new_machines(lab):
        rails = {pf.rail for pf in node.pfs}
        switches = lab.fabric.switches if lab.fabric else ()
        on_rails = {host.name for switch in switches if switch.rail in rails for host in switch.hosts}
        for name in [machine.host] if machine.host else sorted(on_rails):
            host = facts.hosts.get(name)
            newest = newest_hardware(host.version) if host is not None else None
            if host is not None and newest is not None and machine.hardware_version > newest:
                yield (
                    f"nodes.{node.name}.machine.hardware_version: {machine.hardware_version}, and {name}, where it may "
                    f"run, has ESXi {host.version}, which knows {newest or 'none of PVRDMA'}: lower it, or take newer "
                    "hosts"
                )


def _new_machines(lab: Lab) -> Iterator[tuple[VsphereVm, Machine]]:
    for node in lab.nodes:
        if isinstance(node, VsphereVm) and node.state != "absent" and isinstance(node.machine, Machine):
            yield node, node.machine

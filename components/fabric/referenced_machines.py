"""The VMs of a lab that rocelab did not create: found by name, compared with the lab file, and
never changed.

Why so: docs/decisions/0013-existing-machines.md.
"""

from collections.abc import Mapping, Sequence

from components.fabric import login
from components.fabric.vcenter.client import VCenter
from components.fabric.vcenter.objects import find
from components.fabric.vms.existing import DeclaredMachine, by_name, differences
from components.provider import log
from components.provider.base import Failure, Properties, Resource, changed
from stacks.base import LabError


class ReferencedMachinesInputs(Properties):
    machines: dict[str, DeclaredMachine]
    """By node."""
    port_groups: dict[str, str]
    """`datacenter/switch/port group` by rail."""
    networks: dict[str, str]
    """Managed object IDs of these port groups; unknown until each is created or adopted, for which
    the run waits."""


class ReferencedMachinesState(ReferencedMachinesInputs):
    uuids: dict[str, str]
    """BIOS UUID by node, by which the vSphere provider identifies VMs."""
    differences: tuple[str, ...] = ()
    """How they differ from the lab file, as a refresh found them."""


class ReferencedMachines(Resource[ReferencedMachinesInputs, ReferencedMachinesState]):
    """Existing VMs: a difference from the lab file is refused with what to set in vCenter."""

    async def check(
        self, old: ReferencedMachinesInputs | None, new: ReferencedMachinesInputs
    ) -> list[Failure]:
        """Compares at every run. Adapters on a port group that this run creates are compared once
        it exists.
        """
        with login.configured_session(self.config) as vcenter:
            networks = existing_groups(vcenter, new.port_groups)
            _, faults = compare(vcenter, new, networks)
        for rail, group in new.port_groups.items():
            waiting = []
            for name, machine in new.machines.items():
                if rail in machine.rails:
                    waiting.append(name)
            if rail not in networks:
                log.warn(
                    f"this run creates port group {group} and then stops: add a PVRDMA adapter on "
                    f"it to {', '.join(waiting)}, then run again"
                )
        if faults:
            return [Failure("machines", _refusal(faults))]
        return []

    async def diff(self, old: ReferencedMachinesState, new: ReferencedMachinesInputs) -> list[str]:
        """Other declarations, or a difference that a refresh found."""
        names = changed(old, new)
        if old.differences:
            names.append("differences")
        return names

    async def create(self, new: ReferencedMachinesInputs) -> ReferencedMachinesState:
        with login.configured_session(self.config) as vcenter:
            uuids, faults = compare(vcenter, new, new.networks)
        if faults:
            raise LabError(_refusal(faults))
        return ReferencedMachinesState(**dict(new), uuids=uuids)

    async def read(self, old: ReferencedMachinesState) -> ReferencedMachinesState:
        with login.configured_session(self.config) as vcenter:
            uuids, faults = compare(vcenter, old, old.networks)
        return old.model_copy(update={"uuids": uuids, "differences": tuple(faults)})


def existing_groups(vcenter: VCenter, port_groups: Mapping[str, str]) -> dict[str, str]:
    """Managed object ID of each port group that exists, by rail."""
    networks: dict[str, str] = {}
    for rail, path in port_groups.items():
        try:
            networks[rail] = find(vcenter, "group", path).ids["moid"]
        except LabError:  # this run creates it, or its switch
            continue
    return networks


def compare(
    vcenter: VCenter, declared: ReferencedMachinesInputs, networks: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """UUID of each VM by node, and every difference from the lab file.

    Args:
        vcenter: the session.
        declared: what the lab file says.
        networks: managed object ID of each port group that exists, by rail.
    """
    uuids: dict[str, str] = {}
    faults: list[str] = []
    for name, machine in declared.machines.items():
        try:
            vm = by_name(vcenter, machine.path)
        except LabError as error:
            faults.append(str(error))
            continue
        uuids[name] = str(vm.facts["config.uuid"])
        wrong = differences(vm, machine, networks, declared.port_groups)
        faults.extend(f"{machine.path} {fault}" for fault in wrong)
    return uuids, faults


def _refusal(faults: Sequence[str]) -> str:
    lines = "\n".join(f"  {fault}" for fault in faults)
    return (
        "rocelab does not change VMs that it did not create; set this in vCenter, then run "
        f"again:\n{lines}"
    )

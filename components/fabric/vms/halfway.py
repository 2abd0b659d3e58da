"""VMs that an interrupted run left unfinished: what a run waits for, and what it reports.

rocelab removes none of them: a VM that the stack does not know may be a useless copy, the work of
another run, or in use. Only its owner knows.
"""

from collections.abc import Sequence

from pyVmomi import vim, vmodl

from components.fabric.vcenter.client import VCenter, until
from components.fabric.vcenter.power import is_on
from components.fabric.vcenter.properties import collect
from components.fabric.vms.hardware import find
from stacks.base import LabError
from stacks.machines import Machine

STATUS = "guest.customizationInfo"
"""Progress of a guest's customization, from vSphere 7.0.2 on."""
BUSY = ("TOOLSDEPLOYPKG_PENDING", "TOOLSDEPLOYPKG_RUNNING")
FAILED = "TOOLSDEPLOYPKG_FAILED"
RECREATE = "To create it again, delete {name} in vCenter, then run pulumi up --refresh"
"""Not by replacing it: VMs of a real lab are protected, but a missing one can be created."""
CAUSES = (
    (
        ("waiting for clone", "operation timed out"),
        (
            "the copy of template {template} to datastore {datastore} did not end within "
            "machine.clone_timeout_minutes ({clone_timeout_minutes}). It may still run: wait "
            "until it leaves vCenter's task list, delete the VM {node} that it left, then run "
            "again"
        ),
    ),
    (
        ("already exists", "duplicatename"),
        (
            "a VM of that name exists in the vCenter, but this stack does not know it. Nothing was "
            "changed. If an earlier run left it (powered off, never started), delete it; "
            "otherwise rename it, or use it with nodes.{node}.machine: {{existing: {node}}}"
        ),
    ),
    (
        ("customization failed",),
        (
            "its guest did not apply its name and addresses (machine.customize_timeout_minutes: "
            "{customize_timeout_minutes}). Look at its console; the next run waits for the guest "
            "and reports what it finds. {recreate}"
        ),
    ),
    (
        ("available ip address", "routable"),
        (
            "it runs, but its guest tools reported no address within "
            "machine.address_timeout_minutes ({address_timeout_minutes}); check its console and "
            "{management_network}, then run again"
        ),
    ),
    (
        (
            "cannot locate virtual machine or template",
            "has already been deleted",
            "managedobjectnotfound",
        ),
        (
            "template {template}, or another object that the copy needs, disappeared during the "
            "run; restore it or name another, then run again. What was created already stays"
        ),
    ),
)
"""Words in the provider's error, and the remedy; the first match counts."""


def refuse_unready(vcenter: VCenter, uuid: str, name: str, guest_s: float) -> None:
    """Waits for a guest whose customization still runs, as after a run whose wait ended.

    The provider considers such a VM created at its next run, whatever became of it.

    Args:
        vcenter: the session.
        uuid: of the machine.
        name: of its node.
        guest_s: how long the guest may take.

    Raises:
        LabError: when the customization failed, or does not end in time.
    """
    machine = find(vcenter, uuid)
    if machine is None or not is_on(vcenter, machine):
        return  # the next step reports or starts it; only then its guest is customized
    if not until(
        lambda: _customised(vcenter, machine)[0] not in BUSY,
        guest_s,
        vcenter.say,
        f"{name}: waiting for its guest",
    ):
        raise LabError(
            f"{name}: its guest did not apply its name and addresses within another {guest_s:.0f} "
            f"s; look at its console, then run again. {RECREATE.format(name=name)}"
        )
    status, said = _customised(vcenter, machine)
    if status == FAILED:
        raise LabError(
            f"{name}: its guest failed to apply its name and "
            f"addresses{f' ({said})' if said else ''}; see its "
            "/var/log/vmware-imc/toolsDeployPkg.log, and fix the template, which needs "
            "open-vm-tools and perl. " + RECREATE.format(name=name)
        )


def remedy(name: str, machine: Machine, errors: Sequence[str]) -> str:
    """The remedy for a provider error that names neither template nor remedy.

    Empty when the error says enough.

    Args:
        name: of the node.
        machine: what was to be made.
        errors: of the provider, newest first.
    """
    said = errors[0].lower() if errors else ""
    cause = next((text for words, text in CAUSES if any(word in said for word in words)), "")
    values = {**machine.model_dump(), "node": name, "recreate": RECREATE.format(name=name)}
    return f"nodes.{name}: {cause.format(**values)}" if cause else ""


def _customised(vcenter: VCenter, machine: vim.VirtualMachine) -> tuple[str, str]:
    """Status and message; empty on an old vCenter, without customization, and without the VM."""
    try:
        info = collect(vcenter.content, [machine], [STATUS])[0].get(STATUS)
    except (vmodl.query.InvalidProperty, vmodl.fault.ManagedObjectNotFound):
        return "", ""
    return (
        (str(info.customizationStatus or ""), str(info.errorMsg or ""))
        if info is not None
        else ("", "")
    )

"""VMs that a run has left half made: what may be removed so that the next run can make them, and what is said.

Plain functions on a session with the vCenter. A copy is removed only where the vCenter itself tells that our user made
it from the node's own template, and that it has never run: nothing but the template's bytes is lost then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyVmomi import vim, vmodl

from components.fabric.hardware import find
from components.fabric.objects import entity_named
from components.fabric.power import TASK_S, finish
from components.fabric.properties import collect, collect_all, known
from components.fabric.vcenter import VCenter
from components.fabric.waits import until
from stacks.base import LabError
from stacks.machines import Machine

MARK = "made by rocelab for lab "
"""Begins the annotation of a VM of ours; the lab's name follows."""
STARTED = ("DrsVmPoweredOnEvent", "VmPoweredOnEvent", "VmStartingEvent")
CLONED = "VmClonedEvent"
PATHS = ("name", "parent", "runtime.powerState", "config.template", "config.annotation")
STATUS = "guest.customizationInfo"
"""vSphere 7.0 and newer tell there how far the customisation of a guest is."""
BUSY = ("TOOLSDEPLOYPKG_PENDING", "TOOLSDEPLOYPKG_RUNNING")
FAILED = "TOOLSDEPLOYPKG_FAILED"
ANEW = "To have it made anew: delete {name} in vCenter, then pulumi up --refresh --run-program"
"""Not by replacing it: a machine of a real lab is protected, and what is gone needs no leave to be made."""
CAUSES = (
    (
        ("waiting for clone", "operation timed out"),
        (
            "the copy of template {template} to datastore {datastore} was not done within "
            "machine.clone_timeout_minutes ({clone_timeout_minutes}), or vCenter did not tell. It may go on: when its "
            "task list there is empty run this again, and a copy that never ran is removed and made anew"
        ),
    ),
    (
        ("customization failed",),
        (
            "its guest did not take name and addresses (machine.customize_timeout_minutes: "
            "{customize_timeout_minutes}). Look at its console; the next run waits for it, and says what it finds. "
            "{anew}"
        ),
    ),
    (
        ("available ip address", "routable"),
        (
            "it runs, and its guest tools told no address within machine.address_timeout_minutes "
            "({address_timeout_minutes}): look at its console and at {management_network}, then run this again"
        ),
    ),
    (
        ("cannot locate virtual machine or template", "has already been deleted", "managedobjectnotfound"),
        (
            "template {template} went away during the run: put it back, or name another in machine.template, then run "
            "this again; what is made already stays"
        ),
    ),
)
"""Words in the provider's error, and what to do; the first that fits counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
    """A VM that is to be cloned."""

    name: str
    template: str
    datacenter: str
    lab: str


def make_room(vcenter: VCenter, wanted: Copy) -> None:
    """Removes the copy that a run before has left under the name of a VM, if there is one.

    Raises:
        LabError: when a VM of that name is there which may be anything else: it is left alone.
    """
    place = entity_named(vcenter, vim.Datacenter, wanted.datacenter, None)
    folder = known(place, "vmFolder")
    for machine, found in collect_all(vcenter.content, vim.VirtualMachine, PATHS, place):
        # in another folder the name is free for ours
        if found["name"] != wanted.name or found.get("parent") != folder:
            continue
        if not _idle(vcenter, machine, wanted.name):
            raise LabError(
                f"{wanted.name}: vCenter is still busy with a VM of that name, after {TASK_S} s: end the task that its "
                "task list shows there, then run it again"
            )
        if why := foreign(vcenter, machine, found, wanted):
            raise LabError(
                f"{wanted.name}: a VM of that name is in the vCenter and not in this stack, and {why}. Nothing was "
                "touched: rename or delete it there, or take it over as it is by nodes."
                f"{wanted.name}.machine: {{existing: {wanted.name}}}"
            )
        vcenter.say(f"{wanted.name}: a run before left a copy of {wanted.template} that never ran; it is made anew")
        finish(vcenter, machine.Destroy_Task, wanted.name, "remove the copy that a run before left")


def foreign(vcenter: VCenter, machine: vim.VirtualMachine, found: Mapping[str, object], wanted: Copy) -> str:
    """Why a VM may be more than an unused copy of ours; empty when it is known to be no more."""
    note = str(found.get("config.annotation") or "")
    if found.get("config.template"):
        return "it is a template"
    if str(found.get("runtime.powerState")) != "poweredOff":
        return "it runs"
    if note.startswith(MARK) and note != MARK + wanted.lab:
        return f"it was {note}"
    events = _events(vcenter, machine)
    if any(type(one).__name__.rpartition(".")[2] in STARTED for one in events):
        return "it has run before"
    user = known(vcenter.content, "sessionManager.currentSession").userName
    ours = [
        one
        for one in events
        if isinstance(one, vim.event.VmClonedEvent) and one.userName == user and one.sourceVm.name == wanted.template
    ]
    return "" if ours else f"its events do not tell that our user cloned it from {wanted.template}"


def refuse_unready(vcenter: VCenter, uuid: str, name: str, guest_s: float) -> None:
    """Waits for a guest whose customisation is still at work, as after a run that had waited long enough for it.

    The provider calls such a machine made at its next run, whatever has become of it.

    Args:
        vcenter: the session.
        uuid: of the machine.
        name: of its node.
        guest_s: how long the guest may take.

    Raises:
        LabError: when it has failed, or is not done in time.
    """
    machine = find(vcenter, uuid)
    if machine is None:
        return  # whoever comes next says so
    if not until(lambda: _customised(vcenter, machine)[0] not in BUSY, guest_s, vcenter.say, f"{name}: customisation"):
        raise LabError(
            f"{name}: its guest has not taken name and addresses after {guest_s:.0f} s more: look at its console, then "
            f"run it again. {ANEW.format(name=name)}"
        )
    status, said = _customised(vcenter, machine)
    if status == FAILED:
        raise LabError(
            f"{name}: its guest was not given name and addresses{f' ({said})' if said else ''}: its "
            "/var/log/vmware-imc/toolsDeployPkg.log says why; mend the template, which needs open-vm-tools and perl. "
            + ANEW.format(name=name)
        )


def remedy(name: str, machine: Machine, errors: Sequence[str]) -> str:
    """What to do beside the provider's own error, which names neither template nor remedy; empty when it says enough.

    Args:
        name: of the node.
        machine: what was to be made.
        errors: of the provider, newest first.
    """
    said = errors[0].lower() if errors else ""
    cause = next((text for words, text in CAUSES if any(word in said for word in words)), "")
    told = {**machine.model_dump(), "anew": ANEW.format(name=name)}
    return f"nodes.{name}: {cause.format(**told)}" if cause else ""


def _idle(vcenter: VCenter, machine: vim.VirtualMachine, name: str) -> bool:
    """Waits for the end of what vCenter does to a machine, such as the copy that a run before has begun."""

    def free() -> bool:
        held = collect(vcenter.content, [machine], ["disabledMethod", "runtime.powerState"])[0]
        on = str(held.get("runtime.powerState")) != "poweredOff"  # it is not removed, and need not be free
        return on or "Destroy_Task" not in (held.get("disabledMethod") or [])

    return until(free, TASK_S, vcenter.say, f"{name}: vCenter is at work on a VM of that name")


def _customised(vcenter: VCenter, machine: vim.VirtualMachine) -> tuple[str, str]:
    """Status and words; empty on a vCenter too old to tell, where nothing was asked, and when the VM is gone."""
    try:
        told = collect(vcenter.content, [machine], [STATUS])[0].get(STATUS)
    except (vmodl.query.InvalidProperty, vmodl.fault.ManagedObjectNotFound):
        return "", ""
    return (str(told.customizationStatus or ""), str(told.errorMsg or "")) if told is not None else ("", "")


def _events(vcenter: VCenter, machine: vim.VirtualMachine) -> Sequence[vim.event.Event]:
    entity = vim.event.EventFilterSpec.ByEntity(entity=machine, recursion="self")
    asked = vim.event.EventFilterSpec(entity=entity, eventTypeId=[CLONED, *STARTED])
    return list(known(vcenter.content, "eventManager").QueryEvents(asked))

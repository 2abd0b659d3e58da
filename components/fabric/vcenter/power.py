"""Power of VMs and the end of vCenter's tasks: bounded waits that name the machine when they run
out.
"""

from collections.abc import Callable
from typing import cast

from pyVmomi import vim, vmodl

from components.fabric.vcenter.client import VCenter, until
from components.fabric.vcenter.properties import collect
from components.fabric.vcenter.refusals import doing
from stacks.base import LabError

TASK_S = 600
SHUTDOWN_S = 180
"""How long a guest may take to shut down before its power is cut."""


def finish(vcenter: VCenter, begin: Callable[[], vim.Task], place: str, what: str) -> None:
    """Starts a task and waits for its end.

    Raises:
        LabError: when it fails, or takes longer than `TASK_S`.
    """
    with doing(place, what):
        task = begin()

    def ended() -> bool:
        return str(_one(vcenter, task, "info.state")) in ("success", "error")

    if not until(ended, TASK_S, vcenter.say, f"{place}: waiting for vCenter to {what}"):
        raise LabError(f"{place}: vCenter did not {what} within {TASK_S} s; check its task list")
    fault = _one(vcenter, task, "info.error")
    if isinstance(fault, vmodl.MethodFault):
        with doing(place, what):
            raise fault


def is_on(vcenter: VCenter, machine: vim.VirtualMachine) -> bool:
    return str(_one(vcenter, machine, "runtime.powerState")) == "poweredOn"


def turn_off(vcenter: VCenter, machine: vim.VirtualMachine, name: str) -> None:
    """Shuts the guest down through its tools, and cuts the power if that fails."""
    tools = str(_one(vcenter, machine, "guest.toolsRunningStatus"))
    if tools == "guestToolsRunning":
        with doing(name, "shut the guest down"):
            machine.ShutdownGuest()
        off = until(
            lambda: not is_on(vcenter, machine),
            SHUTDOWN_S,
            vcenter.say,
            f"{name}: waiting for its guest to shut down",
        )
        if off:
            return
    if is_on(vcenter, machine):
        finish(vcenter, machine.PowerOffVM_Task, name, "power it off")


def turn_on(vcenter: VCenter, machine: vim.VirtualMachine, name: str, *, guest_s: int) -> None:
    """Powers a VM on, and waits until its guest tools answer; with 0 seconds it does not wait.

    Raises:
        LabError: when the guest does not come up.
    """
    finish(vcenter, machine.PowerOnVM_Task, name, "power it on")

    def answers() -> bool:
        return str(_one(vcenter, machine, "guest.toolsRunningStatus")) == "guestToolsRunning"

    if guest_s and not until(answers, guest_s, vcenter.say, f"{name}: waiting for its guest tools"):
        raise LabError(
            f"{name} is powered on, but its guest tools did not answer within {guest_s} s; check "
            "its console"
        )


def _one(vcenter: VCenter, owner: vim.ManagedEntity | vim.Task, path: str) -> object:
    # a task is no managed entity, but is read like one
    return collect(vcenter.content, [cast(vim.ManagedEntity, owner)], [path])[0].get(path)

"""What a change of each field does to a running host, and how much its repair disturbs: from the steps themselves."""

from typing import cast

from components.hosts.program.steps import STEPS
from stacks.base import Effect
from stacks.hosts import RepairClass

ORDER: tuple[RepairClass, ...] = ("none", "link", "service", "reboot")
"""From the repair that nobody notices to the one that takes the host away."""

WORDS: dict[Effect, str] = {
    "none": "no disruption",
    "link": "link flaps",
    "pods": "pods lose their VFs",
    "reboot": "reboots",
    "replace": "machine is replaced",
}

EFFECTS: dict[str, str] = {field: effect for step in STEPS for field, effect in step.effects.items()}
"""By the last part of a field's name, as the step that owns it says."""

REPAIRS: dict[str, str] = {field: repair for step in STEPS for field, repair in step.repairs.items()}


WAITING = frozenset(field for step in STEPS if step.waits_for for field in step.effects)
"""Fields of steps that are put off while a reboot is pending: wrong until then, and nobody's fault."""


def field_effect(field: str) -> Effect:
    """Effect of a change of a field such as `enp5s0.mtu_bytes`."""
    return cast("Effect", EFFECTS[field.rpartition(".")[2]])


def repair_class(field: str) -> RepairClass:
    """How much it disturbs to put a field back."""
    return cast("RepairClass", REPAIRS[field.rpartition(".")[2]])


def may_repair(field: str, policy: RepairClass) -> bool:
    """Whether the lab lets a field be put back without asking."""
    return ORDER.index(repair_class(field)) <= ORDER.index(policy)


def follows_a_reboot(field: str) -> bool:
    """Whether a pending reboot explains that a field is not as wanted."""
    return repair_class(field) == "reboot" or field.rpartition(".")[2] in WAITING

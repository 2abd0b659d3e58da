"""The effect of a change of each field on a running host, and of its repair, as the steps declare them."""

from typing import cast

from components.hosts.program.steps import STEPS
from stacks.base import Effect
from stacks.hosts import RepairClass

ORDER: tuple[RepairClass, ...] = ("none", "link", "service", "reboot")
"""From a repair without disruption to one that reboots the host."""

WORDS: dict[Effect, str] = {
    "none": "no disruption",
    "link": "link flaps",
    "pods": "pods lose their VFs",
    "reboot": "needs a reboot",
    "replace": "machine is replaced",
}

EFFECTS: dict[str, str] = {field: effect for step in STEPS for field, effect in step.effects.items()}
"""By the last part of a field's name."""

REPAIRS = {**EFFECTS, **{field: repair for step in STEPS for field, repair in step.repairs.items()}}

WAITING = frozenset(field for step in STEPS if step.waits_for for field in step.effects)
"""Fields of steps that wait for a pending reboot: until then they deviate, and that is not a failure."""


def field_effect(field: str) -> Effect:
    """Effect of a changed field such as `enp5s0.mtu_bytes`."""
    return cast("Effect", EFFECTS[field.rpartition(".")[2]])


def repair_class(field: str) -> RepairClass:
    """How disruptive the repair of a field is."""
    return cast("RepairClass", REPAIRS[field.rpartition(".")[2]])


def may_repair(field: str, policy: RepairClass) -> bool:
    """Whether the lab allows the repair of a field."""
    return ORDER.index(repair_class(field)) <= ORDER.index(policy)


def follows_a_reboot(field: str) -> bool:
    """Whether a pending reboot explains that a field deviates."""
    return repair_class(field) == "reboot" or field.rpartition(".")[2] in WAITING

"""Rules between sections of a lab file: one file per topic, one function `refuse_…` per rule.

A rule's parameters are sections by their keys: it applies where the lab has all of them. `parts` is
everything that is valid so far.
"""

from collections.abc import Callable, Iterator
from inspect import signature
from types import ModuleType

from stacks.rules import (
    benchmarks,
    bitfusion,
    bootstrap,
    cluster,
    core,
    drivers,
    fabric,
    guests,
    machines,
    switches,
)
from stacks.rules.parts import BrokenRulesError, Fault, Parts, Path, show

__all__ = ["RULES", "BrokenRulesError", "Fault", "Parts", "Path", "broken_rules", "show"]

Rule = Callable[..., Iterator[Fault]]


def _rules_of(topic: ModuleType) -> dict[Rule, tuple[str, ...]]:
    """The rules of a file with the names of their parameters."""
    rules = (function for name, function in vars(topic).items() if name.startswith("refuse_"))
    return {rule: tuple(signature(rule).parameters) for rule in rules}


TOPICS = (
    core,
    cluster,
    benchmarks,
    bitfusion,
    bootstrap,
    drivers,
    fabric,
    guests,
    machines,
    switches,
)
RULES = {rule: names for topic in TOPICS for rule, names in _rules_of(topic).items()}
"""Every rule, with the names of its parameters."""


def broken_rules(parts: Parts) -> list[Fault]:
    """All faults between the sections."""
    known = {**parts.sections, "parts": parts}
    faults: list[Fault] = []
    for rule, names in RULES.items():
        given = {name: known.get(name) for name in names}
        if all(section is not None for section in given.values()):
            faults += rule(**given)
    return faults

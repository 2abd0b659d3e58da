"""Rules between sections of a lab file: one file per topic, each listed here."""

from stacks.rules.benchmarks import BENCHMARK_RULES
from stacks.rules.bitfusion import BITFUSION_RULES
from stacks.rules.bootstrap import BOOTSTRAP_RULES
from stacks.rules.cluster import CLUSTER_RULES
from stacks.rules.core import CORE_RULES
from stacks.rules.drivers import DRIVER_RULES
from stacks.rules.fabric import FABRIC_RULES
from stacks.rules.guests import GUEST_RULES
from stacks.rules.machines import MACHINE_RULES
from stacks.rules.parts import BrokenRulesError, Fault, Parts, Path, Rule, show
from stacks.rules.switches import SWITCH_RULES

__all__ = ["BrokenRulesError", "Fault", "Parts", "Path", "broken_rules", "show"]

RULES: tuple[Rule, ...] = (
    *CORE_RULES,
    *CLUSTER_RULES,
    *BENCHMARK_RULES,
    *BITFUSION_RULES,
    *BOOTSTRAP_RULES,
    *DRIVER_RULES,
    *FABRIC_RULES,
    *GUEST_RULES,
    *MACHINE_RULES,
    *SWITCH_RULES,
)


def broken_rules(parts: Parts) -> list[Fault]:
    """All faults between the sections, in the order of the file."""
    return [fault for rule in RULES for fault in rule(parts)]

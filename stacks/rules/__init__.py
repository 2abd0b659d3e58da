"""Rules that tie sections together: one file of rules per topic, all of them listed here."""

from collections.abc import Callable, Iterator

from stacks.rules.benchmarks import BENCHMARK_RULES
from stacks.rules.bitfusion import BITFUSION_RULES
from stacks.rules.bootstrap import BOOTSTRAP_RULES
from stacks.rules.cluster import CLUSTER_RULES
from stacks.rules.core import CORE_RULES
from stacks.rules.drivers import DRIVER_RULES
from stacks.rules.fabric import FABRIC_RULES
from stacks.rules.guests import GUEST_RULES
from stacks.rules.images import IMAGE_RULES
from stacks.rules.machines import MACHINE_RULES
from stacks.rules.network import NETWORK_RULES
from stacks.rules.parts import BrokenRulesError, Fault, Parts, Path, show
from stacks.rules.report import REPORT_RULES
from stacks.rules.switches import SWITCH_RULES
from stacks.rules.system import SYSTEM_RULES

__all__ = ["BrokenRulesError", "Fault", "Parts", "Path", "broken_rules", "show"]

RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (
    *CORE_RULES,
    *CLUSTER_RULES,
    *BENCHMARK_RULES,
    *BITFUSION_RULES,
    *BOOTSTRAP_RULES,
    *DRIVER_RULES,
    *FABRIC_RULES,
    *GUEST_RULES,
    *IMAGE_RULES,
    *MACHINE_RULES,
    *NETWORK_RULES,
    *REPORT_RULES,
    *SWITCH_RULES,
    *SYSTEM_RULES,
)


def broken_rules(parts: Parts) -> list[Fault]:
    """All faults between the sections, in the order of the file."""
    return [fault for rule in RULES for fault in rule(parts)]

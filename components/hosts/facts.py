"""Facts that hosts report: which of them stay in the state, and which become messages."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from components.hosts.calls import Report
from components.hosts.losses import vf_facts
from components.hosts.program.steps import STEPS
from stacks.words import some

Facts = dict[str, JsonValue]

KEPT_FACTS = ("machine_id", "boot_id", "kernel", "warnings", *(fact for step in STEPS for fact in step.keeps))
"""The state changes only with a repair, so facts that change by themselves are not kept."""


def kept(report: Report) -> Facts:
    """The facts that later runs need; they stay in the state."""
    known = {key: report.facts[key] for key in KEPT_FACTS if key in report.facts}
    return known | vf_facts(report.facts, datetime.now(UTC))


def qos_limits(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each reason why PFs cannot have the lab's quality of service."""
    by_form: dict[str, list[str]] = {}
    for name, known in sorted(facts.items()):
        forms = known.get("qos")
        for pf, form in forms.items() if isinstance(forms, dict) else ():
            if str(form) not in ("mlnx_qos", "dcb"):
                by_form.setdefault(str(form), []).append(f"{name} {pf}")
    for form, pfs in by_form.items():
        yield f"qos: {form} ({some(pfs, 1)})"


def warnings_of(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each warning; a warning of several hosts appears once."""
    by_text: dict[str, list[str]] = {}
    for name, known in sorted(facts.items()):
        texts = known.get("warnings")
        for text in texts if isinstance(texts, list) else ():
            by_text.setdefault(str(text), []).append(name)
    for text, names in by_text.items():
        yield f"{some(names, 1)}: {text}"

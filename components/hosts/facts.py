"""What hosts say of themselves: which of it later runs need, and which of it people have to be told."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from pydantic import JsonValue

from components.hosts.calls import Report
from components.hosts.losses import vf_facts
from components.hosts.program.steps import STEPS
from stacks.words import some

Facts = dict[str, JsonValue]

KEPT_FACTS = ("machine_id", "boot_id", "kernel", "warnings", *(fact for step in STEPS for fact in step.keeps))
"""Written when something is put right, so an up without changes writes none, whatever a ping says today."""


def kept(report: Report) -> Facts:
    """The facts that later runs need, small enough to stand in the state."""
    known = {key: report.facts[key] for key in KEPT_FACTS if key in report.facts}
    return known | vf_facts(report.facts, datetime.now(UTC))


def qos_limits(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each way in which PFs cannot be set or looked at as the lab's quality of service asks."""
    by_form: dict[str, list[str]] = {}
    for name, known in sorted(facts.items()):
        forms = known.get("qos")
        for pf, form in forms.items() if isinstance(forms, dict) else ():
            if str(form) not in ("mlnx_qos", "dcb"):
                by_form.setdefault(str(form), []).append(f"{name} {pf}")
    for form, pfs in by_form.items():
        yield f"qos: {form} ({some(pfs, 1)})"


def warnings_of(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each warning of the hosts; one that many of them give is told once."""
    by_text: dict[str, list[str]] = {}
    for name, known in sorted(facts.items()):
        texts = known.get("warnings")
        for text in texts if isinstance(texts, list) else ():
            by_text.setdefault(str(text), []).append(name)
    for text, names in by_text.items():
        yield f"{some(names, 1)}: {text}"

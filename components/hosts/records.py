"""What the Fleet keeps of each host: its record, its facts, and the mark of all VFs. Pure.

The state holds each record twice, as input and as output. Sections that all hosts share are therefore
written once, and fields only where they differ from what the document asks for.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from components.hosts.calls import Report
from components.hosts.document import host_document, target_fields
from components.hosts.program.steps import STEPS
from components.ssh.connection import Endpoint
from components.ssh.credentials import endpoint_of
from stacks.base import Section
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.words import some

Document = dict[str, JsonValue]


class HostRecord(Section):
    """One host: its endpoint, its target state, and its fields as they were last read."""

    state: Literal["active", "drained", "absent"]
    formerly: str | None = None
    endpoint: Endpoint
    trouble: str = ""
    """Why the host could not be read; empty in the inputs."""
    unfinished: bool = False
    """Whether the last run did not finish applying the document; never in the inputs."""
    document: Document
    """All that a repair or an undo needs, also when the lab file no longer names the host."""
    fields: dict[str, JsonValue] = Field(default_factory=lambda known: _target(known["state"], known["document"]))
    """In the inputs the target values; in the outputs the values that were last read."""

    @property
    def pfs(self) -> list[Document]:
        pfs = self.document.get("pfs")
        return [pf for pf in pfs if isinstance(pf, dict)] if isinstance(pfs, list) else []

    @property
    def target(self) -> dict[str, JsonValue]:
        """The fields of the host when it conforms; none for a document of another version of rocelab."""
        return _target(self.state, self.document)

    def plain(self, shared: Document) -> dict[str, JsonValue]:
        """The record as the state keeps it, without the sections that all hosts share."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        document = {key: value for key, value in self.document.items() if key not in shared}
        content["document"] = document
        if self.fields == self.target:
            del content["fields"]
        return content


def _target(state: str, document: Document) -> dict[str, JsonValue]:
    try:
        return target_fields(document) if state == "active" else {}
    except (KeyError, TypeError):  # written by another version of rocelab
        return {}


def target_record(lab: Lab, node: Node, host_key: str, owner: str = "") -> HostRecord:
    """The target state of a node. With an owner, the host refuses every other one."""
    document: Document = {**host_document(lab, node), **({"owner": owner} if owner else {})}
    return HostRecord(
        state=node.state,
        formerly=node.formerly,
        endpoint=endpoint_of(lab, node, host_key),
        # not by default: there an error in a step counts as a document of another version, and nothing would be applied
        fields=target_fields(document) if node.state == "active" else {},
        document=document,
    )


def owner_of(lab: Lab, stack: str) -> str:
    """The owner that a host records."""
    return f"lab {lab.name} of stack {stack}"


def record_before(olds: Mapping[str, HostRecord], name: str, new: HostRecord) -> HostRecord | None:
    """The host in an earlier run, also under the name that it had then; None for a host that is new."""
    return olds.get(name) or olds.get(new.formerly or "")


def records_of(properties: Mapping[str, object]) -> dict[str, HostRecord]:
    """The hosts among a resource's properties, without those that are unknown or unreadable."""
    records: dict[str, HostRecord] = {}
    for name, content in whole_hosts(properties).items():
        try:
            records[name] = HostRecord.model_validate(content)
        except ValidationError:
            continue
    return records


def whole_hosts(properties: Mapping[str, object]) -> dict[str, object]:
    """The hosts among a resource's properties, each with the sections that all hosts share."""
    hosts, shared = properties.get("hosts"), properties.get("shared", {})
    whole: dict[str, object] = {}
    for name, host in hosts.items() if isinstance(hosts, Mapping) else ():
        document = host.get("document") if isinstance(host, Mapping) else None
        if isinstance(document, Mapping):
            # sections that a preview does not know make the host unreadable
            joined = {**shared, **document} if isinstance(shared, Mapping) else None
            whole[name] = {**host, "document": joined}
        else:
            whole[name] = host
    return whole


def properties_of(records: Mapping[str, HostRecord]) -> dict[str, JsonValue]:
    """The same hosts as properties; what all documents have in common is there once."""
    shared = _shared([record.document for record in records.values()])
    return {"hosts": {name: record.plain(shared) for name, record in records.items()}, "shared": shared}


def _shared(documents: list[Document]) -> Document:
    """The sections that are the same in all documents; none for a single document, of which nothing would be left."""
    if len(documents) < 2:
        return {}
    first, *others = documents
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


# -- the mark of all VFs

DOT = "."


def same_layout(one: object, other: object) -> bool:
    """Whether two marks mean the same VFs in the lab file."""
    return plain(one) == plain(other)


def plain(mark: object) -> str:
    """The digest alone, as in the inputs."""
    return str(mark).partition(DOT)[0]


def mark_after(old: object, target: object, came: bool) -> str:
    """The mark after a run.

    Args:
        old: the mark of the last run, if there was one.
        target: the digest of the lab file.
        came: whether VFs appeared that the last run had not found.
    """
    if old is None or not same_layout(old, target):
        return plain(target)
    count = int(str(old).partition(DOT)[2] or 0) + came
    return f"{plain(target)}{DOT}{count}" if count else plain(target)


def missed(seen: HostRecord | None, new: HostRecord) -> Iterator[str]:
    """The fields whose number of VFs differs from the target."""
    if seen is None or seen.state != "active" or new.state != "active" or seen.trouble:
        return
    yield from (field for field, value in _numbers(new) if seen.fields.get(field, value) != value)


def vfs_came(
    olds: Mapping[str, HostRecord], now: Mapping[str, HostRecord], found_wrong: Mapping[str, Collection[str]]
) -> bool:
    """Whether a host now has all VFs that the last run, or the start of this one, did not find.

    Args:
        olds: the hosts as they were last read.
        now: the hosts at the end of this run.
        found_wrong: per host the fields that deviated at the start of this run.
    """
    for name, record in now.items():
        old = record_before(olds, name, record)
        before = {*missed(old, record), *found_wrong.get(name, ())}
        right = (field for field, value in _numbers(record) if record.fields.get(field) == value)
        if record.state == "active" and not record.trouble and before.intersection(right):
            return True
    return False


def _numbers(record: HostRecord) -> Iterator[tuple[str, object]]:
    for field, value in record.target.items():
        if field.rpartition(DOT)[2] == "vfs":
            yield field, value


# -- facts

Facts = dict[str, JsonValue]

IN_USE, OFFERED, SEEN = "vfs_in_use", "vfs_offered", "seen"
"""Facts: per PF how many are in use and why, how many its NIC offers, and when that was seen (UTC)."""
MINUTE = "%Y-%m-%dT%H:%MZ"
LONGEST_REASON = 80
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


@dataclass(frozen=True, slots=True)
class Known:
    in_use: Mapping[str, str]
    """Per PF, how many and why; PFs without are left out."""
    offered: Mapping[str, int]
    seen: datetime

    def age(self, now: datetime) -> str:
        """The age of the facts, as text."""
        minutes = max(int((now - self.seen).total_seconds() // 60), 0)
        if minutes < 1:
            return "seen just now"
        if minutes < 120:
            return f"seen {minutes} min ago"
        return f"seen {minutes // 60} h ago" if minutes < 60 * 48 else f"seen {minutes // 1440} days ago"


def vf_facts(facts: Mapping[str, JsonValue], now: datetime) -> dict[str, JsonValue]:
    """The part of a host's facts that a later preview needs, small enough for the state."""
    uses, offered = facts.get(IN_USE), facts.get(OFFERED)
    if not isinstance(uses, dict) or offered is None:
        return {}
    by_pf: dict[str, list[str]] = {}
    for vf, reason in uses.items():
        pf, _, number = vf.partition(" ")
        by_pf.setdefault(pf, []).append(f"{number}: {reason}")
    in_use: dict[str, JsonValue] = {
        pf: f"{len(found)} in use, such as {found[0]}"[:LONGEST_REASON] for pf, found in by_pf.items()
    }
    return {IN_USE: in_use, OFFERED: offered, SEEN: now.strftime(MINUTE)}


def known_of(facts: object) -> Known | None:
    """What the facts contain about VFs; None when something is missing."""
    if not isinstance(facts, Mapping):
        return None
    in_use, offered, seen = facts.get(IN_USE), facts.get(OFFERED), facts.get(SEEN)
    if not (isinstance(in_use, Mapping) and isinstance(offered, Mapping) and isinstance(seen, str)):
        return None
    try:
        when = datetime.strptime(seen, MINUTE).replace(tzinfo=UTC)
        return Known(
            {str(pf): str(said) for pf, said in in_use.items()}, {str(p): int(n) for p, n in offered.items()}, when
        )
    except (ValueError, TypeError):
        return None

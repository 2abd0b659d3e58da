"""What the Fleet keeps of each host: its record, its facts, and the mark of all VFs. Pure.

The state holds each record twice, as input and as output. Sections that all hosts share are
therefore written once, and fields only where they differ from what the document asks for.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, cast

from pydantic import BaseModel, Field, JsonValue, ValidationError

from components.hosts.calls import Report
from components.hosts.program import steps
from components.ssh.connection import Endpoint
from stacks.base import Section
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
    fields: dict[str, JsonValue] = Field(
        default_factory=lambda known: _target(known["state"], known["document"])
    )
    """In the inputs the target values; in the outputs the values that were last read."""

    @property
    def pfs(self) -> list[Document]:
        return [pf for pf in as_list(self.document.get("pfs")) if isinstance(pf, dict)]

    @property
    def target(self) -> dict[str, JsonValue]:
        """The fields of a conforming host; none for a document of another version of rocelab."""
        return _target(self.state, self.document)

    def deviating(self, fields: Mapping[str, JsonValue]) -> list[str]:
        """The fields whose value on the host differs from the record's."""
        return [key for key, value in self.fields.items() if fields.get(key) != value]

    def with_changes(self, **changes: object) -> "HostRecord":
        return self.model_copy(update=changes)

    def plain(self, shared: Document) -> dict[str, JsonValue]:
        """The record as the state keeps it, without the sections that all hosts share."""
        elsewhere = {"document"}
        if self.fields == self.target:
            elsewhere.add("fields")
        content = self.model_dump(mode="json", exclude_defaults=True, exclude=elsewhere)
        document = {key: value for key, value in self.document.items() if key not in shared}
        content["document"] = document
        return content


Records = Mapping[str, HostRecord]
"""Hosts by name."""


def target_fields(document: Document) -> dict[str, JsonValue]:
    """The fields that a conforming host reports, in their order."""
    return cast("dict[str, JsonValue]", steps.target_fields(document))


def _target(state: str, document: Document) -> dict[str, JsonValue]:
    try:
        return target_fields(document) if state == "active" else {}
    except (KeyError, TypeError):  # written by another version of rocelab
        return {}


def record_before(olds: Records, name: str, new: HostRecord) -> HostRecord | None:
    """The host in an earlier run, also under its name of then; None for a host that is new."""
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
    for name, host in as_mapping(hosts).items():
        content = dict(as_mapping(host))
        document = content.get("document")
        if isinstance(document, Mapping):
            # sections that a preview does not know make the host unreadable
            joined = {**shared, **document} if isinstance(shared, Mapping) else None
            content["document"] = joined
        whole[name] = content
    return whole


def properties_of(records: Records) -> dict[str, JsonValue]:
    """The same hosts as properties; what all documents have in common is there once."""
    shared = _shared([record.document for record in records.values()])
    return {
        "hosts": {name: record.plain(shared) for name, record in records.items()},
        "shared": shared,
    }


def _shared(documents: list[Document]) -> Document:
    """The sections that all documents share; none of a single one, which would be left empty."""
    if len(documents) < 2:
        return {}
    shared = dict(documents[0])
    for document in documents[1:]:
        for key in [key for key in shared if document.get(key) != shared[key]]:
            del shared[key]
    return shared


# -- the mark of all VFs

DOT = "."


def same_layout(before: object, after: object) -> bool:
    """Whether two marks mean the same VFs in the lab file."""
    return plain(before) == plain(after)


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


def missed(last: HostRecord | None, new: HostRecord) -> Iterator[str]:
    """The fields whose number of VFs differs from the target."""
    if last is None or last.state != "active" or new.state != "active" or last.trouble:
        return
    for key, value in _numbers(new):
        if last.fields.get(key, value) != value:
            yield key


def vfs_came(
    olds: Records,
    now: Records,
    found_wrong: Mapping[str, Collection[str]],
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
        right = (key for key, value in _numbers(record) if record.fields.get(key) == value)
        if record.state == "active" and not record.trouble and before.intersection(right):
            return True
    return False


def _numbers(record: HostRecord) -> Iterator[tuple[str, object]]:
    for key, value in record.target.items():
        if key.rpartition(DOT)[2] == "vfs":
            yield key, value


# -- facts

Facts = dict[str, JsonValue]
LONGEST_VALUE = 60


def as_mapping(value: object) -> Mapping[str, JsonValue]:
    """A mapping among facts or properties, which other versions may have written; else empty."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[JsonValue]:
    """The same for a list."""
    return value if isinstance(value, list) else []


def shorten(value: JsonValue) -> str:
    """A value on one line."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


IN_USE, OFFERED, SEEN = "vfs_in_use", "vfs_offered", "seen"
"""Facts: per PF how many are in use and why, how many its NIC offers, and when (UTC)."""
MINUTE = "%Y-%m-%dT%H:%MZ"
LONGEST_REASON = 80
KEPT_OF_STEPS = (fact for step in steps.STEPS for fact in step.keeps)
KEPT_FACTS = ("machine_id", "boot_id", "kernel", "warnings", *KEPT_OF_STEPS)
"""The state changes only with a repair, so facts that change by themselves are not kept."""


def kept(report: Report) -> Facts:
    """The facts that later runs need; they stay in the state."""
    known = {key: report.facts[key] for key in KEPT_FACTS if key in report.facts}
    return known | vf_facts(report.facts, datetime.now(UTC))


def qos_limits(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each reason why PFs cannot have the lab's quality of service."""
    pfs: dict[str, list[str]] = defaultdict(list)
    for name, known in sorted(facts.items()):
        for pf, form in as_mapping(known.get("qos")).items():
            pfs[str(form)].append(f"{name} {pf}")
    for form, places in pfs.items():
        if form not in ("mlnx_qos", "dcb"):
            yield f"qos: {form} ({some(places, 1)})"


def warnings_of(facts: Mapping[str, Facts]) -> Iterator[str]:
    """A line for each warning; a warning of several hosts appears once."""
    hosts: dict[str, list[str]] = defaultdict(list)
    for name, known in sorted(facts.items()):
        for text in as_list(known.get("warnings")):
            hosts[str(text)].append(name)
    for text, names in hosts.items():
        yield f"{some(names, 1)}: {text}"


class Known(BaseModel):
    in_use: dict[str, str] = Field(alias=IN_USE)
    """Per PF, how many and why; PFs without are left out."""
    offered: dict[str, int] = Field(alias=OFFERED)
    read_at: datetime = Field(alias=SEEN)

    def age(self, now: datetime) -> str:
        """The age of the facts, as text."""
        minutes = max(int((now - self.read_at).total_seconds() // 60), 0)
        if minutes < 1:
            return "seen just now"
        if minutes < 120:
            return f"seen {minutes} min ago"
        hours = minutes // 60
        return f"seen {hours} h ago" if hours < 48 else f"seen {hours // 24} days ago"


def vf_facts(facts: Mapping[str, JsonValue], now: datetime) -> dict[str, JsonValue]:
    """The part of a host's facts that a later preview needs, small enough for the state."""
    uses, offered = facts.get(IN_USE), facts.get(OFFERED)
    if not isinstance(uses, dict) or offered is None:
        return {}
    by_pf: dict[str, list[str]] = defaultdict(list)
    for vf, reason in uses.items():
        pf, _, number = vf.partition(" ")
        by_pf[pf].append(f"{number}: {reason}")
    in_use: dict[str, JsonValue] = {}
    for pf, vfs in by_pf.items():
        in_use[pf] = f"{len(vfs)} in use, such as {vfs[0]}"[:LONGEST_REASON]
    return {IN_USE: in_use, OFFERED: offered, SEEN: now.strftime(MINUTE)}


def known_of(facts: object) -> Known | None:
    """What the facts contain about VFs; None when something is missing."""
    try:
        return Known.model_validate(facts)
    except ValidationError:
        return None

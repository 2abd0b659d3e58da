"""Hosts in the state: one JSON text per host, so numbers stay numbers and a diff names the host.

The state holds each text twice, as input and as output. Sections that all hosts share are therefore written once, and
fields only where they differ from what the document asks for.
"""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from components.hosts.document import host_document, target_fields
from components.ssh.connection import Endpoint
from components.ssh.credentials import endpoint_of
from stacks.base import Section
from stacks.lab import Lab
from stacks.nodes import Node

PREFIX = "host_"
SHARED = "shared"
"""The property with the sections of the documents that are the same on all hosts."""
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

    def text(self, shared: Document | None = None) -> str:
        """The text for the state; sorted, because another order would look like a change."""
        content = self.model_dump(mode="json", exclude_defaults=True)
        content["document"] = {key: value for key, value in self.document.items() if key not in (shared or {})}
        if self.fields == self.target:
            del content["fields"]
        return json.dumps(content, sort_keys=True)


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
    found: dict[str, HostRecord] = {}
    text = properties.get(SHARED)
    shared = json.loads(text) if isinstance(text, str) else {}
    for key, value in properties.items():
        if key.startswith(PREFIX) and isinstance(value, str):
            try:
                content = json.loads(value)
                content["document"] = {**shared, **content["document"]}
                found[key.removeprefix(PREFIX)] = HostRecord.model_validate(content)
            except (ValidationError, ValueError, KeyError, TypeError):
                continue
    return found


def properties_of(records: Mapping[str, HostRecord]) -> dict[str, str]:
    shared = _shared([record.document for record in records.values()])
    texts = {PREFIX + name: record.text(shared) for name, record in records.items()}
    return {**texts, SHARED: json.dumps(shared, sort_keys=True)}


def _shared(documents: list[Document]) -> Document:
    """The sections that are the same in all documents; none for a single document, of which nothing would be left."""
    if len(documents) < 2:
        return {}
    first, *others = documents
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}

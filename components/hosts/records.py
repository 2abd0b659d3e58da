"""What stands in the state about each host: one JSON text each, so that numbers stay numbers and a diff has a name."""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue, ValidationError

from components.hosts.document import host_document, wanted_fields
from components.ssh.connection import Endpoint
from stacks.base import Section
from stacks.lab import Lab
from stacks.nodes import Node

PREFIX = "host_"


class HostRecord(Section):
    """One host: how it is reached, what is wanted of it, and (after a look at it) what is."""

    state: Literal["active", "drained", "absent"]
    formerly: str | None = None
    endpoint: Endpoint
    fields: dict[str, JsonValue]
    """Wanted in the inputs; in the outputs what was seen last."""
    trouble: str = ""
    """Why the last look at the host failed; empty in the inputs."""
    document: dict[str, JsonValue]
    """All that a repair or an undo needs, also when the lab file no longer names the host."""

    def text(self) -> str:
        """As it stands in the state; sorted, since another order of the same would look like a change."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True)


def endpoint_of(lab: Lab, node: Node, host_key: str) -> Endpoint:
    """Where a node's SSH answers."""
    return Endpoint(address=str(node.address), port=node.ssh_port, user=lab.access.user, host_key=host_key)


def wanted_record(lab: Lab, node: Node, host_key: str) -> HostRecord:
    """What the lab wants of a node."""
    document = host_document(lab, node)
    return HostRecord(
        state=node.state,
        formerly=node.formerly,
        endpoint=endpoint_of(lab, node, host_key),
        fields=wanted_fields(document) if node.state == "active" else {},
        document=document,
    )


def records_of(properties: Mapping[str, object]) -> dict[str, HostRecord]:
    """The hosts among a resource's properties. What is unknown, or of another version of us, is left out."""
    found: dict[str, HostRecord] = {}
    for key, value in properties.items():
        if key.startswith(PREFIX) and isinstance(value, str):
            try:
                found[key.removeprefix(PREFIX)] = HostRecord.model_validate_json(value)
            except ValidationError:
                continue
    return found


def properties_of(records: Mapping[str, HostRecord]) -> dict[str, str]:
    """The other way round."""
    return {PREFIX + name: record.text() for name, record in records.items()}

"""The flat draft as it grows."""

from dataclasses import dataclass, field
from typing import Any

from components.discovery.questions import Notice, Question

Entry = dict[str, Any]
"""A rail, node or switch as a lab file has it."""


@dataclass(slots=True)
class DraftPlan:
    """Rails and nodes one by one, and what came up on the way."""

    rails: list[Entry] = field(default_factory=list)
    nodes: list[Entry] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    """Name of the node by that of the host in the inventory."""
    servers: dict[str, str] = field(default_factory=dict)
    """Server class by name of the node."""
    rdma_namespaces: str | None = None
    """What most hosts have."""

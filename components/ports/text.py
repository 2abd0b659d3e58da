"""The port matrix as a table for people, as data, and as the few lines that a stack's output holds."""

import json

from pydantic import JsonValue

from components.ports.matrix import ROLES, PortRow, port_matrix
from stacks.lab import Lab


def as_markdown(lab: Lab) -> str:
    """A document to hand to whoever runs the firewalls."""
    rows = port_matrix(lab)
    used = [role for role in ROLES if any(role in (row.source, row.target) for row in rows)]
    lines = [
        f"# Ports of lab {lab.name}",
        "",
        "| from | to | protocol | port | network | why |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.source} | {row.target} | {row.protocol} | {row.ports} | {row.network} | {_why(row)} |" for row in rows
    ]
    lines += ["", *(f"- **{role}**: {ROLES[role]}" for role in used)]
    return "\n".join(lines) + "\n"


def as_json(lab: Lab) -> str:
    """The same for programs."""
    rows: list[JsonValue] = [
        {
            "from": row.source,
            "to": row.target,
            "protocol": row.protocol,
            "first": row.first,
            "last": row.last,
            "network": row.network,
            "listens": row.listens,
            "why": row.why,
        }
        for row in port_matrix(lab)
    ]
    return json.dumps({"lab": lab.name, "rows": rows}, indent=2) + "\n"


def output_lines(lab: Lab) -> list[str]:
    """One line a row: as short for 256 nodes as for two."""
    return [f"{row.source} -> {row.target} {row.protocol} {row.ports}: {row.why}" for row in port_matrix(lab)]


def _why(row: PortRow) -> str:
    return f"{row.why}; open on demand" if row.listens == "on demand" else row.why

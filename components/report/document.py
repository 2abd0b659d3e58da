"""The report as JSON: the verdict as it is now, the run document, and the raw outputs, for programs. Pure."""

import json

from pydantic import JsonValue

from components.report.sources import Material

SCHEMA_VERSION = 2
COMPACT = (",", ":")
MOST_COMMANDS = 4000
"""Outputs up to which each one's command is repeated here; it is the output's own first line."""


def render_json(material: Material) -> str:
    """The file's text: one line per part, so that tools can show what differs."""
    brief = len(material.raw) > MOST_COMMANDS
    raw: JsonValue = {
        "file": material.bundle if material.raw else "",
        "sha256": material.summary.raw_sha256,
        "columns": ["name", "bytes", "sha256", "command"],
        "outputs": [[file.name, file.size_bytes, file.sha256, "" if brief else file.command] for file in material.raw],
    }
    parts = {
        "schema_version": str(SCHEMA_VERSION),
        "verdict": material.summary.model_dump_json(),
        # as text: of a large lab the same as objects would take a hundred megabytes
        "run": material.document.model_dump_json(exclude_defaults=True) if material.document else "null",
        "raw": json.dumps(raw, separators=COMPACT),
        "missing": json.dumps(list(material.missing), separators=COMPACT),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"

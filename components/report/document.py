"""The report as JSON: verdict, whole record, raw outputs and earlier runs, for programs. Pure."""

import json

from pydantic import JsonValue

from components.report.material import Material
from components.report.past import PastRun

SCHEMA_VERSION = 1
COMPACT = (",", ":")
MOST_COMMANDS = 4000
"""Outputs up to which each one's command is repeated here; it is the output's own first line."""


def render_json(material: Material) -> str:
    """The file's text: one line a part, so that tools can show what differs."""
    brief = len(material.raw) > MOST_COMMANDS
    outputs = [[file.name, file.size_bytes, file.sha256, "" if brief else file.command] for file in material.raw]
    raw: JsonValue = {
        "file": material.bundle,
        "sha256": material.summary.raw_sha256,
        "columns": ["name", "bytes", "sha256", "command"],
    }
    parts = {
        "schema_version": str(SCHEMA_VERSION),
        "verdict": material.summary.model_dump_json(),
        # as text: of a large lab the same as objects would take a hundred megabytes
        "record": material.record.model_dump_json(exclude_defaults=True) if material.record else "null",
        "record_from": _text(material.record_from),
        "raw": f'{_text(raw)[:-1]},"outputs":{_text(outputs)}}}',
        "history": _text([_past(run) for run in material.history]),
        "missing": _text(list(material.missing)),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"


def _past(run: PastRun) -> JsonValue:
    return {
        "run_id": run.run_id,
        "started_at": run.started_at,
        "passed": run.passed,
        "medians": [
            {"test": test, "rail": rail, "median": value, "unit": run.units[test]}
            for (test, rail), value in run.medians.items()
        ],
    }


def _text(value: object) -> str:
    return json.dumps(value, separators=COMPACT)

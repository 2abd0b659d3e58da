"""The formats of a report, and the files that hold them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from components.report.ctrf import render_ctrf
from components.report.markdown import render_markdown
from components.validation.store import Material
from stacks.files import write_file

SCHEMA_VERSION = 2
MOST_COMMANDS = 4000
"""Outputs up to which the JSON repeats each one's command, which is also the output's own first
line."""


def _json(material: Material) -> str:
    """The verdict as it is now, the run document and the raw outputs: one line per part, so that
    diffs are readable.
    """
    brief = len(material.raw) > MOST_COMMANDS
    outputs = []
    for file in material.raw:
        command = "" if brief else file.command
        outputs.append([file.name, file.size_bytes, file.sha256, command])
    raw = {
        "file": material.bundle if material.raw else "",
        "sha256": material.summary.raw_sha256,
        "columns": ["name", "bytes", "sha256", "command"],
        "outputs": outputs,
    }
    parts = {
        "schema_version": str(SCHEMA_VERSION),
        "verdict": material.summary.model_dump_json(),
        # as text: the objects of a large lab would take a hundred megabytes
        "run": material.document.model_dump_json(exclude_defaults=True)
        if material.document
        else "null",
        "raw": json.dumps(raw, separators=(",", ":")),
        "missing": json.dumps(list(material.missing), separators=(",", ":")),
    }
    return "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"


def _html(material: Material) -> str:
    # only what needs plots or templates loads them
    from components.report.page import render_html  # noqa: PLC0415

    return render_html(material)


def _junit(material: Material) -> str:
    from components.report.junit import render_junit  # noqa: PLC0415

    return render_junit(material.summary)


class Format(NamedTuple):
    r"""A way to write the report, by the name of its option.

    >>> def render_csv(material):
    ...     rows = [f"{test.test},{test.function}" for test in material.summary.tests]
    ...     return "\n".join(rows)
    >>> FORMATS["csv"] = Format("csv", "how each test ended, for spreadsheets", render_csv)
    """

    end: str
    """The end of the file's name."""
    is_for: str
    render: Callable[[Material], str]


FORMATS = {
    "html": Format("html", "one page with charts, for a browser", _html),
    "markdown": Format("md", "tables and findings, for a pull request", render_markdown),
    "json": Format("json", "verdict, whole record and raw digests, for programs", _json),
    "ctrf": Format(
        "ctrf.json",
        "test cases as CTRF JSON, for CI systems",
        lambda material: render_ctrf(material.summary),
    ),
    "junit": Format("junit.xml", "test cases as JUnit XML, for CI systems", _junit),
}


def write(files: Mapping[str, Path], material: Material) -> None:
    for name, file in files.items():
        write_file(file, FORMATS[name].render(material))

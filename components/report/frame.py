"""The frame of every HTML page of rocelab: one style, no script, and nothing that a browser would
fetch.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from components.finding import plain

TEMPLATES = Path(__file__).parent / "templates"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""A browser that opens the page fetches nothing."""


def environment(*folders: Path, filters: Mapping[str, Any] | None = None) -> Environment:
    """Templates that extend `frame.html`, from these folders and the report's own."""
    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    style = (TEMPLATES / "style.css").read_text().replace("\n", " ")
    made.globals |= {"policy": POLICY, "css": Markup(style)}  # noqa: S704  # our own file
    made.filters |= filters or {}
    return made

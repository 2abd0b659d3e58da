"""The formats of a report, and the files that hold them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from components.report.ctrf import render_ctrf
from components.report.document import render_json
from components.report.junit import render_junit
from components.report.markdown import render_markdown
from components.report.sources import Material


def _html(material: Material) -> str:
    from components.report.page import render_html  # noqa: PLC0415  # the page alone needs plots and templates

    return render_html(material)


class Format(NamedTuple):
    """A way to write the report, by the name of its option."""

    end: str
    """Of the file's name in a folder."""
    is_for: str
    render: Callable[[Material], str]


FORMATS = {
    "html": Format("html", "one page with charts, for a browser", _html),
    "markdown": Format("md", "tables and findings, for a pull request", render_markdown),
    "json": Format("json", "verdict, whole record and raw digests, for programs", render_json),
    "ctrf": Format("ctrf.json", "test cases as CTRF JSON, for CI systems", lambda found: render_ctrf(found.summary)),
    "junit": Format("junit.xml", "test cases as JUnit XML, for CI systems", lambda found: render_junit(found.summary)),
}


def write(files: Mapping[str, Path], material: Material) -> None:
    """Whole files only: a reader who opens one meanwhile sees the old file."""
    for name, file in files.items():
        text = FORMATS[name].render(material)
        unfinished = file.with_name(f".{file.name}.partial")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)

"""The report of a stack: the verdict on the terminal, and files for people and programs when they are asked for."""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from components.report.ctrf import render_ctrf
from components.report.document import render_json
from components.report.junit import render_junit
from components.report.markdown import render_markdown
from components.report.material import Material
from components.report.outputs import read_outputs, summary_in
from components.report.sources import gather
from components.report.terminal import show
from components.report.unmeasured import after_up
from stacks.base import LabError

EXAMPLES = """\
examples
  python -m components.report --stack dgx                          the verdict, on the terminal
  python -m components.report --stack dgx --folder report          every format: dgx.html, dgx.md, dgx.json and more
  python -m components.report --outputs saved.json --html r.html   of outputs that were saved, without an engine

exit status
  0  there is a verdict, whatever it is: failing is the gate's business (benchmarks.mode enforce)
  2  there is none, it is of another version of this program, or a file cannot be written
"""
INSTANT, WRITTEN = "2026-01-31T12:00:00Z", "%Y-%m-%dT%H:%M:%SZ"
"""A time as `Summary.started_at` is written, and how."""
PIPED_COLUMNS = 120
"""Into a file or another program there is room: nothing is broken into lines."""


def _html(material: Material) -> str:
    from components.report.html.page import render_html  # noqa: PLC0415  # the page alone needs the plotting library

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


def main(arguments: list[str] | None = None) -> int:
    """Shows the verdict. Its exit code says whether there is one, not what it is: failing is the gate's business."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        up = _up(*asked.after_up) if asked.after_up else None
    except ValueError:
        parser.error(f"argument --after-up: {' '.join(asked.after_up)} is no exit status and a time such as {INSTANT}")
    stack = None if asked.outputs else str(asked.stack)
    try:
        outputs = read_outputs(asked.stack, asked.outputs)
        summary = summary_in(outputs)
        if summary is None:
            sys.stdout.write("function: skip · performance: not rated (benchmarks are off)\n")
            return 0
        if up:
            status, begun = up
            summary = after_up(summary, begun, failed=bool(status))
        files = {name: file for name in FORMATS if (file := getattr(asked, name))}
        if asked.folder:
            files |= {name: asked.folder / f"{asked.stack}.{way.end}" for name, way in FORMATS.items()}
            asked.folder.mkdir(parents=True, exist_ok=True)
        if files:
            _write(files, gather(summary, outputs, stack=stack, root=Path.cwd(), store=asked.store))
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename} cannot be written: {error.strerror}\n")
        return 2
    piped = None if sys.stdout.isatty() else PIPED_COLUMNS
    show(summary, Console(highlight=False, width=piped), files.values())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m components.report",
        description=str(__doc__),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--stack", default="lab", help="stack to ask (default: lab)")
    parser.add_argument("--outputs", type=Path, metavar="FILE", help="read this `pulumi stack output --json` instead")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="the lab's runs, if they are not where it says")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="write all formats there, named after the stack")
    parser.add_argument(
        "--after-up",
        nargs=2,
        metavar=("STATUS", "BEGUN"),
        help=f"exit status of the up before, and when it began ({INSTANT}): what one that failed did not "
        "measure is stale",
    )
    for name, way in FORMATS.items():
        parser.add_argument(f"--{name}", type=Path, metavar="FILE", help=f"write {way.is_for}")
    return parser


def _up(status: str, begun: str) -> tuple[int, str]:
    """Its exit status, and when it began as verdicts have it, so that both can be compared as texts."""
    return int(status), datetime.strptime(begun, WRITTEN).replace(tzinfo=UTC).strftime(WRITTEN)


def _write(files: dict[str, Path], material: Material) -> None:
    """Whole files only: who opens the old one while the new one is made sees the old one."""
    for name, file in files.items():
        text = FORMATS[name].render(material)
        unfinished = file.with_name(f".{file.name}.partial")
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)


if __name__ == "__main__":
    sys.exit(main())

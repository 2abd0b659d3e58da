"""The report of a stack: `python -m components.report --stack lab [--markdown FILE] [--json FILE]`."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from components.report.markdown import render_markdown
from components.report.outputs import read_outputs, summary_in
from components.report.terminal import show
from stacks.base import LabError

PIPED_COLUMNS = 120
"""Into a file or another program there is room: nothing is broken into lines."""


def main(arguments: list[str] | None = None) -> int:
    """Shows the verdict. Its exit code says whether there is one, not what it is: failing is the gate's business."""
    parser = argparse.ArgumentParser(prog="python -m components.report", description=__doc__)
    parser.add_argument("--stack", default="lab", help="stack to ask")
    parser.add_argument("--outputs", type=Path, metavar="FILE", help="read this `pulumi stack output --json` instead")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the report as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    asked = parser.parse_args(arguments)
    try:
        summary = summary_in(read_outputs(asked.stack, asked.outputs))
        if summary is None:
            sys.stdout.write("function: skip · performance: not rated (benchmarks are off)\n")
            return 0
        if asked.markdown:
            asked.markdown.write_text(render_markdown(summary))
        if asked.json:
            asked.json.write_text(summary.model_dump_json(indent=2) + "\n")
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename} cannot be written: {error.strerror}\n")
        return 2
    piped = None if sys.stdout.isatty() else PIPED_COLUMNS
    show(summary, Console(highlight=False, width=piped))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The end of the page: every raw output with its digest and the command that made it."""

from collections.abc import Sequence

from components.report.html.parts import anchor_of, section
from components.report.html.sources import OTHERS, Sources
from components.report.html.tags import Html, markup, tag
from components.report.lines import test_name
from components.report.sources import Material, RawFile
from stacks.words import plural

MOST_LISTED = 20_000
"""Outputs listed one by one. The digest of the bundle covers the others too."""
MOST_COMMANDS = 400
"""Outputs up to which each one's command is written out; with more of them, the first of each group."""


def raw_section(material: Material, sources: Sources) -> Html:
    """Which file has the outputs, and the digest of each."""
    summary = material.summary
    digest = tag("code", summary.raw_sha256 or "none")
    if not material.raw:
        return section(
            "Raw outputs",
            "raw",
            tag(
                "p", f"The raw outputs of run {summary.run_id} are not on this machine. SHA-256 of their file: ", digest
            ),
        )
    told = tag(
        "p",
        f"{plural(len(material.raw), 'output')} in {material.bundle}, SHA-256 ",
        tag("code", summary.raw_sha256, id="bundle"),
        ". Numbers on this page that are underlined with dots lead to the outputs they were read from.",
    )
    groups = [(group, listed) for group, listed in sources.groups.items() if listed]
    brief = len(material.raw) > MOST_COMMANDS
    room = MOST_LISTED
    parts = []
    for group, listed in groups:
        parts.append(_group(group, listed[:room], len(listed), sources, brief=brief))
        room -= min(room, len(listed))
    others = sources.others()
    if others:
        parts.append(_others(others[:room], len(others), brief=brief))
    return section("Raw outputs", "raw", told, *parts)


def _group(group: tuple[str, ...], listed: Sequence[str], count: int, sources: Sources, *, brief: bool) -> Html:
    test, shape, rail = group
    rows, files = [], sources.files
    for index, name in enumerate(listed):
        rows.append(_row(files.get(name), name, with_command=not brief or index == 0))
    title = tag("summary", f"{test_name(test, shape)} on {rail}: {plural(count, 'output')} of clients")
    return tag("details", title, _table(rows), _more(count - len(listed)), id=anchor_of(*group))


def _others(listed: list[RawFile], count: int, *, brief: bool) -> Html:
    rows = [_row(file, file.name, with_command=not brief) for file in listed]
    what = "other output" if count == 1 else "other outputs"
    title = tag("summary", f"{count} {what}: ends of servers, logs of jobs, looks at hosts")
    return tag("details", title, _table(rows), _more(count - len(listed)), id=anchor_of(OTHERS))


def _more(count: int) -> Html | None:
    if not count:
        return None
    return tag("p", f"{plural(count, 'more is', 'more are')} covered by the digest of the file.")


def _row(file: RawFile | None, name: str, *, with_command: bool) -> str:
    """Short, since there may be thousands: HTML lets the ends of cells and rows go without saying."""
    if file is None:
        return f"<tr><td>{markup(name)}<td class=n><td>not in the file"
    command = f"<br><code class=cmd>{markup(file.command or 'command not recorded')}</code>" if with_command else ""
    return f"<tr><td>{markup(name)}{command}<td class=n>{file.size_bytes}<td><code>{file.sha256}</code>"


def _table(rows: list[str]) -> Html:
    head = "<thead><tr><th>output and its command<th>bytes<th>SHA-256<tbody>"
    return tag("div", Html(f"<table class=raw>{head}{''.join(rows)}</table>"), class_="scroll", tabindex="0")

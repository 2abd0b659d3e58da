"""The report as Markdown. Pure: the same verdict gives the same bytes."""

from collections.abc import Iterable, Iterator, Sequence

from components.report.lines import COLUMNS, cells, headline
from components.validation.summary import Summary


def render_markdown(summary: Summary) -> str:
    """The whole file."""
    return "\n".join(_lines(summary)) + "\n"


def _lines(summary: Summary) -> Iterator[str]:
    yield f"# Validation of {summary.lab}"
    yield ""
    yield f"**{headline(summary)}**"
    yield ""
    if summary.simulated:
        yield (
            "All of this was measured on the simulator: behaviour is real, speed is not, and no number here says "
            "anything about hardware."
        )
        yield ""
    if any(test.function == "replayed" for test in summary.tests):
        yield "*replayed*: the log was recorded on other machines and is only shown; it enters no verdict."
        yield ""
    yield from _table(COLUMNS, (cells(test, simulated=summary.simulated) for test in summary.tests))
    for title, texts in (("Reasons", summary.reasons), ("Hints", summary.hints)):
        if texts:
            yield ""
            yield f"## {title}"
            yield ""
            yield from (f"- {_escaped(text)}" for text in texts)
    yield ""
    yield "## Run"
    yield ""
    yield from _table(
        ("what", "value"),
        (
            ("run", summary.run_id),
            ("started", summary.started_at),
            ("took", f"{summary.duration_s:.0f} s"),
            ("mode", summary.mode),
            ("fingerprint", summary.fingerprint[:16]),
            ("raw outputs, SHA-256", summary.raw_sha256),
        ),
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows)


def _escaped(text: str) -> str:
    """Texts of hosts and tools may hold anything; in a table nothing of it may act."""
    for mark in ("\\", "|", "<", "`", "*", "[", "]"):
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")

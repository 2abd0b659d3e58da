"""Judgements as text for a terminal, as Markdown for an issue thread, and as one JSON document."""

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill

from pydantic import JsonValue

from components.finding import bullets, escaped, plain, table
from components.judge.assessment import Assessment
from stacks.words import bytes_text

SCHEMA = 1
WIDTH = 100
Placed = Sequence[tuple[str, Assessment]]
"""Each assessment with the name of its log."""


def headline(assessment: Assessment) -> str:
    """Test, value and ceiling on one line."""
    parts = [assessment.program or "a log"]
    if assessment.value is not None:
        parts.append(f"{assessment.value:.4g} {assessment.unit}")
        if assessment.size_bytes:
            parts.append(f"at {bytes_text(assessment.size_bytes)}")
    if assessment.ceiling is not None and assessment.ratio is not None:
        parts.append(f"of {assessment.ceiling:.4g} {assessment.unit} ({assessment.ratio:.1%})")
    return " ".join(parts)


def points(assessment: Assessment) -> list[tuple[str, str]]:
    """Everything else, with its label."""
    rows = [("because", assessment.why), ("ceiling", assessment.basis)]
    for finding in assessment.findings:
        rows.append((finding.code, finding.evidence))
        rows.append(("  try", finding.hint))
    rows.append(("assumes", "; ".join(assessment.assumptions)))
    rows.append(("missing", "; ".join(assessment.gaps)))
    rows.append(("to decide", assessment.ask))
    rows.append(("next", assessment.next_command))
    return [(label, text) for label, text in rows if text]


def as_text(placed: Placed) -> str:
    """One screen per log; several logs begin with a table."""
    lines = []
    if len(placed) > 1:
        width = max(len(place) for place, _ in placed)
        for place, assessment in placed:
            lines.append(f"{place:{width}}  {assessment.verdict:12}  {headline(assessment)}")
        lines.append("")
    for place, assessment in placed:
        lines.append(f"{place}: {assessment.verdict}: {headline(assessment)}")
        for label, text in points(assessment):
            first = f"  {label}: "
            lines.append(fill(plain(text), WIDTH, initial_indent=first, subsequent_indent=" " * 6))
    return "\n".join(lines) + "\n"


def as_markdown(placed: Placed) -> str:
    """A table, and the reasons below it."""
    rows = []
    for place, assessment in placed:
        rows.append((escaped(place), f"**{assessment.verdict}**", escaped(headline(assessment))))
    lines = table(("log", "verdict", "result"), rows)
    for place, assessment in placed:
        texts = []
        for label, text in points(assessment):
            texts.append(f"{label.strip()}: {text}")
        lines += bullets(f"**{escaped(place)}: {assessment.verdict}**", texts)
    return "\n".join(lines) + "\n"


def document_of(placed: Placed) -> dict[str, JsonValue]:
    """The judgements, with the rows of their tables."""
    logs: list[JsonValue] = []
    for place, assessment in placed:
        content = asdict(assessment)
        content["findings"] = [finding.model_dump() for finding in assessment.findings]
        logs.append({"log": place, "ratio": assessment.ratio, **content})
    return {"schema": SCHEMA, "logs": logs}

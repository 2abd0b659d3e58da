"""Judgements as one page for a browser, with their curves against the ceilings."""

from functools import cache
from pathlib import Path

from jinja2 import Template
from markupsafe import Markup

from components.judge.assessment import Assessment
from components.judge.show import Placed, headline, points
from components.report.charts.sizes import Line, lines_chart
from components.report.frame import environment
from stacks.words import plural

CLASSES = {"good": "pass", "slow": "warn", "broken": "fail", "cannot judge": "still"}
"""Of the page's style."""
UNITS = {"GB/s": "busbw, GB/s", "Gbit/s": "Gbit/s", "us": "one way, µs"}
IN_TABLE = ("because", "ceiling", "assumes", "missing", "to decide", "next")


def as_html(placed: Placed) -> str:
    """One page; logs of one unit share a drawing."""
    verdicts = sorted({assessment.verdict for _, assessment in placed})
    logs = []
    for place, assessment in placed:
        rows = [row for row in points(assessment) if row[0] in IN_TABLE]
        logs.append((place, assessment, headline(assessment), rows))
    text = _template().render(
        title=f"Judged: {', '.join(verdicts)}",
        headline=f"{plural(len(placed), 'result')}: {', '.join(verdicts)}",
        kind="",
        logs=logs,
        charts=_charts(placed),
        classes=CLASSES,
    )
    return str(text) + "\n"


@cache
def _template() -> Template:
    return environment(Path(__file__).parent / "templates").get_template("judge.html")


def _charts(placed: Placed) -> list[Markup]:
    charts: list[Markup] = []
    for unit, axis in UNITS.items():
        lines: dict[str, Line] = {}
        ceilings: dict[str, Line] = {}
        for place, assessment in placed:
            measured = _line(assessment, [row.value for row in assessment.rows])
            if assessment.unit != unit or len(measured) < 2:
                continue
            name = Path(place).name
            lines[name] = measured
            ceiling = _line(assessment, assessment.ceilings)
            if ceiling and ceiling not in ceilings.values():
                ceilings[f"ceiling{' ' * len(ceilings)}"] = ceiling
        if lines:
            label = f"{axis} against message size, with what physics allows"
            drawn = lines_chart(lines, ceilings, axis, f"judge{len(charts)}", label)
            charts.append(Markup(drawn))  # noqa: S704  # the drawing escapes what logs say
    return charts


def _line(assessment: Assessment, values: list[float]) -> Line:
    line = []
    for row, value in zip(assessment.rows, values, strict=False):
        if row.size_bytes and value > 0:
            line.append((row.size_bytes, value))
    return line

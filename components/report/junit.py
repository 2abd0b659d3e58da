"""The verdict as JUnit XML, which every CI system shows. Skipped is skipped, an error is an error.
Pure.
"""

from datetime import UTC, datetime

from components.report.cases import began_ms, cases
from components.report.frame import environment
from components.validation.summary import Summary


def render_junit(summary: Summary) -> str:
    """The file's text."""
    began = datetime.fromtimestamp(began_ms(summary) / 1000, UTC)
    template = environment().get_template("junit.xml")
    text = template.render(
        summary=summary, cases=cases(summary), began=began.strftime("%Y-%m-%dT%H:%M:%S")
    )
    return f"{text}\n"

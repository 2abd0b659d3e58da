"""The tests of a verdict as CSV, as `components/report/csv.py`."""

from components.validation.store import Material


def render_csv(material: Material) -> str:
    rows = (f"{test.test},{test.function},{test.performance}" for test in material.summary.tests)
    return "\n".join(["test,function,performance", *rows]) + "\n"

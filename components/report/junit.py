"""The verdict as JUnit XML, which every CI system shows.

Skipped is skipped, an error is an error. Pure.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from components.report.cases import Case, began_ms, cases
from components.validation.summary import Summary

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
ELEMENT_OF = {"failed": "failure", "error": "error"}


def render_junit(summary: Summary) -> str:
    """The file's text."""
    every_case = cases(summary)
    time = f"{summary.duration_s:.3f}"
    began = datetime.fromtimestamp(began_ms(summary) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    root = Element("testsuites", {"name": _legal(summary.lab), **_counts(every_case), "time": time})
    for axis in ("function", "performance"):
        of_axis = [case for case in every_case if case.axis == axis]
        suite = SubElement(
            root, "testsuite", {"name": axis, **_counts(of_axis), "time": time, "timestamp": began}
        )
        properties = SubElement(suite, "properties")
        simulated = str(summary.simulated).lower()
        properties_of_run = {
            "run_id": summary.run_id,
            "fingerprint": summary.fingerprint,
            "simulated": simulated,
        }
        for name, value in properties_of_run.items():
            SubElement(properties, "property", {"name": name, "value": _legal(value)})
        for case in of_axis:
            _add_case(suite, f"{summary.lab}.{axis}", case)
    indent(root, space="")
    document: bytes = tostring(root, "UTF-8")
    return document.decode() + "\n"


def _add_case(suite: Element, name: str, case: Case) -> None:
    element = SubElement(
        suite, "testcase", {"classname": _legal(name), "name": _legal(case.name), "time": "0"}
    )
    message = _legal(case.message or case.state)
    if case.status == "skipped":
        SubElement(element, "skipped", {"message": message})
    elif case.status in ELEMENT_OF:
        SubElement(element, ELEMENT_OF[case.status], {"type": case.state, "message": message})
    if case.value or case.status == "warned":
        output = (
            f"{case.state}: {case.message or case.value}" if case.status == "warned" else case.value
        )
        SubElement(element, "system-out").text = _legal(output)


def _counts(some_cases: Sequence[Case]) -> dict[str, str]:
    numbers = {"tests": len(some_cases)}
    for status, name in (("failed", "failures"), ("error", "errors"), ("skipped", "skipped")):
        numbers[name] = sum(case.status == status for case in some_cases)
    return {name: str(number) for name, number in numbers.items()}


def _legal(text: str) -> str:
    """XML has no way to write most control characters."""
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)

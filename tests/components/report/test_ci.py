"""What CI systems read: nothing is green that did not pass."""

import json
import xml.etree.ElementTree as ET

import jsonschema
import pytest

from components.report.ctrf import render_ctrf
from components.report.junit import render_junit
from components.validation.summary import Summary
from tests.components.report.synthetic import Model

STATUSES = ["passed", "failed", "skipped", "pending", "other"]
COUNTS = ("tests", *STATUSES, "start", "stop")
# the parts of the published schema (ctrf.io, draft 07) that this file uses, written down from its documentation
CTRF = {
    "type": "object",
    "required": ["results", "reportFormat", "specVersion"],
    "additionalProperties": False,
    "properties": {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "generatedBy": {"type": "string"},
        "results": {
            "type": "object",
            "required": ["tool", "summary", "tests"],
            "additionalProperties": False,
            "properties": {
                "tool": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
                "summary": {
                    "type": "object",
                    "required": list(COUNTS),
                    "additionalProperties": False,
                    "properties": {name: {"type": "integer", "minimum": 0} for name in COUNTS},
                },
                "environment": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "appName": {"type": "string"},
                        "testEnvironment": {"type": "string"},
                        "extra": {"type": "object"},
                    },
                },
                "tests": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["name", "status", "duration"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "status": {"enum": STATUSES},
                            "duration": {"type": "integer"},
                            "suite": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                            "rawStatus": {"type": "string"},
                            "message": {"type": "string"},
                            "extra": {"type": "object"},
                        },
                    },
                },
            },
        },
    },
}


def summary(**changes: object) -> Summary:
    model = Model(4, 2)
    return model.summary(model.record()).model_copy(update=changes)


def with_states(function: str, performance: str) -> Summary:
    first = summary().tests[0].model_copy(update={"function": function, "performance": performance})
    return summary(tests=(first,), function="pass", performance="pass", reasons=())


def ctrf_status(found: Summary, name: str) -> str:
    tests = json.loads(render_ctrf(found))["results"]["tests"]
    return next(str(test["status"]) for test in tests if test["name"].startswith(name))


def junit_status(found: Summary, axis: str) -> str:
    suites = ET.fromstring(render_junit(found))  # noqa: S314  # what we have just made
    case = next(suite for suite in suites if suite.get("name") == axis).find("testcase")
    assert case is not None
    return next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")


@pytest.mark.parametrize("simulated", [False, True])
def test_the_report_is_valid_and_its_counts_are_right(simulated: bool) -> None:
    model = Model(4, 2, simulated=simulated)
    report = json.loads(render_ctrf(model.summary(model.record())))
    jsonschema.validate(report, CTRF, jsonschema.Draft7Validator)

    told, tests = report["results"]["summary"], report["results"]["tests"]
    assert told["tests"] == len(tests) == sum(told[status] for status in STATUSES)
    assert all(told[status] == sum(test["status"] == status for test in tests) for status in STATUSES)
    assert told["stop"] - told["start"] == 412_500
    if simulated:
        rated = [test for test in tests if test["suite"] == ["performance"]]
        assert {test["status"] for test in rated} == {"skipped"}, "nothing simulated passes for fast"


@pytest.mark.parametrize(
    ("function", "ctrf", "junit"),
    [
        ("pass", "passed", "passed"),
        ("fail", "failed", "failure"),
        ("skip", "skipped", "skipped"),
        ("error", "other", "error"),
        ("replayed", "skipped", "skipped"),
        ("not run", "skipped", "skipped"),
    ],
)
def test_the_states_of_function_are_never_mixed_up(function: str, ctrf: str, junit: str) -> None:
    found = with_states(function, "pass")

    assert ctrf_status(found, "function") == ctrf
    assert junit_status(found, "function") == junit


@pytest.mark.parametrize(
    ("performance", "ctrf", "junit"),
    [
        ("pass", "passed", "passed"),
        ("warn", "other", "passed"),  # JUnit has no warning; it stands in the output of a case that passed
        ("fail", "failed", "failure"),
        ("unstable", "other", "error"),
        ("not rated", "skipped", "skipped"),
    ],
)
def test_the_states_of_performance_are_never_mixed_up(performance: str, ctrf: str, junit: str) -> None:
    found = with_states("pass", performance)

    assert ctrf_status(found, "performance") == ctrf
    assert junit_status(found, "performance") == junit
    if performance == "warn":
        assert "<system-out>warn: " in render_junit(found)


def test_what_is_stale_passes_nothing() -> None:
    found = with_states("pass", "pass").model_copy(update={"stale": ("gpu01: driver",)})

    assert json.loads(render_ctrf(found))["results"]["summary"]["passed"] == 0
    suites = ET.fromstring(render_junit(found))  # noqa: S314  # what we have just made
    assert suites.get("skipped") == suites.get("tests")


@pytest.mark.parametrize("function", ["fail", "partial", "skip", "error"])
def test_a_lab_that_does_not_work_is_not_green_even_when_its_tests_are(function: str) -> None:
    found = with_states("pass", "pass").model_copy(update={"function": function})
    status = ctrf_status(found, "function: the lab")

    assert status != "passed"
    assert (status == "failed") == (function in ("fail", "partial"))


def test_a_test_that_cannot_run_is_skipped_with_its_reason() -> None:
    found = summary()
    tests = json.loads(render_ctrf(found))["results"]["tests"]
    suites = ET.fromstring(render_junit(found))  # noqa: S314  # what we have just made
    cases = [case for case in suites.iter("testcase") if case.get("name") == "gpu_memory all rails"]

    assert [(test["status"], test["message"]) for test in tests if "gpu_memory" in test["name"]] == [
        ("skipped", "gpu01: perftest has no CUDA"),
        ("skipped", "gpu01: perftest has no CUDA"),
    ], "on both axes"
    assert [case.find("skipped").get("message") for case in cases] == ["gpu01: perftest has no CUDA"] * 2  # type: ignore[union-attr]


def test_junit_counts_what_it_holds() -> None:
    suites = ET.fromstring(render_junit(summary()))  # noqa: S314  # what we have just made

    for suite in suites:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases)
        for attribute, name in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute, "")) == sum(case.find(name) is not None for case in cases)
        assert all(case.get("classname") and case.get("name") and case.get("time") for case in cases)


def test_junit_survives_what_hosts_say() -> None:
    bad = "\x1b[31m\x00 <&> \"'\n]]>"
    first = summary().tests[0].model_copy(update={"performance": "not rated", "because": bad})
    text = render_junit(summary(tests=(first,), reasons=(bad,)))

    ET.fromstring(text)  # noqa: S314  # what we have just made
    assert "\x1b" not in text

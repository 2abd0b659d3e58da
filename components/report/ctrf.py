"""The verdict in the Common Test Report Format (ctrf.io), as NVIDIA's AICR and CI plug-ins read it.
Pure.
"""

import json

from components.report.cases import Case, Status, began_ms, cases
from components.validation.summary import Summary

SPEC_VERSION = "0.0.0"
"""The format's own version; its schema takes any, and 0.0.0 is what its examples carry."""
STATUS: dict[Status, str] = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "error": "other",  # the format has no errors, and an unknown result is no pass and no failure
    "warned": "other",
}


def render_ctrf(summary: Summary) -> str:
    """The file's text. A single test's duration is 0: tests share rounds, so only the whole has
    one.
    """
    every_case = cases(summary)
    began = began_ms(summary)
    counts = dict.fromkeys(("passed", "failed", "skipped", "pending", "other"), 0)
    for case in every_case:
        counts[STATUS[case.status]] += 1
    report = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        "generatedBy": "rocelab",
        "results": {
            "tool": {"name": "rocelab"},
            "summary": {
                "tests": len(every_case),
                **counts,
                "start": began,
                "stop": began + round(summary.duration_s * 1000),
            },
            "tests": [_test(case) for case in every_case],
            "environment": {
                "appName": summary.lab,
                "testEnvironment": "simulated" if summary.simulated else "hardware",
                "extra": {
                    "run_id": summary.run_id,
                    "fingerprint": summary.fingerprint,
                    "mode": summary.mode,
                },
            },
        },
    }
    return json.dumps(report, indent=1) + "\n"


def _test(case: Case) -> dict[str, object]:
    made: dict[str, object] = {
        "name": f"{case.axis}: {case.name}",
        "status": STATUS[case.status],
        "duration": 0,
        "suite": [case.axis],
        "rawStatus": case.state,
    }
    if case.message:
        made["message"] = case.message
    if case.value:
        made["extra"] = {"measured": case.value}
    return made

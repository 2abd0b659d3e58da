"""The verdict as the stack output: complete where it is small, the worst of it where it is not.
Pure.
"""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from components.finding import Finding
from components.validation.summary import ORDER, JudgedTest, Summary, few, shortened
from stacks.words import plural

LARGEST_BYTES = 8_000
"""Half of what all outputs of a stack may take together: each read of another stack fetches all of
them."""
MOST_QUARANTINED = 8
LONGEST = 160

FUNCTIONS = ("fail", "error", "skip", "replayed", "not run", "pass")


def output_of(summary: Summary) -> dict[str, JsonValue]:
    """The summary as plain values of at most `LARGEST_BYTES`.

    Fields of tests and findings that say nothing are left out.
    """
    shown: dict[str, JsonValue] = {}
    for smaller in _smaller(summary):
        shown = smaller.model_dump(mode="json")
        shown["tests"] = [
            test.model_dump(mode="json", exclude_defaults=True) for test in smaller.tests
        ]
        shown["findings"] = [
            finding.model_dump(mode="json", exclude_defaults=True) for finding in smaller.findings
        ]
        if len(json.dumps(shown).encode()) <= LARGEST_BYTES:
            break
    return shown


def _smaller(summary: Summary) -> Iterator[Summary]:
    """The summary, then always less of it: what is in order goes first, and is counted."""
    few_hosts = dict(list(summary.quarantined.items())[:MOST_QUARANTINED])
    if more := len(summary.quarantined) - len(few_hosts):
        few_hosts["..."] = (
            f"and {plural(more, 'more host')}: `pulumi stack output hosts` and the report have all"
        )
    summary = summary.replace(
        quarantined={k: shortened(v, 2 * LONGEST) for k, v in few_hosts.items()}
    )
    yield summary
    compared = summary.regression
    if compared:
        compared = compared.replace(
            reasons=tuple(shortened(reason, LONGEST) for reason in compared.reasons)
        )
    summary = summary.replace(
        regression=compared,
        reasons=few([shortened(text, LONGEST) for text in summary.reasons], most=6),
        hints=few([shortened(text, LONGEST) for text in summary.hints], most=3),
        findings=tuple(_short(finding) for finding in summary.findings[:5]),
        quarantined={name: shortened(text, LONGEST) for name, text in few_hosts.items()},
    )
    yield summary
    tests = sorted(summary.tests, key=_worst_first)
    for count in (*range(len(tests) - 1, 8, -4), 8):
        left = len(tests) - count
        if left <= 0:
            continue
        chosen = set(map(id, tests[:count]))
        counted = (
            f"{plural(left, 'more test is', 'more tests are')} in the report, none worse "
            "than those shown"
        )
        yield summary.replace(
            tests=tuple(test for test in summary.tests if id(test) in chosen),
            reasons=(*summary.reasons, counted),
        )


def _short(finding: Finding) -> Finding:
    texts = ("where", "evidence", "hint")
    return finding.model_copy(
        update={name: shortened(getattr(finding, name), LONGEST) for name in texts}
    )


def _worst_first(test: JudgedTest) -> tuple[int, int, int]:
    states = (*ORDER, "not rated")
    return (
        FUNCTIONS.index(test.function),
        states.index(test.performance),
        int(test.shape not in ("one_way", "")),
    )

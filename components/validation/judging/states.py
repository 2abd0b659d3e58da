"""Combines the states of tests into the state of the whole. A missing result never counts as a pass."""

from collections.abc import Iterable, Sequence
from typing import Literal

from components.validation.records import TransferResult
from components.validation.summary import Function, JudgedTest, Performance
from stacks.benchmarks import Threshold

SIMULATED = "simulated"
SHOWN_ONLY = "shown only"
"""For tests without a required value: curves, incast, applications."""
FAR = "far: not judged"
"""For GPU memory where each NIC and its GPU are on different NUMA nodes."""
NO_DEMAND = (SHOWN_ONLY, FAR)
"""Reasons for which a test that is not rated leaves the whole rated."""
NOTHING = "nothing measured"
IGNORED = ("replayed", "not run")
"""Functions of tests that do not affect the whole."""

Overall = Literal["pass", "fail", "skip", "error"]

UNSTABLE_SHARE = 0.01
"""Tolerated share of transfers with inconsistent tries; a large lab always has some."""

MOST_TEXTS = 8
LONGEST_TEXT = 300


def function_of_counts(planned: int, *, measured: int, failed: int, skipped: int, errors: int) -> Overall:
    """State of a test from the outcomes of its transfers; a missing result fails it."""
    if failed or measured + failed + skipped + errors != planned:
        return "fail"
    if errors:
        return "error"
    return "skip" if skipped or not measured else "pass"


def not_run(test: str, because: str) -> JudgedTest:
    """A test that this lab has nothing for; it enters no verdict, and is shown with the reason."""
    return JudgedTest(
        test=test,
        shape="",
        function="not run",
        performance="not rated",
        because=because,
        unit="",
        measured=0,
        failed=0,
        skipped=0,
    )


def function_of_tests(functions: Sequence[Function]) -> Overall:
    """State of the whole."""
    real = [function for function in functions if function not in IGNORED]
    for state in ("fail", "error", "skip"):
        if state in real:
            return state
    return "pass" if real else "skip"


def performance_of_tests(tests: Sequence[JudgedTest], *, simulated: bool) -> tuple[Performance, str]:
    """The worst state of all tests, and why it is not rated; the whole passes only if every test is rated."""
    if simulated:
        return "not rated", SIMULATED
    rated = [test for test in tests if test.function not in IGNORED and test.because not in NO_DEMAND]
    found = {test.performance: test for test in rated}
    for state in ("fail", "unstable"):
        if state in found:
            return state, ""
    if not rated or "not rated" in found:
        return "not rated", found["not rated"].because if rated else NOTHING
    return ("warn" if "warn" in found else "pass"), ""


ORDER: tuple[Performance, ...] = ("fail", "unstable", "warn", "pass")


def worse_of(*states: Performance) -> Performance:
    """The worst of several states; "not rated" only if no state is rated."""
    return next((state for state in ORDER if state in states), "not rated")


def rate(ratio: float, threshold: Threshold) -> Performance:
    """State of a ratio to a ceiling by its threshold."""
    if ratio < threshold.fail_below:
        return "fail"
    return "warn" if ratio < threshold.warn_below else "pass"


def too_many(torn: int, count: int) -> bool:
    """Whether too many transfers have inconsistent repeats for the test to have a value; a single one is tolerated."""
    return torn > max(1, UNSTABLE_SHARE * count) or torn == count


def where_of(transfers: Sequence[TransferResult]) -> str:
    """The transfers of a finding in words: the first by name, the others counted."""
    first = transfers[0]
    more = f" and {len(transfers) - 1} more" if transfers[1:] else ""
    return f"{first.flow}{more}"


def few(texts: Iterable[str], most: int = MOST_TEXTS) -> tuple[str, ...]:
    """The first different texts, shortened, and how many more there are; the record has all of them."""
    unique = list(dict.fromkeys(texts))
    shown = tuple(shortened(text) for text in unique[:most])
    return (*shown, f"and {len(unique) - most} more") if len(unique) > most else shown


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text of at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."

"""The stack output `validation`, a typed and versioned verdict, and how states of tests combine."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from components.finding import Finding
from components.validation.records import (
    Frozen,
    Outcome,
    RunHead,
    TransferResult,
    Unit,
    outcome_counts,
)
from stacks.base import LabError
from stacks.benchmarks import Threshold

Function = Literal["pass", "fail", "skip", "error", "replayed", "not run"]
"""skip: not run, on purpose. error: could not be run or read. replayed: shown only. not run: this
lab has nothing that it could run on. None of the four is a pass."""
Performance = Literal["pass", "warn", "fail", "unstable", "not rated"]
"""unstable: repeats differ too much for a number."""


class Pair(Frozen):
    """The slowest direction of a test."""

    client: str
    server: str
    value: float


class JudgedTest(Frozen):
    test: str
    shape: str = "one_way"
    """How it was run; empty for jobs."""
    rail: str | None = None
    """None: the test runs over all rails at once."""
    function: Function
    """replayed and not run count for nothing."""
    performance: Performance
    because: str = ""
    median: float | None = None
    unit: str
    ceiling: float | None = None
    basis: str = ""
    """The origin of the ceiling, as text."""
    ratio: float | None = None
    """The slowest transfer over the ceiling, since a rail is as good as its slowest direction."""
    worst: Pair | None = None
    measured: int
    failed: int
    skipped: int
    errors: int = 0
    failed_once: int = 0
    """Measured transfers with one failed try."""
    change: float | None = None
    """Against the baseline, as a share: -0.05 is five per cent less."""

    def rated(
        self, performance: Performance, ceiling: float, basis: str, ratio: float, **also: object
    ) -> Self:
        """The test with its state."""
        number = {"ceiling": round(ceiling, 3), "basis": basis, "ratio": round(ratio, 4)}
        state = {"performance": performance, "because": ""}
        return self.replace(**state, **number, **also)


Comparison = Literal["same", "better", "worse", "unconfirmed", "not comparable"]


class Regression(Frozen):
    """This run against the baseline."""

    baseline_run: str
    verdict: Comparison
    """unconfirmed: worse, and the confirming run was not. not comparable: the configuration
    differs."""
    reasons: tuple[str, ...] = ()


class Summary(RunHead):
    schema_version: Literal[2] = 2
    lab: str
    mode: str
    function: Literal["pass", "partial", "fail", "skip", "error"]
    """partial: works on the hosts that took part, and some did not."""
    quarantined: dict[str, str] = Field(default_factory=dict)
    """Hosts that are not ready and were not measured, with the reason."""
    performance: Performance
    performance_because: str = ""
    stale: tuple[str, ...] = ()
    """What changed since the measurement; a stale verdict is never green."""
    reasons: tuple[str, ...]
    hints: tuple[str, ...]
    findings: tuple[Finding, ...] = ()
    tests: tuple[JudgedTest, ...]
    regression: Regression | None = None
    document_sha256: str = ""
    """Digest of the stored run document."""
    store: str = ""
    """Folder of the runs in the lab file; empty for the usual one."""
    bounds: str = ""
    """Digest of the benchmark settings that it was judged by."""

    @property
    def ceilings(self) -> dict[tuple[str, str, str | None], float]:
        """Those of the bandwidths, by test, shape and rail."""
        ceilings = {}
        for test in self.tests:
            if test.ceiling and test.unit == "Gbit/s":
                ceilings[test.test, test.shape, test.rail] = test.ceiling
        return ceilings


def summary_in(outputs: Mapping[str, object]) -> Summary | None:
    """The verdict; None when the lab asks for no validation.

    Raises:
        LabError: when there is none yet, or another version of this program wrote it.
    """
    validation = outputs.get("validation")
    if not isinstance(validation, dict):
        raise LabError("the stack has no output `validation` yet: run pulumi up")
    if validation.get("mode") == "off":
        return None
    try:
        return Summary.model_validate_json(json.dumps(validation), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise LabError(
            f"another version of rocelab wrote the output `validation` ({where}: "
            f"{fault['msg']}): run pulumi up"
        ) from None


def closed(mode: str, function: str, performance: str) -> bool:
    """Whether a verdict fails the deployment. A skipped test is no pass, but no fault of the lab
    either.

    A lab that works only in part, or whose state is unknown, does not do what its file demands, so
    `enforce` fails. Warnings and unstable numbers are in the verdict and do not fail it.
    """
    return mode == "enforce" and (
        "fail" in (function, performance) or function in ("partial", "error")
    )


SIMULATED = "simulated"
SHOWN_ONLY = "shown only"
"""For tests without a required value: curves, incast, applications."""
FAR = "far: not judged"
NO_DEMAND = (SHOWN_ONLY, FAR)
"""Reasons for which a test that is not rated leaves the whole rated."""
NOTHING = "nothing measured"
REPLAYED = {"function": "replayed", "because": "replayed"}
"""Fields of a test whose log was recorded elsewhere."""
IGNORED = ("replayed", "not run")
"""Functions of tests that do not affect the whole."""

Overall = Literal["pass", "fail", "skip", "error"]

UNSTABLE_SHARE = 0.01
"""Tolerated share of transfers with inconsistent tries; a large lab always has some."""

MOST_TEXTS = 8
LONGEST_TEXT = 300


def function_of_counts(
    planned: int, *, measured: int, failed: int, skipped: int, errors: int
) -> Overall:
    """State of a test from the outcomes of its transfers; a missing result fails it."""
    if failed or measured + failed + skipped + errors != planned:
        return "fail"
    if errors:
        return "error"
    return "skip" if skipped or not measured else "pass"


def unrated(test: str, function: Function, because: str, **also: Any) -> JudgedTest:
    """A test without a state of performance, over all rails unless `also` names one."""
    fields = {"shape": "", "unit": "", "measured": 0, "failed": 0, "skipped": 0, **also}
    known: dict[str, Any] = {"test": test, "function": function, "because": because}
    return JudgedTest(performance="not rated", **known, **fields)


def counted(
    test: str, outcomes: Iterable[Outcome], planned: int, because: str, unit: Unit
) -> JudgedTest:
    """An unrated test by the outcomes of all that was planned."""
    counts = outcome_counts(outcomes)
    function = function_of_counts(planned, **counts)
    return unrated(test, function, because, unit=unit, **counts)


def not_run(test: str, because: str) -> JudgedTest:
    """A test that this lab has nothing for; it enters no verdict, and is shown with the reason."""
    return unrated(test, "not run", because)


def function_of_tests(functions: Sequence[Function]) -> Overall:
    """State of the whole."""
    real = []
    for function in functions:
        if function not in IGNORED:
            real.append(function)
    for state in ("fail", "error", "skip"):
        if state in real:
            return state
    return "pass" if real else "skip"


def performance_of_tests(
    tests: Sequence[JudgedTest], *, simulated: bool
) -> tuple[Performance, str]:
    """The worst state of all tests, and why it is not rated; the whole passes only if every test is
    rated.
    """
    if simulated:
        return "not rated", SIMULATED
    rated = [
        test for test in tests if test.function not in IGNORED and test.because not in NO_DEMAND
    ]
    by_state = {test.performance: test for test in rated}
    for state in ("fail", "unstable"):
        if state in by_state:
            return state, ""
    if not rated or "not rated" in by_state:
        return "not rated", by_state["not rated"].because if rated else NOTHING
    return ("warn" if "warn" in by_state else "pass"), ""


ORDER: tuple[Performance, ...] = ("fail", "unstable", "warn", "pass")


def worse_of(*states: Performance) -> Performance:
    """The worst of several states; "not rated" only if no state is rated."""
    for state in ORDER:
        if state in states:
            return state
    return "not rated"


def rate(ratio: float, threshold: Threshold) -> Performance:
    """State of a ratio to a ceiling by its threshold."""
    if ratio < threshold.fail_below:
        return "fail"
    return "warn" if ratio < threshold.warn_below else "pass"


def too_many(torn: int, count: int) -> bool:
    """Whether too many transfers have inconsistent repeats for the test to have a value; a single
    one is tolerated.
    """
    return torn > max(1, UNSTABLE_SHARE * count) or torn == count


def where_of(transfers: Sequence[TransferResult]) -> str:
    """The transfers of a finding in words: the first by name, the others counted."""
    first = transfers[0]
    more = f" and {len(transfers) - 1} more" if transfers[1:] else ""
    return f"{first.flow}{more}"


def few(texts: Iterable[str], most: int = MOST_TEXTS) -> tuple[str, ...]:
    """The first different texts, shortened, and how many more there are; the record has all of
    them.
    """
    unique = list(dict.fromkeys(texts))
    shown = tuple(shortened(text) for text in unique[:most])
    if len(unique) > most:
        return (*shown, f"and {len(unique) - most} more")
    return shown


def shortened(text: str, longest: int = LONGEST_TEXT) -> str:
    """A text of at most `longest` characters."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 3]}..."

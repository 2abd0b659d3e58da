"""The stack output `validation`: the judgement as a typed, versioned document that reports and other stacks read."""

from typing import Literal

from pydantic import Field

from components.finding import Finding
from components.validation.records import Frozen, RunHead

Function = Literal["pass", "fail", "skip", "error", "replayed", "not run"]
"""skip: not run, on purpose. error: could not be run or read. replayed: shown only. not run: this lab has nothing that
it could run on. None of the four is a pass."""
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
    """Why it is not rated."""
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
    """Measured transfers with one failed try; the finding FAILED_ONCE names them."""
    change: float | None = None
    """Against the baseline, as a share: -0.05 is five per cent less. None where nothing can be compared."""


class Regression(Frozen):
    """This run against the baseline."""

    baseline_run: str
    verdict: Literal["same", "better", "worse", "unconfirmed", "not comparable"]
    """unconfirmed: worse, and the confirming run was not. not comparable: the configuration differs."""
    reasons: tuple[str, ...] = ()


class Summary(RunHead):
    schema_version: Literal[2] = 2
    lab: str
    mode: str
    function: Literal["pass", "partial", "fail", "skip", "error"]
    """partial: works on the hosts that took part, and some did not."""
    quarantined: dict[str, str] = Field(default_factory=dict)
    """Hosts that are not ready, each with step, reason and hint; they were not measured."""
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
    """Digest of the run document beside them, of which reports are made."""
    store: str = ""
    """Folder of the runs as the lab file names it; empty for the usual one."""
    bounds: str = ""
    """Digest of the benchmark settings that it was judged by."""


def closed(mode: str, function: str, performance: str) -> bool:
    """Whether a verdict fails the deployment. A skipped test is no pass, but no fault of the lab either.

    A lab that works only in part, or whose state is unknown, does not do what its file demands, so `enforce` fails.
    Warnings and unstable numbers are in the verdict and do not fail it.
    """
    return mode == "enforce" and ("fail" in (function, performance) or function in ("partial", "error"))

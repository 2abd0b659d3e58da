"""The stack output `validation`: the judgement as a typed, versioned document that reports and other stacks read."""

from typing import Literal

from pydantic import Field

from components.validation.records import Frozen

Function = Literal["pass", "fail", "skip", "replayed"]
Performance = Literal["pass", "warn", "fail", "not rated"]


class Pair(Frozen):
    """The slowest direction of a test."""

    client: str
    server: str
    value: float


class JudgedTest(Frozen):
    """One line of the report."""

    test: str
    rail: str | None
    """None: the test runs over all rails at once."""
    function: Function
    """replayed: shown only, it counts for nothing."""
    performance: Performance
    because: str = ""
    """Why it is not rated."""
    median: float | None = None
    unit: str
    ceiling: float | None = None
    basis: str = ""
    """What the ceiling was worked out from."""
    ratio: float | None = None
    """Of the slowest run to the ceiling, since a rail is as good as its slowest direction."""
    worst: Pair | None = None
    measured: int
    failed: int
    skipped: int


class Summary(Frozen):
    """The stack output `validation`."""

    schema_version: Literal[1] = 1
    lab: str
    simulated: bool
    mode: str
    function: Literal["pass", "partial", "fail", "skip"]
    """partial: works on the hosts that took part, and some did not."""
    quarantined: dict[str, str] = Field(default_factory=dict)
    """Hosts that are not ready, each with step, reason and hint; they were not measured."""
    performance: Performance
    performance_because: str = ""
    reasons: tuple[str, ...]
    hints: tuple[str, ...]
    tests: tuple[JudgedTest, ...]
    run_id: str
    started_at: str
    duration_s: float
    fingerprint: str
    raw_sha256: str
    """The raw outputs stand in a file named after the run; this is its digest."""

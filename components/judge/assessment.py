"""What can be concluded from one result, while and after it is judged."""

from dataclasses import dataclass, field
from typing import Literal

from components.finding import Finding, plain
from components.judge.known import KnownHardware
from components.judge.results import Kind, Result, ResultRow
from stacks.frozen import frozen
from stacks.words import bytes_text

Verdict = Literal["good", "slow", "broken", "cannot judge"]

GOOD = 0.90
"""As in a lab's verdict (`Threshold.fail_below`). Health checks of clouds agree on 90 to 95 %
of the line rate.
"""
BROKEN = 0.02
"""Of the ceiling: so little comes from retries or sockets, not from tuning."""
ABOVE = 1.01
"""Clocks and short runs exceed a limit by less."""
FULL_BYTES = 32_768
"""From here a single queue pair fills a line; below, the message rate limits."""
CLIFF = 0.7
SERIOUS = (
    "IMPOSSIBLE",
    "ABOVE_BOUND",
    "CONTRADICTION",
    "RANKS_CONTRADICT",
    "NODES_CONTRADICT",
    "ONE_NODE_TABLE",
    "SEPARATE_RUNS",
)
"""Findings that make a result useless, whatever its verdict."""


@dataclass(kw_only=True, slots=True)
class Assessment:
    """The verdict and its reasons."""

    program: str
    kind: Kind
    verdict: Verdict = "cannot judge"
    value: float | None = None
    unit: str = ""
    size_bytes: int | None = None
    ceiling: float | None = None
    basis: str = ""
    why: str = ""
    assumptions: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    ask: str = ""
    """The one fact that would decide."""
    next_command: str = ""
    rows: list[ResultRow] = field(default_factory=list)
    ceilings: list[float] = field(default_factory=list)
    """At the message size of each row; empty without a ceiling."""

    @property
    def ratio(self) -> float | None:
        if self.ceiling is None or self.value is None:
            return None
        return self.value / self.ceiling

    @property
    def bad(self) -> bool:
        return self.verdict in ("slow", "broken") or self.has(*SERIOUS)

    def has(self, *codes: str) -> bool:
        return any(finding.code in codes for finding in self.findings)

    def find(self, code: str, evidence: str, hint: str = "") -> None:
        if not self.has(code):
            where = self.program or "log"
            self.findings.append(
                Finding(code=code, where=where, evidence=plain(evidence), hint=hint)
            )

    def decide(self, verdict: Verdict, why: str, next_command: str = "") -> None:
        self.verdict, self.why, self.next_command = verdict, why, next_command

    def leave_open(self, why: str, ask: str) -> None:
        """No verdict, and the fact that would give one."""
        self.why, self.ask = why, ask

    def measured(self, row: ResultRow, unit: str) -> None:
        self.value, self.unit, self.size_bytes = row.value, unit, row.size_bytes


@frozen
class Judged:
    """A result, and all that is known about its hardware."""

    result: Result
    options: KnownHardware
    """What the reader said beside the log."""
    facts: KnownHardware
    """The same, completed by the log."""
    assessment: Assessment

    @property
    def last(self) -> ResultRow:
        return self.result.rows[-1]

    def find_cliff(self) -> bool:
        """Whether large messages are slower than small ones, which no bandwidth explains."""
        rows, last = self.result.rows, self.last
        best = max(rows, key=lambda row: row.value)
        if not best.size_bytes or not last.size_bytes:
            return False
        if last.size_bytes <= best.size_bytes or best.size_bytes < FULL_BYTES:
            return False
        if last.value >= CLIFF * best.value:
            return False
        self.assessment.find(
            "CLIFF",
            f"{best.value:.4g} at {bytes_text(best.size_bytes)}, {last.value:.4g} at "
            f"{bytes_text(last.size_bytes)}",
            "lost packets or a full buffer: compare the NICs' counters before and after "
            "(rdma statistic)",
        )
        return True

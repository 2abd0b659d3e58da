"""What a text says: tables of results, the facts beside them, and what is missing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from components.finding import Finding, plain
from components.judge.known import KnownHardware
from components.validation.benchmarks.nccl.log import NcclNetwork
from stacks.frozen import frozen

Kind = Literal["bandwidth", "latency", "collective", "training", "unknown"]


LARGE_BYTES = 256 * 2**20
"""From here a collective's latency and protocol matter little."""


@frozen
class ResultRow:
    """One message size: Gbit/s, busbw of collectives in GB/s, latency in microseconds."""

    size_bytes: int | None
    value: float
    algbw_gbyte_s: float | None = None
    wrong: int = 0


@dataclass(kw_only=True, slots=True)
class Facts(KnownHardware):
    """What a log says of its hardware and run; None and empty where it does not."""

    device: str | None = None
    queue_pairs: int | None = None
    rdma_cm: bool = False
    both_ways: bool = False
    gpu_memory: bool = False
    loopback: bool = False
    ranks: int | None = None
    listed_ranks: list[tuple[int, str]] = field(default_factory=list)
    """Number and host, in the order of the log."""
    algorithm: str | None = None
    """What NCCL_ALGO pins."""
    sockets: bool = False
    """Whether the command line asks for sockets."""

    @property
    def ranks_by_host(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, host in self.listed_ranks:
            counts[host] = counts.get(host, 0) + 1
        return counts


@dataclass(kw_only=True, slots=True)
class Result:
    """One table, or one number that stands alone."""

    program: str
    kind: Kind
    line: int
    """Where it begins in the text, from 1."""
    rows: list[ResultRow] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    gaps: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    network: NcclNetwork | None = None
    notes: list[str] = field(default_factory=list)
    """Lines in which causes are looked for."""
    claim: bool = False
    """A number in a sentence, without a table."""
    guessed: bool = False
    """Whether the table may also be that of an alltoall."""
    average: bool = False
    """A claim that averages over message sizes, small ones too."""
    columns: tuple[str, ...] = ()
    read_row: "Callable[[Result, list[str]], ResultRow | None] | None" = None
    """Reads a row of numbers, or returns None for a damaged one."""
    open: bool = False
    footer: bool = False
    damaged: int = 0
    gids: dict[str, str] = field(default_factory=dict)
    """GID of each end of perftest."""
    factors: tuple[float, float] = (0.0, 2.0)
    """busbw divided by algbw, as narrow as the digits of all rows allow."""

    @property
    def of_nccl_tests(self) -> bool:
        return self.kind == "collective" and not self.program.startswith(("osu_", "IMB "))

    def find(self, code: str, evidence: str, hint: str = "") -> None:
        if not any(finding.code == code for finding in self.findings):
            where = f"{self.program or 'log'}, line {self.line}"
            self.findings.append(
                Finding(code=code, where=where, evidence=plain(evidence), hint=hint)
            )

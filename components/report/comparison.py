"""What RoCE gains over TCP, and what virtual functions cost against the hosts' own network. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from components.validation.records import JobResult, RunRecord, median


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Two transports of one program."""

    program: str
    what: str
    first: float
    second: float
    unit: str
    result: str


def compared(record: RunRecord) -> list[Compared]:
    """Each comparison for which both sides were measured in this run, and not replayed."""
    return [line for program in dict.fromkeys(job.program for job in record.jobs) for line in _of(program, record.jobs)]


def _of(program: str, jobs: tuple[JobResult, ...]) -> Iterator[Compared]:
    def value(transport: str) -> float | None:
        found = [
            job.value
            for job in jobs
            if (job.program, job.transport, job.outcome) == (program, transport, "measured")
            and job.value is not None
            and not job.replayed
        ]
        return median(found) if found else None

    unit = next(job.unit for job in jobs if job.program == program)
    roce, tcp, host = value("roce"), value("tcp"), value("host")
    if roce is not None and tcp:
        yield Compared(
            program=program,
            what="RoCE against TCP",
            first=roce,
            second=tcp,
            unit=unit,
            result=f"{roce / tcp:.2f} times",
        )
    if roce is not None and host:
        yield Compared(
            program=program,
            what="RoCE in pods against the hosts' network",
            first=roce,
            second=host,
            unit=unit,
            result=f"{(1 - roce / host):+.1%} overhead",
        )

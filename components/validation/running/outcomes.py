"""Results of jobs that were not run: the same outcome for all of a plan. Needs no Kubernetes client."""

from collections.abc import Sequence

from components.validation.benchmarks import unit_of
from components.validation.planning.jobs import PlannedJob, in_turn
from components.validation.records import JobResult, Outcome


def without_a_run(jobs: Sequence[PlannedJob], outcome: Outcome, reason: str) -> list[JobResult]:
    """The same outcome for each job in its turn; one that is impossible anyway says that."""
    return [not_run(job, outcome, reason) for job in in_turn(jobs)]


def not_run(job: PlannedJob, outcome: Outcome, reason: str) -> JobResult:
    """A result without a number."""
    if job.workers is None:
        outcome, reason = "skipped", job.impossible
    return JobResult(
        program=job.program, transport=job.transport, outcome=outcome, reasons=(reason,), unit=unit_of(job.program)
    )

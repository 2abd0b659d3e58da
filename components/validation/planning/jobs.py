"""The jobs of a plan beside NCCL's all-reduce: the same over other transports, MPI's, and an application. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import Field, JsonValue

from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, Program, mpi_job
from components.jobs.programs import NcclPlan, all_reduce, job_name, mpi_all_reduce
from components.jobs.workers import JobRequest, Transport, Workers, workers_of
from components.validation.benchmarks import ALL_REDUCE, MPI_ALL_REDUCE, training_benchmark
from components.validation.records import Frozen
from stacks.base import LabError
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab


class PlannedJob(Frozen):
    """One program over one transport."""

    program: str
    """`nccl_all_reduce`, `mpi_all_reduce`, or a training benchmark by its name."""
    transport: Transport
    workers: Workers | None
    impossible: str = ""
    """Why there are no workers: then the job is skipped with this reason."""
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    one_way: bool = Field(default=False, exclude_if=lambda one_way: not one_way)
    """Whether each transport runs once: simulated labs rate nothing, and their pods start slowly."""

    @property
    def name(self) -> str:
        """As files and logs are called."""
        return f"{self.program}-{self.transport}".replace("_", "-")

    def document(self, lab: str, run_id: str, turn: int) -> dict[str, JsonValue]:
        """The MPIJob of a run, told from others of it by its turn.

        Raises:
            ValueError: for a job that is impossible.
        """
        if self.workers is None:
            raise ValueError(f"{self.name}: {self.impossible}")
        name = self.job_name(run_id, turn)
        # a simulated node shows recorded logs by the name of a container
        program = replace(self._program(self.workers), launcher=f"launcher-{self.name}")
        return mpi_job(name, self.workers, program, {LAB_LABEL: lab, RUN_LABEL: run_id})

    @staticmethod
    def job_name(run_id: str, turn: int) -> str:
        """The name of the MPIJob; with `-worker-NNNN` behind it still a DNS label."""
        return f"{job_name(run_id)}-{turn}"

    def _program(self, workers: Workers) -> Program:
        if self.program == MPI_ALL_REDUCE and self.smallest_bytes and self.largest_bytes:
            return mpi_all_reduce(self.smallest_bytes, self.largest_bytes)
        if self.program != ALL_REDUCE:
            return training_benchmark(self.program).program(workers)
        sizes = {"smallest_bytes": self.smallest_bytes, "largest_bytes": self.largest_bytes}
        return all_reduce(NcclPlan(**dict(workers), **sizes))


def jobs_of(lab: Lab) -> tuple[PlannedJob, ...]:
    """Every job that the lab asks for, each once; `in_turn` says how often and in which order they run."""
    benchmarks = lab.benchmarks
    if benchmarks is None:
        return ()
    return (*_comparison(lab, benchmarks), *_mpi(lab, benchmarks), *_application(lab, benchmarks))


def in_turn(jobs: Sequence[PlannedJob]) -> list[PlannedJob]:
    """The order they run in: each program's transports there and back, so that slow drift favours none of them."""
    order: list[PlannedJob] = []
    for program in dict.fromkeys(job.program for job in jobs):
        there = [job for job in jobs if job.program == program]
        order += there if len(there) == 1 or there[0].one_way else [*there, *reversed(there)]
    return order


def estimate_s(jobs: Sequence[PlannedJob], gbit_s: float, start_s: float, *, simulated: bool) -> float:
    """How long they take at an assumed speed of each rail; a simulated node replays a log, and only starts."""
    total = 0.0
    for job in in_turn(jobs):
        if job.workers is None:
            continue
        total += start_s
        if not simulated and job.largest_bytes is not None:
            # 20 iterations and a warm-up, out of place and in place, twice the buffer, sizes up to the largest
            moved_bits = 21 * 2 * 2 * 2 * job.largest_bytes * 8
            total += moved_bits / 1e9 / (gbit_s * max(1, len(job.workers.rails)))
        elif not simulated:
            total += training_benchmark(job.program).about_s
    return total


def _comparison(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    """TCP first, then RoCE: the hosts' own network is nearest to RoCE, so it stands in the middle."""
    asked, nccl = benchmarks.comparison, benchmarks.nccl
    if asked is None or nccl is None:
        return
    order: list[Transport] = [transport for transport in ("tcp",) if transport in asked.transports]
    order.append("roce")
    order += [transport for transport in ("host",) if transport in asked.transports]
    for transport in order:
        request = JobRequest(
            namespace=benchmarks.namespace,
            image=nccl.image,
            timeout_s=nccl.timeout_s,
            transport=transport,
            device_resource=asked.host_resource,
        )
        yield _planned(lab, ALL_REDUCE, request).model_copy(
            update={"smallest_bytes": asked.smallest_bytes, "largest_bytes": asked.largest_bytes}
        )


def _mpi(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    asked = benchmarks.mpi
    if asked is None:
        return
    for transport in asked.transports:
        request = JobRequest(
            namespace=benchmarks.namespace,
            image=asked.image,
            timeout_s=asked.timeout_s,
            transport=transport,
            cpu_ranks_per_node=asked.ranks_per_node,
        )
        yield _planned(lab, MPI_ALL_REDUCE, request).model_copy(
            update={
                "smallest_bytes": asked.smallest_bytes,
                "largest_bytes": asked.largest_bytes,
                "one_way": lab.simulated,
            }
        )


def _application(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    asked = benchmarks.application
    if asked is None:
        return
    training = lab.images.training if lab.images else None
    resource = benchmarks.comparison.host_resource if benchmarks.comparison else None
    for transport in asked.transports:
        if training is None:
            why = "images.training: missing, and an application needs the image with the framework"
            yield PlannedJob(program=asked.program, transport=transport, workers=None, impossible=why)
            continue
        request = JobRequest(
            namespace=benchmarks.namespace,
            image=training.image,
            timeout_s=asked.timeout_s,
            transport=transport,
            device_resource=resource,
        )
        yield _planned(lab, asked.program, request)


def _planned(lab: Lab, program: str, request: JobRequest) -> PlannedJob:
    try:
        workers = workers_of(lab, request)
    except LabError as error:
        return PlannedJob(program=program, transport=request.transport, workers=None, impossible=str(error))
    return PlannedJob(program=program, transport=request.transport, workers=workers)

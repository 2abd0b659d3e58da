"""The jobs of a plan beside NCCL's all-reduce: the same over other transports, MPI's, and an
application. Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from pydantic import Field, JsonValue

from components.jobs import mpijob
from components.jobs.mpijob import LAB_LABEL, RUN_LABEL, MpiProgram, job_name, mpi_job
from components.jobs.workers import JobRequest, Transport, Workers, workers_of
from components.physics.nccl import LEAST_BYTES
from components.validation.benchmarks.nccl.plan import NcclPlan, all_reduce, nccl_plan
from components.validation.benchmarks.training import training_benchmark
from components.validation.records import Frozen, Unit
from stacks.base import LabError
from stacks.benchmarks import Benchmarks, Mpi, Nccl
from stacks.lab import Lab
from stacks.transports import Training

ALL_REDUCE, MPI_ALL_REDUCE = "nccl_all_reduce", "mpi_all_reduce"
"""The collectives on GPUs and on CPUs; every other program is a training benchmark."""


MPI_SCRIPT = Path(mpijob.__file__).with_name("mpi_all_reduce.py")


class PlannedJob(Frozen):
    """One program over one transport."""

    program: str
    """`nccl_all_reduce`, `mpi_all_reduce`, or a training benchmark by its name."""
    transport: Transport
    workers: Workers | None
    impossible: str = ""
    smallest_bytes: int | None = None
    largest_bytes: int | None = None
    one_way: bool = Field(default=False, exclude_if=lambda one_way: not one_way)
    """Whether each transport runs once: simulated labs rate nothing, and their pods start
    slowly."""

    @property
    def name(self) -> str:
        """In the names of files and logs."""
        return f"{self.program}-{self.transport}".replace("_", "-")

    @property
    def unit(self) -> Unit:
        """Unit of the job's value."""
        if self.program in {ALL_REDUCE, MPI_ALL_REDUCE}:
            return "GB/s"
        return training_benchmark(self.program).unit

    def document(self, lab: str, run_id: str, turn: int) -> dict[str, JsonValue]:
        """The MPIJob of a run; its turn makes the name unique.

        Raises:
            ValueError: for a job that is impossible.
        """
        if self.workers is None:
            raise ValueError(f"{self.name}: {self.impossible}")
        name, program = self.job_name(run_id, turn), self.mpi_program(self.workers)
        return mpi_job(name, self.workers, program, {LAB_LABEL: lab, RUN_LABEL: run_id})

    @staticmethod
    def job_name(run_id: str, turn: int) -> str:
        """The name of the MPIJob; with `-worker-NNNN` behind it still a DNS label."""
        return f"{job_name(run_id)}-{turn}"

    def mpi_program(self, workers: Workers) -> MpiProgram:
        """What its ranks run."""
        # a simulated node shows recorded logs by the name of a container
        return replace(self._program(workers), launcher=f"launcher-{self.name}")

    def _program(self, workers: Workers) -> MpiProgram:
        if self.program == MPI_ALL_REDUCE and self.smallest_bytes and self.largest_bytes:
            return mpi_all_reduce(self.smallest_bytes, self.largest_bytes)
        if self.program != ALL_REDUCE:
            return training_benchmark(self.program).program(workers)
        sizes = {"smallest_bytes": self.smallest_bytes, "largest_bytes": self.largest_bytes}
        return all_reduce(NcclPlan(**dict(workers), **sizes))


def jobs_of(lab: Lab) -> tuple[PlannedJob, ...]:
    """Every job of the lab, each once; `in_turn` has their order and repetitions."""
    benchmarks = lab.benchmarks
    if benchmarks is None:
        return ()
    return (*_comparison(lab, benchmarks), *_mpi(lab, benchmarks), *_application(lab, benchmarks))


def in_turn(jobs: Sequence[PlannedJob]) -> list[PlannedJob]:
    """The order of the jobs: each program's transports forth and back, so that slow drift favors
    none of them.
    """
    order: list[PlannedJob] = []
    for program in dict.fromkeys(job.program for job in jobs):
        there = [job for job in jobs if job.program == program]
        order += there if len(there) == 1 or there[0].one_way else [*there, *reversed(there)]
    return order


def estimate_s(
    jobs: Sequence[PlannedJob], gbit_s: float, start_s: float, *, simulated: bool
) -> float:
    """How long they take at an assumed speed per rail; a simulated node only replays a log."""
    total = 0.0
    for job in in_turn(jobs):
        if job.workers is None:
            continue
        total += start_s
        if not simulated and job.largest_bytes is not None:
            # 20 iterations and a warm-up, out of place and in place, twice the buffer, sizes up to
            # the largest
            moved_bits = 21 * 2 * 2 * 2 * job.largest_bytes * 8
            total += moved_bits / 1e9 / (gbit_s * max(1, len(job.workers.rails)))
        elif not simulated:
            total += training_benchmark(job.program).about_s
    return total


def mpi_all_reduce(smallest_bytes: int, largest_bytes: int) -> MpiProgram:
    """MPI's all-reduce. The job carries its text: any image with Open MPI, UCX and mpi4py
    runs it.
    """
    script = MPI_SCRIPT.read_text()
    words = ("python3", "-m", "mpi4py", "-c", script, str(smallest_bytes), str(largest_bytes))
    return MpiProgram(words=words, over_ucx=True)


def _comparison(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    """TCP first and the hosts' own network next to RoCE, which it resembles most."""
    comparison, nccl = benchmarks.comparison, benchmarks.nccl
    if comparison is None or nccl is None:
        return
    request = JobRequest(
        namespace=benchmarks.namespace,
        image=nccl.image or "",
        timeout_s=nccl.timeout_s,
        device_resource=comparison.host_resource,
        nccl_tests=nccl.program,
    )
    order: tuple[Transport, ...] = ("tcp", "roce", "host")
    transports = [transport for transport in order if transport in ("roce", *comparison.transports)]
    for transport in transports:
        runner = comparison.runner if transport == "host" else "pods"
        with_runner = replace(request, runner=runner)
        yield from _planned(lab, ALL_REDUCE, with_runner, [transport], _sizes(nccl))


def _mpi(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    mpi = benchmarks.mpi
    if mpi is None:
        return
    request = JobRequest(
        namespace=benchmarks.namespace,
        image=mpi.image or "",
        timeout_s=mpi.timeout_s,
        runner=mpi.runner,
        cpu_ranks_per_node=mpi.ranks_per_node,
    )
    update = _sizes(mpi) | {"one_way": lab.simulated}
    yield from _planned(lab, MPI_ALL_REDUCE, request, mpi.transports, update)


def _application(lab: Lab, benchmarks: Benchmarks) -> Iterator[PlannedJob]:
    application = benchmarks.application
    if application is None:
        return
    if lab.images is None or lab.images.training is None:
        why = "images.training: missing, and an application needs the image with the framework"
        for transport in application.transports:
            yield PlannedJob(
                program=application.program, transport=transport, workers=None, impossible=why
            )
        return
    request = JobRequest(
        namespace=benchmarks.namespace,
        image=lab.images.training.image,
        timeout_s=application.timeout_s,
    )
    if benchmarks.comparison:
        request = replace(request, device_resource=benchmarks.comparison.host_resource)
    yield from _planned(lab, application.program, request, application.transports, {})


def _sizes(section: Nccl | Mpi) -> dict[str, object]:
    """The lab file's sizes. A comparison that sets none ends early, since TCP takes its time."""
    largest_bytes = section.largest_bytes
    if largest_bytes is None:
        largest_bytes = max(LEAST_BYTES, section.smallest_bytes)
    return {"smallest_bytes": section.smallest_bytes, "largest_bytes": largest_bytes}


def _planned(
    lab: Lab,
    program: str,
    request: JobRequest,
    transports: Sequence[Transport],
    update: dict[str, object],
) -> Iterator[PlannedJob]:
    """A program over each transport."""
    for transport in transports:
        job = PlannedJob(program=program, transport=transport, workers=None)
        try:
            workers = workers_of(lab, replace(request, transport=transport))
        except LabError as error:
            yield job.replace(**update, impossible=str(error))
        else:
            yield job.replace(**update, workers=workers)


JOBS = ("nccl", *get_args(Training))


def job_of(
    lab: Lab,
    job: str,
    transport: Transport,
    *,
    image: str | None = None,
    device_resource: str | None = None,
) -> dict[str, JsonValue]:
    """The job of a lab for kubectl. It has no run label: the runner would delete it as a leftover.

    Raises:
        LabError: when the lab cannot run it.
    """
    benchmarks = lab.benchmarks or Benchmarks()
    chosen = image or _image(lab, job)
    timeout_s = benchmarks.nccl.timeout_s if benchmarks.nccl else 900
    workers = workers_of(
        lab,
        JobRequest(
            namespace=benchmarks.namespace,
            image=chosen,
            timeout_s=timeout_s,
            transport=transport,
            device_resource=device_resource,
        ),
    )
    name = f"{job.replace('_', '-')}-{transport}"
    return mpi_job(name, workers, _program(job, workers, benchmarks), {LAB_LABEL: lab.name})


def _program(job: str, workers: Workers, benchmarks: Benchmarks) -> MpiProgram:
    if job != "nccl":
        return training_benchmark(job).program(workers, by_hand=True)
    return all_reduce(nccl_plan(workers, benchmarks.nccl))


def _image(lab: Lab, job: str) -> str:
    """The lab's image for a job: NCCL's is in `benchmarks`, the one with a training framework in
    `images`.
    """
    if job == "nccl":
        nccl = lab.benchmarks.nccl if lab.benchmarks else None
        if nccl is None or nccl.image is None:
            raise LabError(
                "benchmarks.nccl.image: missing; name the benchmark image, or use --image"
            )
        return nccl.image
    if lab.images is None or lab.images.training is None:
        raise LabError(
            f"images.training.image: missing, and {job} needs TensorFlow and Horovod; name it or "
            "use --image"
        )
    return lab.images.training.image

"""Dockerfiles of the benchmark images: `templates/` with the lab file's recipes."""

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from components.jobs.image.pvrdma_inside import VENDOR_FOLDER, VENDOR_LIBRARIES, at_build
from stacks.images import (
    HOROVOD_EXAMPLES,
    MPI_BASE,
    MPI_PACKAGES,
    NCCL_TESTS,
    OPEN_MPI,
    PING,
    SSH,
    SSH_CLIENT,
    SSHD,
    TF_BENCHMARKS,
    BenchmarkRecipe,
    TrainingRecipe,
)

if TYPE_CHECKING:
    from jinja2 import Environment

BUILD_TOOLS = ("build-essential", "bzip2", "ca-certificates", "git", "perl")
DISTRIBUTION_VERBS: tuple[str, ...] = (
    "ibverbs-providers",
    "ibverbs-utils",
    "libibverbs-dev",
    "perftest",
    "rdma-core",
    "rdmacm-utils",
)
VENDOR_VERBS = ("doca-ofed-userspace",)


def benchmark_dockerfile(recipe: BenchmarkRecipe) -> str:
    """CUDA, NCCL, nccl-tests, Open MPI, perftest and sshd, in one stage: the base has the compiler
    anyway.
    """
    verbs, checks, repository = DISTRIBUTION_VERBS, at_build(), ""
    if recipe.verbs == "vendor":
        verbs, checks, repository = VENDOR_VERBS, (), recipe.vendor_repository
    nccl = (f"libnccl2={recipe.nccl}", f"libnccl-dev={recipe.nccl}")
    return _with_label(
        "benchmark",
        base=recipe.base,
        vendor_repository=repository,
        packages=[*nccl, *sorted((*BUILD_TOOLS, *PING, *SSH, *verbs))],
        architectures=recipe.gpu_architectures,
        pvrdma_checks=checks,
    )


def mpi_dockerfile() -> str:
    """Open MPI over UCX, and sshd, from Debian; the all-reduce itself comes with its job."""
    return _with_label("mpi", base=MPI_BASE, packages=sorted(MPI_PACKAGES), pvrdma_checks=())


def training_dockerfile(recipe: TrainingRecipe) -> str:
    """TensorFlow and Horovod of NVIDIA's image, the two benchmarks at their commits, and sshd."""
    verbs, checks = DISTRIBUTION_VERBS, at_build()
    if recipe.verbs == "base":
        verbs = checks = ()
    packages = sorted((*SSH, "ca-certificates", "git", *verbs))
    return _with_label("training", base=recipe.base, packages=packages, pvrdma_checks=checks)


def recipe_digest(dockerfile: str) -> str:
    """Twelve digits that identify a recipe."""
    return hashlib.sha256(dockerfile.encode()).hexdigest()[:12]


def _with_label(template: str, **values: object) -> str:
    text = render_dockerfile(template, **values)
    return f"{text}LABEL rocelab.dev/recipe={recipe_digest(text)}\n"


def render_dockerfile(template: str, **values: object) -> str:
    """The Dockerfile of a template with these values."""
    return _environment().get_template(f"{template}.j2").render(values)


@cache
def _environment() -> "Environment":
    # imported here: most commands render nothing
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  # a Dockerfile is no page
    )
    environment.globals |= {
        "open_mpi": OPEN_MPI,
        "nccl_tests": NCCL_TESTS,
        "horovod": HOROVOD_EXAMPLES,
        "tf_benchmarks": TF_BENCHMARKS,
        "scripts": "/opt/benchmarks",
        "sshd": SSHD,
        "ssh_client": SSH_CLIENT,
        "vendor_folder": VENDOR_FOLDER,
        "vendor_libraries": VENDOR_LIBRARIES,
    }
    return environment

"""The images that benchmark jobs run: how to build each, and where the result is stored."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section
from stacks.bill import Image
from stacks.frozen import frozen

PackageVersion = Annotated[str, Field(pattern=r"^[0-9][\w.+~:-]*$", max_length=60)]
"""A version as apt compares them."""


class BenchmarkRecipe(Section):
    """How the image of `benchmarks.nccl.image` is built: CUDA, NCCL, nccl-tests, Open MPI, perftest
    and sshd.
    """

    base: Image = (
        "docker.io/nvidia/cuda:12.8.1-devel-ubuntu24.04"
        "@sha256:4b9ed5fa8361736996499f64ecebf25d4ec37ff56e4d11323ccde10aa36e0c43"
    )
    """CUDA with its compiler on Ubuntu. CUDA 12 is the last that supports the V100."""
    nccl: PackageVersion = "2.25.1-1+cuda12.8"
    """Version in NVIDIA's CUDA repository, which the base image includes; it must match the base's
    CUDA."""
    gpu_architectures: tuple[Annotated[int, Field(ge=50, le=130)], ...] = (70, 80, 90)
    """Compute capabilities that nccl-tests is built for: V100, A100, H100."""
    verbs: Literal["distribution", "vendor"] = "distribution"
    """Source of the RDMA libraries. distribution: Ubuntu's rdma-core, which has every driver,
    including PVRDMA's. vendor: DOCA-OFED's, for NICs newer than the distribution; it does not
    support PVRDMA."""
    vendor_repository: str = Field(
        default="https://linux.mellanox.com/public/repo/doca/3.2.1/ubuntu24.04/x86_64",
        pattern=r"^https://[^\s\"']+$",
        max_length=200,
    )
    """apt repository of DOCA-OFED for the base's distribution. Read with `verbs: vendor` only."""


class TrainingRecipe(Section):
    """The image of the Horovod and tf_cnn_benchmarks jobs, and how it is built."""

    image: Image
    """The finished image; set its digest once it is pushed."""
    base: Image = "nvcr.io/nvidia/tensorflow:24.03-tf2-py3"
    """TensorFlow 2.15 with Horovod: the last with Keras 2, which both benchmarks need, and it
    supports the V100.

    Its publisher may move the tag: write `…@sha256:…` to always build from the same base.
    """
    verbs: Literal["base", "distribution"] = "base"
    """base: keeps the base image's RDMA libraries from the vendor. distribution: replaces them with
    Ubuntu's, which PVRDMA needs."""


class Images(Section):
    """Recipes of the benchmark images; `rocelab image push` builds them."""

    benchmark: BenchmarkRecipe = BenchmarkRecipe()
    training: TrainingRecipe | None = None


@frozen
class GitSource:
    """Sources at one commit of a public repository: git itself proves the content."""

    url: str
    version: str
    """Tag, for people; the commit decides."""
    commit: str


@frozen
class Archive:
    """A release archive and its sha256."""

    url: str
    version: str
    sha256: str


# What is compiled goes with the recipe that compiles it, so a lab file cannot choose others.
NCCL_TESTS = GitSource(
    url="https://github.com/NVIDIA/nccl-tests.git",
    version="v2.19.6",
    commit="a0b82b2260cf5152b9f8c061bbf7eaf0ba096432",
)
OPEN_MPI = Archive(
    url="https://download.open-mpi.org/release/open-mpi/v4.1/openmpi-4.1.8.tar.bz2",
    version="4.1.8",
    sha256="466f68e3132a1dc02710cc2011fafced8336d98359fa2dae4dddcfd5719f12a9",
)
HOROVOD_EXAMPLES = GitSource(
    url="https://github.com/horovod/horovod.git",
    version="v0.28.1",
    commit="1d217b59949986d025f6db93c49943fb6b6cc78f",
)
TF_BENCHMARKS = GitSource(
    url="https://github.com/tensorflow/benchmarks.git",
    version="master of 2023-10-05, its last commit",
    commit="8fb79079265933ad39bea628b777af662f5bf15d",
)

SSH = ("openssh-client", "openssh-server")
PING = ("iputils-ping",)
"""For the check of the rails from inside pods."""
MPI_BASE = "docker.io/library/debian:12-slim"
MPI_PACKAGES = (*PING, *SSH, "ibverbs-providers", "ibverbs-utils", "openmpi-bin", "python3-mpi4py")
"""Packages of the image of `benchmarks.mpi`, also in simulated labs with real pods: Debian's Open
MPI has UCX."""

# The key's secret is mounted readable for its group, which sshd refuses by default. Sessions get
# the image's environment, because MPI starts its daemons in them before mpirun's -x has an effect.
SSHD = (
    "StrictModes no",
    "UsePAM no",
    "PasswordAuthentication no",
    "PermitRootLogin prohibit-password",
    # connections of readiness probes count as well: on a slow node ten of them keep mpirun's own
    # out
    "MaxStartups 100",
)
# Workers and their addresses are new with every job, so there are no host keys to remember.
SSH_CLIENT = (
    "Host *",
    "StrictHostKeyChecking no",
    "UserKnownHostsFile /dev/null",
    "LogLevel ERROR",
)

"""Measurements besides the fabric's verdict: the same job over other transports, and an
application.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from stacks.base import Seconds, Section, repeated

Transport = Literal["roce", "tcp", "host"]
Runner = Literal["pods", "ssh", "slurm"]
"""pods: an MPIJob. ssh: mpirun on the nodes themselves, started over rocelab's own connections, so
no node needs a login on another. slurm: a batch job on the nodes, named as Slurm names them."""
Training = Literal["horovod", "tf_cnn"]
"""A training benchmark: `components/validation/benchmarks/training/` has a file for each."""


class Comparison(Section):
    """The all-reduce over RoCE and other transports: TCP, RoCE, RoCE, TCP.

    Image, nodes and sizes are the same.

    The DeepOps RoCE guide compares RoCE in pods with TCP and with bare metal, and finds bare metal
    as fast as RoCE.
    """

    transports: tuple[Literal["tcp", "host"], ...] = Field(default=("tcp",), min_length=1)
    """What RoCE in pods is compared with."""
    runner: Runner = "pods"
    """What starts `host`. ssh and slurm: on bare metal, with the program of benchmarks.nccl."""
    host_resource: str | None = Field(default=None, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    """Device-plugin resource that gives /dev/infiniband to pods in the hosts' network; `host` in
    pods needs it besides VFs."""

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if repeated(self.transports):
            raise ValueError("transports lists one twice; remove one")
        return self


class Application(Section):
    """A training benchmark with synthetic data on all GPUs, from the lab's training image."""

    program: Training = "horovod"
    """horovod: the DeepOps RoCE guide's ResNet-50. tf_cnn: the vSphere RDG's benchmark."""
    transports: tuple[Transport, ...] = Field(default=("roce",), min_length=1)
    """Transports to compare; several run forth and back, as in the comparison."""
    timeout_s: Seconds = 900

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if repeated(self.transports):
            raise ValueError("transports lists one twice; remove one")
        return self

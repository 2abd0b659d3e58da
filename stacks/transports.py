"""Measurements besides the fabric's verdict: the same job over other transports, and an application."""

from typing import Literal, Self

from pydantic import Field, model_validator

from stacks.base import Seconds, Section, repeated

Transport = Literal["roce", "tcp", "host"]
Training = Literal["horovod", "tf_cnn"]
"""A training benchmark: `components/validation/benchmarks/` has a file for each."""


class Comparison(Section):
    """The all-reduce over RoCE and other transports, same image and nodes, forth and back (TCP, RoCE, RoCE, TCP).

    The DeepOps RoCE guide compares RoCE in pods with TCP and with bare metal, and finds bare metal as fast as RoCE.
    """

    transports: tuple[Literal["tcp", "host"], ...] = Field(default=("tcp",), min_length=1)
    """What RoCE in pods is compared with."""
    smallest_bytes: int = Field(default=1_073_741_824, ge=4)
    """Smallest message. Bandwidth is compared, so the small messages of the main test are omitted."""
    largest_bytes: int = Field(default=2_147_483_648, le=68_719_476_736)
    host_resource: str | None = Field(default=None, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    """Device-plugin resource that gives /dev/infiniband to pods in the hosts' network; `host` needs it besides VFs."""

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        if self.smallest_bytes > self.largest_bytes:
            raise ValueError(f"smallest_bytes {self.smallest_bytes} is above largest_bytes {self.largest_bytes}; swap")
        return self

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

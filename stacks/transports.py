"""What is measured beside the fabric's own verdict: the same job over other transports, and an application."""

from typing import Literal, Self

from pydantic import Field, model_validator

from stacks.base import Seconds, Section

Transport = Literal["roce", "tcp", "host"]
Training = Literal["horovod", "tf_cnn"]
"""A training benchmark: `components/validation/benchmarks/` has a file for each."""


class Comparison(Section):
    """The all-reduce over RoCE and over others with the same image and nodes, there and back (TCP, RoCE, RoCE, TCP).

    The DeepOps RoCE guide compares RoCE in pods with TCP and with bare metal, and finds bare metal as fast as RoCE.
    """

    transports: tuple[Literal["tcp", "host"], ...] = Field(default=("tcp",), min_length=1)
    """What RoCE in pods is compared with."""
    smallest_bytes: int = Field(default=1_073_741_824, ge=4)
    """Bandwidth is compared, so the small messages of the main test are left out."""
    largest_bytes: int = Field(default=2_147_483_648, le=68_719_476_736)
    host_resource: str | None = Field(default=None, pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")
    """Device-plugin resource that hands /dev/infiniband to pods in the hosts' network; needed for host beside VFs."""

    @model_validator(mode="after")
    def _sizes_rise(self) -> Self:
        if self.smallest_bytes > self.largest_bytes:
            raise ValueError(
                f"smallest_bytes {self.smallest_bytes} lies above largest_bytes {self.largest_bytes}: swap"
            )
        return self

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.transports)) < len(self.transports):
            raise ValueError("transports names one twice: leave one out")
        return self


class Application(Section):
    """A training benchmark with synthetic data on all GPUs, from the lab's training image."""

    program: Training = "horovod"
    """horovod: the DeepOps RoCE guide's ResNet-50. tf_cnn: the vSphere RDG's benchmark."""
    transports: tuple[Transport, ...] = Field(default=("roce",), min_length=1)
    """Several are run there and back, as in the comparison."""
    timeout_s: Seconds = 900

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.transports)) < len(self.transports):
            raise ValueError("transports names one twice: leave one out")
        return self

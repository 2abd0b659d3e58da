"""The GPU side of hosts: driver, container toolkit, and the way from NIC to GPU memory."""

from typing import Literal, Self

from pydantic import model_validator

from stacks.base import Section
from stacks.software import Download, Installed

Owner = Literal["keep", "packaged", "operator"]


class GpuDriver(Installed):
    """The GPU driver. keep: what works is taken and verified by nvidia-smi."""

    source: Owner = "keep"
    package: Download | None = None
    """One .deb or .rpm for the nodes' distribution, of which `packages` may bring what it needs: NVIDIA's guest driver
    for vGPUs is in no public repository, and comes with the host's from behind a login. It builds its modules."""

    @model_validator(mode="after")
    def _only_a_packaged_driver_has_a_file(self) -> Self:
        if self.package and self.source != "packaged":
            raise ValueError(f"package is for source packaged, and source is {self.source}: set source: packaged")
        return self

    def is_brought(self) -> bool:
        """By its own file as well."""
        return bool(self.packages or self.package)


class ContainerToolkit(Installed):
    """NVIDIA's container toolkit, and the runtime entry by which containers see GPUs."""

    source: Owner = "keep"
    default_runtime: bool = False
    """Whether every container runs under it; without it a pod asks by its runtimeClassName."""


class Gpu(Section):
    """GPUs of the nodes that have any (`nodes[].gpus`)."""

    driver: GpuDriver = GpuDriver()
    toolkit: ContainerToolkit = ContainerToolkit()
    gpudirect: Literal["auto", "dmabuf", "peermem", "none"] = "auto"
    """How NICs reach GPU memory. auto: each host takes the best that its GPU, driver and kernel can do, and says which
    and why; a way that is named and cannot work is a failed host."""

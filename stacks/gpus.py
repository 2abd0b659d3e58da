"""The GPU side of hosts: driver, container toolkit, and the way from NIC to GPU memory."""

from typing import Literal, Self

from pydantic import model_validator

from stacks.base import Section
from stacks.software import Download, Installed

Owner = Literal["keep", "packaged", "operator"]


class GpuDriver(Installed):
    """The GPU driver. keep: uses the installed one and verifies it with nvidia-smi."""

    source: Owner = "keep"
    package: Download | None = None
    """One .deb or .rpm for the nodes' distribution; list what it depends on in `packages`. NVIDIA's
    guest driver for vGPUs is in no public repository: you download it, with the ESXi host's, behind
    a login. It builds its modules."""

    @model_validator(mode="after")
    def _only_a_packaged_driver_has_a_file(self) -> Self:
        if self.package and self.source != "packaged":
            raise ValueError(
                f"package is for source packaged, but source is {self.source}; set source: packaged"
            )
        return self

    def is_brought(self) -> bool:
        """Whether packages or a file provide the driver."""
        return bool(self.packages or self.package)


class ContainerToolkit(Installed):
    """NVIDIA's container toolkit, and the runtime entry by which containers see GPUs."""

    source: Owner = "keep"
    default_runtime: bool = False
    """Whether every container runs under it; otherwise a pod selects it with runtimeClassName."""


class Gpu(Section):
    """GPUs of the nodes that have some (`nodes[].gpus`)."""

    driver: GpuDriver = GpuDriver()
    toolkit: ContainerToolkit = ContainerToolkit()
    gpudirect: Literal["auto", "dmabuf", "peermem", "none"] = "auto"
    """How NICs reach GPU memory. auto: each host uses the best method of its GPU, driver and
    kernel, and reports which and why. Any other value that a host cannot use is an error."""

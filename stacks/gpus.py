"""The GPU side of hosts: driver, container toolkit, and the way from NIC to GPU memory."""

from typing import Literal

from pydantic import Field

from stacks.base import Section, effect
from stacks.software import Installed

Owner = Literal["keep", "packaged", "operator"]


class GpuDriver(Installed):
    """The GPU driver. keep: what works is taken and verified by nvidia-smi."""

    source: Owner = Field(default="keep", json_schema_extra=effect("reboot"))


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

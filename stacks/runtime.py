"""The container runtime of hosts, and how much memory RDMA may pin in it."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section
from stacks.software import Installed

ImageName = Annotated[str, Field(pattern=r"^[a-z0-9.-]+(:\d+)?/[^\s@]+$", max_length=255)]


class Containerd(Installed):
    """containerd. keep: leaves version and configuration alone. packaged: rocelab manages both."""

    source: Literal["keep", "packaged"] = "keep"
    sandbox_image: ImageName | None = None
    """The pause image of every pod. None: that of `cluster.bootstrap.version`, from
    `bootstrap.image_repository` if set. kubeadm fetches that image and warns about any other, which
    pods would wait for."""


class Runtime(Section):
    """The hosts' container runtime."""

    containerd: Containerd = Containerd()
    memlock: Literal["unlimited", "keep"] = "unlimited"
    """Limit of locked memory. With containerd's default of 8 MiB ibv_reg_mr fails, and NCCL
    silently uses TCP (NVIDIA/nvidia-container-toolkit#2037)."""

"""The container runtime of hosts, and how much memory RDMA may pin in it."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section
from stacks.software import Installed

ImageName = Annotated[str, Field(pattern=r"^[a-z0-9.-]+(:\d+)?/[^\s@]+$", max_length=255)]


class Containerd(Installed):
    """containerd. keep: version and configuration are left alone. packaged: both are ours."""

    source: Literal["keep", "packaged"] = "keep"
    sandbox_image: ImageName | None = None
    """The pause image of every pod. None: that of `cluster.bootstrap.version`, from `bootstrap.image_repository` where
    there is one. kubeadm fetches that one and warns of another, for which pods would wait."""


class Runtime(Section):
    """What containers run under."""

    containerd: Containerd = Containerd()
    memlock: Literal["unlimited", "keep"] = "unlimited"
    """containerd's default of 8 MiB makes ibv_reg_mr fail, and NCCL then takes TCP without a word
    (NVIDIA/nvidia-container-toolkit#2037)."""

"""The bill of materials: every image and every upstream release that the cluster runs, in one table."""

from typing import Annotated

from pydantic import Field

from stacks.base import Section

Image = Annotated[
    str, Field(pattern=r"^[a-z0-9.-]+(:\d+)?/[^\s:@]+(:[\w.-]+)?(@sha256:[0-9a-f]{64})?$", max_length=255)
]


class Bill(Section):
    """Image of each component. A tag names the release; a digest, where given, decides."""

    multus: Image = "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick"
    sriov_cni: Image = "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0"
    sriov_device_plugin: Image = "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.11.0"
    nv_ipam: Image = "ghcr.io/mellanox/nvidia-k8s-ipam:v0.3.7"
    mpi_operator: Image = "docker.io/mpioperator/mpi-operator:0.8.0"

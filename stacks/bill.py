"""The bill of materials: every image and every upstream release that the cluster runs, in one table."""

from dataclasses import dataclass
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
    rdma_cni: Image = "ghcr.io/k8snetworkplumbingwg/rdma-cni:v1.6.0"
    """Runs only where `hosts.rdma_namespaces` is exclusive."""
    nv_ipam: Image = "ghcr.io/mellanox/nvidia-k8s-ipam:v0.4.0"
    """0.4.0 or newer: 0.3.7 hands a node a block that the pool excludes whole, and its pods then find no address."""
    mpi_operator: Image = "docker.io/mpioperator/mpi-operator:0.8.0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Upstream:
    """One file of an upstream release. Its content is pinned, so it matters little where it comes from."""

    module: str
    """Go module of the release, which is also the path of its repository."""
    version: str
    path: str
    """Where the file lies in the module."""
    sha256: str

    @property
    def name(self) -> str:
        """Short name of the release, such as `mpi-operator`."""
        return self.module.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The same file in the tagged release on GitHub."""
        return f"https://raw.githubusercontent.com/{self.module.removeprefix('github.com/')}/{self.version}/{self.path}"


# Definitions go with the code that renders for them, so a lab file cannot choose others.
NETWORKS_DEFINITION = Upstream(
    module="github.com/k8snetworkplumbingwg/network-attachment-definition-client",
    version="v1.7.7",
    path="artifacts/networks-crd.yaml",
    sha256="2c83987cbc34c16e7b49921237c39151008e9239304ef2dc7163b92931ef1880",
)
MPIJOBS_DEFINITION = Upstream(
    module="github.com/kubeflow/mpi-operator",
    version="v0.8.0",
    path="manifests/base/kubeflow.org_mpijobs.yaml",
    sha256="78b0131f931fcc8d99f6ce0407281f41b62527e443ec691d26d9634b390ad3bb",
)
UPSTREAM = (NETWORKS_DEFINITION, MPIJOBS_DEFINITION)

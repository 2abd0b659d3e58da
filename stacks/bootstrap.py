"""A cluster that rocelab creates with kubeadm on the lab's nodes, in place of an existing one."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Section
from stacks.software import Sha256

KubernetesVersion = Annotated[str, Field(pattern=r"^1\.3[4-6]\.\d{1,2}$")]
"""Release without `v`. From 1.34 on every kubeadm reads v1beta4 with the fields used here; 1.36 is
what tests run."""

Endpoint = Annotated[
    str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?:\d{2,5}$", max_length=253)
]


class PackageRepository(Section):
    """Where apt or dnf gets kubeadm, kubelet and kubectl: the release's own repository, or a mirror
    of it.
    """

    url: str = Field(pattern=r"^https?://[^\s\"']+/$", max_length=200)
    """Folder of the minor release for the nodes' family of packages; the key
    `repodata/repomd.xml.key` (rpm) or `Release.key` (deb) is in it. http is enough for a mirror:
    packages are signed and the key is pinned."""
    key_sha256: Sha256
    """sha256 of the signing key's file as the repository serves it."""


class Bootstrap(Section):
    """kubeadm over SSH: one control plane or three, the other nodes as workers."""

    version: KubernetesVersion
    """Kubernetes release. A change is refused on nodes that have joined: upgrades go by kubeadm's
    own order."""
    control_plane_endpoint: Endpoint | None = None
    """Name or address with port that leads to a living API server; needed with three control
    planes."""
    packages: Literal["preinstalled"] | PackageRepository = "preinstalled"
    """preinstalled: the nodes have kubeadm, kubelet and kubectl of `version`. Otherwise where to
    install them from."""
    cri_socket: str = Field(
        default="unix:///run/containerd/containerd.sock", pattern=r"^unix:///\S+$"
    )
    """The container runtime's socket. This section does not install the runtime itself."""
    image_repository: Annotated[str, Field(pattern=r"^[a-z0-9.-]+(:\d+)?(/[\w./-]+)?$")] | None = (
        None
    )
    """Registry of the control plane's images where the nodes cannot reach the release's own."""
    cni: Literal["flannel", "none"] = "flannel"
    """Network between pods, beside the rails. none: you install one yourself; nodes stay NotReady
    until then."""
    topology_manager: Literal["none", "best-effort", "restricted", "single-numa-node"] = (
        "best-effort"
    )
    """How hard the kubelet tries to give a pod VF, GPU and CPU on one NUMA node."""
    reserved_cpus: Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$")] | None = None
    """CPUs kept for the system, such as `0-3`; then pods of whole CPUs get theirs alone (static CPU
    manager)."""

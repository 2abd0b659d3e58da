"""The bill of materials: every image and every upstream release that the cluster runs, in one
table.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from stacks.base import Name, Section
from stacks.frozen import frozen

Image = Annotated[
    str,
    Field(
        pattern=(
            r"^[a-z0-9.-]+(:\d+)?/[a-z0-9._/-]*[a-z0-9]"
            r"(:[\w.-]+(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$"
        ),
        max_length=255,
    ),
]
"""An image by tag, digest or both: a name alone means `latest`, which is another image each
time."""


class Bill(Section):
    """Image of each component. A tag names the release; a digest, where given, decides."""

    multus: Image = "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.3.0-thick"
    sriov_cni: Image = "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0"
    sriov_device_plugin: Image = "ghcr.io/k8snetworkplumbingwg/sriov-network-device-plugin:v3.11.0"
    rdma_cni: Image = "ghcr.io/k8snetworkplumbingwg/rdma-cni:v1.6.0"
    """Runs only where `hosts.rdma_namespaces` is exclusive."""
    nv_ipam: Image = "ghcr.io/mellanox/nvidia-k8s-ipam:v0.4.0"
    """0.4.0 or newer: 0.3.7 hands a node a block that the pool excludes whole, and its pods then
    find no address."""
    mpi_operator: Image = "docker.io/mpioperator/mpi-operator:0.8.0"
    flannel: Image = "ghcr.io/flannel-io/flannel:v0.28.4"
    """Runs, with its plugin, only in a cluster that rocelab creates (`cluster.bootstrap`)."""
    flannel_cni_plugin: Image = "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1"
    rdma_shared_device_plugin: Image = "ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3"
    """Profiles shared_rdma and pvrdma."""
    whereabouts: Image = "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.9.4"
    dhcp_shell: Image = "docker.io/library/busybox:1.37.0"
    """Image in which the node's own DHCP plugin runs as a daemon. The plugin is a static program
    without an image."""
    cni_plugins: Image = "nvcr.io/nvidia/mellanox/plugins:network-operator-v26.4.1"
    """The reference CNI plugins under the network operator; elsewhere they come with the node's
    Kubernetes packages."""
    operator_multus: Image = "nvcr.io/nvidia/mellanox/multus-cni:network-operator-v26.4.1"
    """What the network operator runs: images of its own release, which were tested together."""
    operator_nv_ipam: Image = "nvcr.io/nvidia/mellanox/nvidia-k8s-ipam:network-operator-v26.4.1"
    doca_driver: Image = "nvcr.io/nvidia/mellanox/doca-driver:doca3.4.1-26.04-1.1.0.0-1"
    """The NICs' driver as a container; the operator adds system and kernel to the tag."""
    gpu_device_plugin: Image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    gpu_operator: Image = "nvcr.io/nvidia/gpu-operator:v26.7.0"
    """Its validator, which has the operator's own image."""
    gpu_driver: Image = "nvcr.io/nvidia/driver:595.91.07"
    """The GPU driver as a container; the operator adds the system to the tag."""
    gpu_driver_manager: Image = "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.12.0"
    container_toolkit: Image = "nvcr.io/nvidia/k8s/container-toolkit:v1.20.0"


PAUSE_VERSIONS = {"1.34": "3.10.1", "1.35": "3.10.1", "1.36": "3.10.2"}
"""Pause image by minor release of Kubernetes: `PauseVersion` of its kubeadm
(cmd/kubeadm/app/constants/constants.go), which is the same in all patch releases of these."""
KUBERNETES_REGISTRY = "registry.k8s.io"


def pause_image(kubernetes: str | None, repository: str | None = None) -> str:
    """The image under every pod, as kubeadm fetches it.

    Args:
        kubernetes: release without `v`, as `cluster.bootstrap` allows them. None, where the cluster
            is made elsewhere: the newest pause image, which runs under older releases too.
        repository: where the control plane's images are, when that is not the release's own
            registry.
    """
    minor = kubernetes.rpartition(".")[0] if kubernetes else list(PAUSE_VERSIONS)[-1]
    return f"{repository or KUBERNETES_REGISTRY}/pause:{PAUSE_VERSIONS[minor]}"


Prefix = Annotated[
    str, Field(pattern=r"^[a-z0-9.-]+(:\d+)?(/[a-z0-9._/-]*[a-z0-9])?$", max_length=200)
]
"""A registry, or a folder of one: `ghcr.io`, `nvcr.io/nvidia`, `registry.lab:5000/mirror`."""


class Registry(Section):
    """Where images are really pulled from: for labs without a way out, or behind a cache."""

    mirrors: dict[Prefix, Prefix] = Field(default={})
    """Prefix of an image name, and its replacement. The longest matching prefix wins."""
    pull_secret: Name | None = None
    """Secret with the registry's login. It has to be in each namespace whose pods pull: see
    docs/cluster.md."""

    def resolve(self, image: str) -> str:
        """The name under which this lab pulls an image. A digest stays: a mirror cannot change what
        is run.
        """
        fitting = [prefix for prefix in self.mirrors if image.startswith(f"{prefix}/")]
        if not fitting:
            return image
        longest = max(fitting, key=len)
        return self.mirrors[longest] + image.removeprefix(longest)


@frozen
class Upstream:
    """One file of an upstream release. Its content is pinned, so it matters little where it comes
    from.
    """

    module: str
    """Go module of the release, which is also the path of its repository."""
    version: str
    path: str
    """Path of the file in the module."""
    sha256: str

    @property
    def name(self) -> str:
        """Short name of the release, such as `mpi-operator`."""
        return self.module.rpartition("/")[2]

    @property
    def url(self) -> str:
        """The same file in the tagged release on GitHub."""
        repository = self.module.removeprefix("github.com/")
        return f"https://raw.githubusercontent.com/{repository}/{self.version}/{self.path}"


def _releases(module: str, path: str, sha256_by_version: Mapping[str, str]) -> tuple[Upstream, ...]:
    """One file in several releases."""
    releases = []
    for version, sha256 in sha256_by_version.items():
        releases.append(Upstream(module=module, version=version, path=path, sha256=sha256))
    return tuple(releases)


def _sriov_definition(kind: str, sha256: str) -> tuple[Upstream, ...]:
    module = "github.com/k8snetworkplumbingwg/sriov-network-operator"
    path = f"config/crd/bases/sriovnetwork.openshift.io_{kind}.yaml"
    return _releases(module, path, {"v1.6.0": sha256})


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

# What the operators' releases call valid. Operators bring their definitions themselves; tests
# compare what is rendered with the first of each list that can be had. NVIDIA's releases since 2022
# are no Go modules, hence the older second.
_SRIOV_KINDS = {
    "sriovnetworknodepolicies": "fcc06af66a10ad77cb6b9596a6d38fd4c6e3544852d7d9ddcb289fb4a6b14ce4",
    "sriovnetworkpoolconfigs": "d6706a05e49f3c1c0949ea792ed84062cc2fff8fdfadb47d9e8ae9f0d3ea243a",
    "sriovnetworks": "c3f3bbdf909c0c7a89d2873d1f8cc9e630dc87717479621280e2a299cf4c8dd5",
    "sriovoperatorconfigs": "91115f124eccabcb7f15e061f3dbae04a98c4e669b09e46c5c3d6472f422fb96",
}
OPERATOR_DEFINITIONS: dict[str, tuple[Upstream, ...]] = {
    "nicclusterpolicies.mellanox.com": _releases(
        "github.com/Mellanox/network-operator",
        "config/crd/bases/mellanox.com_nicclusterpolicies.yaml",
        {
            "v26.4.1": "6e7233dcad83ff1f2f2e14dde7b7bce85129cfd249ec87780f76d67c49fc67df",
            "v1.4.0": "1bc21514b6ac53593ab3764996361fc5ddfa08c7c2509da28120fcd79ab76bc0",
        },
    ),
    "clusterpolicies.nvidia.com": _releases(
        "github.com/NVIDIA/gpu-operator",
        "config/crd/bases/nvidia.com_clusterpolicies.yaml",
        {
            "v26.7.0": "fcece7d07504e57fd5815525b3baa1eccc659a2f3b48895578be731dcde4042a",
            "v1.8.3-0.20240429200431-0fe1e8db32b0": (
                "595943222d18657f077ade35b0e0f2e9e3e213cc11602d20cb2b2b88907f878e"
            ),
        },
    ),
}
for _kind, _sha256 in _SRIOV_KINDS.items():
    OPERATOR_DEFINITIONS[f"{_kind}.sriovnetwork.openshift.io"] = _sriov_definition(_kind, _sha256)

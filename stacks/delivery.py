"""How the rails come into pods: four ways, of which a lab has exactly one. Each has one owner of VFs and drivers."""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Name, Port, Section

WORKERS_SSH_PORT = 2222
"""In the host's network the node's own sshd has port 22."""
LabelKey = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)]


class SriovPlain(Section):
    """The hosts make the VFs; Multus, the SR-IOV CNI and device plugin are placed here. The guide's own way."""

    profile: Literal["sriov_plain"] = "sriov_plain"


class SriovOperator(Section):
    """NVIDIA's network operator and its SR-IOV operator own VFs, plugins and, if asked, the driver.

    Both operators are installed already (one Helm chart); here are only the custom resources that tell them what to
    do. `nodes[].pfs[].vfs` is 0 then: two owners of one number would undo each other at every run.
    """

    profile: Literal["sriov_operator"]
    vfs: int = Field(ge=1, le=127)
    """VFs that the operator splits each PF into. A change drains the nodes, one after the other."""
    namespace: Name = "nvidia-network-operator"
    """Namespace of the operators; nv-ipam's pools have to lie in it too."""
    resource_prefix: str = Field(default="nvidia.com", pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """What the operator was installed with; `rails[].resource_prefix` has to say the same."""
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={"feature.node.kubernetes.io/pci-15b3.present": "true"}, min_length=1
    )
    """Labels of the nodes with rails. The default is what node feature discovery finds for NVIDIA's NICs."""
    max_unavailable: int = Field(default=1, ge=1, le=64)
    """Nodes that the operator may drain at once."""
    drain: bool = True
    """Whether nodes are drained before their VFs change. Without it pods lose them while they run."""


class SharedRdma(Section):
    """No VFs: each pod gets a macvlan interface on the PF, and all pods of a node share the PF's RDMA device.

    Pods are untagged, in the rail's native VLAN, since a macvlan has the tag of the interface below it.
    """

    profile: Literal["shared_rdma"]
    most_pods: int = Field(default=8, ge=1, le=1000)
    """How many pods of a node may hold the device of a rail at once; each needs an address of the rail."""


class Pvrdma(Section):
    """vSphere's paravirtual RDMA: pods use the machine's own network, and share its one RDMA device.

    The device's addresses are those of the machine's vmxnet3 interface, so a pod network would hide them.
    """

    profile: Literal["pvrdma"]
    most_pods: int = Field(default=8, ge=1, le=1000)
    """How many pods of a machine may hold the device at once."""
    ssh_port: Port = WORKERS_SSH_PORT
    """Where sshd of a job's workers listens, in the machines' own network: a port that no node has its own sshd on."""


Delivery = Annotated[SriovPlain | SriovOperator | SharedRdma | Pvrdma, Field(discriminator="profile")]
"""Exactly one way; `stacks/rules/cluster.py` refuses what contradicts it elsewhere in the file."""


def devices_of(delivery: SriovPlain | SriovOperator | SharedRdma | Pvrdma, vfs: int) -> int:
    """How many devices of its rail a PF offers to pods: VFs of one owner or the other, or shares of its one device."""
    match delivery:
        case SharedRdma() | Pvrdma():
            return delivery.most_pods
        case SriovOperator():
            return delivery.vfs
        case SriovPlain():
            return vfs


GpuDelivery = Literal["none", "device_plugin", "operator"]
"""Who offers `nvidia.com/gpu`: somebody else, a DaemonSet of ours, or NVIDIA's GPU operator by its ClusterPolicy."""

"""How the rails reach pods: a lab uses one of four profiles. Each profile has one owner of VFs and
drivers.
"""

from typing import Annotated, Literal

from pydantic import Field

from stacks.base import Name, Port, Section

WORKERS_SSH_PORT = 2222
"""In the host's network, port 22 belongs to the node's own sshd."""
LabelKey = Annotated[
    str,
    Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"),
]
LabelValue = Annotated[
    str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$", max_length=63)
]


class SriovPlain(Section):
    """The hosts create the VFs, and rocelab installs Multus, the SR-IOV CNI and device plugin.

    The guide does the same.
    """

    profile: Literal["sriov_plain"] = "sriov_plain"


class SriovOperator(Section):
    """NVIDIA's network operator and its SR-IOV operator own VFs and plugins.

    With drivers.source operator they own the driver too.

    Both operators are installed already (one Helm chart); rocelab adds only the custom resources
    that configure them. Set `nodes[].pfs[].vfs` to 0: two owners of one number would undo each
    other at every run.
    """

    profile: Literal["sriov_operator"]
    vfs: int = Field(ge=1, le=127)
    """VFs per PF. A change drains the nodes, one after the other."""
    namespace: Name = "nvidia-network-operator"
    """Namespace of the operators; nv-ipam's pools must be in it too."""
    resource_prefix: str = Field(default="nvidia.com", pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
    """Prefix that the operator was installed with; `rails[].resource_prefix` must be the same."""
    node_selector: dict[LabelKey, LabelValue] = Field(
        default={"feature.node.kubernetes.io/pci-15b3.present": "true"}, min_length=1
    )
    """Labels of the nodes with rails. The default is what node feature discovery sets for NVIDIA's
    NICs."""
    max_unavailable: int = Field(default=1, ge=1, le=64)
    """Nodes that the operator may drain at once."""
    drain: bool = True
    """Whether nodes are drained before their VFs change. Without it pods lose them while they
    run."""


class SharedRdma(Section):
    """No VFs: each pod gets a macvlan interface on the PF, and all pods of a node share the PF's
    RDMA device.

    Pods are untagged, in the rail's native VLAN, since a macvlan has the tag of the interface below
    it.
    """

    profile: Literal["shared_rdma"]
    most_pods: int = Field(default=8, ge=1, le=1000)
    """How many pods per node may hold the device of a rail at once; each needs an address of the
    rail."""


class Pvrdma(Section):
    """vSphere's paravirtual RDMA: pods use the machine's own network, and share its one RDMA
    device.

    The device's addresses are those of the machine's vmxnet3 interface, so a pod network would hide
    them.
    """

    profile: Literal["pvrdma"]
    most_pods: int = Field(default=8, ge=1, le=1000)
    """How many pods per VM may hold the device at once."""
    ssh_port: Port = WORKERS_SSH_PORT
    """Port of sshd in a job's workers, on the VMs' own network. It must differ from the nodes' own
    sshd port."""


Delivery = Annotated[
    SriovPlain | SriovOperator | SharedRdma | Pvrdma, Field(discriminator="profile")
]
"""Any profile; `stacks/rules/cluster.py` refuses what contradicts it elsewhere in the file."""


def devices_of(delivery: SriovPlain | SriovOperator | SharedRdma | Pvrdma, vfs: int) -> int:
    """How many devices of its rail a PF offers to pods: VFs, or shares of its one device."""
    match delivery:
        case SharedRdma() | Pvrdma():
            return delivery.most_pods
        case SriovOperator():
            return delivery.vfs
        case SriovPlain():
            return vfs


GpuDelivery = Literal["none", "device_plugin", "operator"]
"""What offers `nvidia.com/gpu`: something outside rocelab, rocelab's DaemonSet, or NVIDIA's GPU
operator."""

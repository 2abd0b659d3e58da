"""The Kubernetes side of the lab: which cluster, and what carries the rails into pods."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from stacks.base import LocalFile, Name, Network, Section
from stacks.bill import Bill, Registry
from stacks.bootstrap import Bootstrap
from stacks.delivery import Delivery, GpuDelivery, SriovPlain
from stacks.files import read_simulator_file
from stacks.ipam import Ipam, NvIpam

LONGEST_PREFIX = 28
"""The smallest pod network that kubeadm accepts (MinimumAddressesInPodSubnet); services need ten
addresses, the tenth is the DNS server's."""


def _large_enough(network: IPv4Network) -> IPv4Network:
    if network.prefixlen > LONGEST_PREFIX:
        raise ValueError(
            f"too small for a cluster; use a network of /{LONGEST_PREFIX} or larger, usually /16"
        )
    return network


ClusterNetwork = Annotated[Network, AfterValidator(_large_enough)]

VendorId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$")]


class Cluster(Section):
    """An existing cluster whose nodes are the lab's nodes."""

    kubeconfig: Literal["file", "secret"] = "secret"
    """Where the kubeconfig is: in `kubeconfig_file`, or in the stack secret
    `rocelab:kubeconfig`."""
    kubeconfig_file: LocalFile | None = None
    bootstrap: Bootstrap | None = None
    """None: the cluster exists. Otherwise kubeadm creates it, and its kubeconfig is read from a
    control plane."""
    pod_subnet: ClusterNetwork
    """The primary CNI's pod network; it may overlap no rail."""
    service_subnet: ClusterNetwork
    """The services' network; it may overlap no rail."""
    system_namespace: Name = "kube-system"
    """Namespace of the node agents (Multus, SR-IOV CNI and device plugin, nv-ipam)."""
    namespaces: tuple[Name, ...] = Field(default=("default",), min_length=1)
    """Namespaces whose pods may use the rails: each gets every NetworkAttachmentDefinition."""
    delivery: Delivery = SriovPlain()
    """How the rails reach pods: `profile: sriov_plain | sriov_operator | shared_rdma | pvrdma`."""
    ipam: Ipam = NvIpam()
    """What gives pods their addresses on the rails: `kind: nv_ipam | whereabouts | dhcp |
    static`."""
    gpus: GpuDelivery = "none"
    """What offers GPUs to pods; none: the cluster has something that does."""
    gate: Literal["condition", "taint"] = "condition"
    """What `rocelab gate --publish` sets on the nodes. condition: `RocelabGate`, which keeps no pod
    away. taint: also `rocelab.dev/gate=closed:NoSchedule` while the gate is closed; running pods
    stay."""
    kubelet_version: str | None = Field(default=None, pattern=r"^v?1\.\d{1,2}(\.\d{1,2})?$")
    """Version that every active node must run, such as 1.35 or 1.35.2. Nodes on other versions get
    no jobs."""
    rdma_vendor_ids: tuple[VendorId, ...] = Field(default=("15b3",), min_length=1)
    """PCI vendors that the device plugin offers; 8086 in the simulator."""
    bill: Bill = Bill()
    """Versions of everything that runs in the cluster, from the table in `stacks/bill.py`."""
    registry: Registry = Registry()
    """Mirrors and login of a private registry; `rocelab image list` lists the images that it must
    hold."""


def read_kubeconfig(cluster: Cluster, root: Path) -> str:
    """The text of the kubeconfig's file.

    Raises:
        LabError: when it is not where the lab says.
    """
    return read_simulator_file("cluster.kubeconfig_file", cluster.kubeconfig_file, root)

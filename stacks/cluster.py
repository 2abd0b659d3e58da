"""The Kubernetes side of the lab: which cluster, and what carries the rails into pods."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from pydantic import Field

from stacks.base import Name, Section
from stacks.bill import Bill


class Cluster(Section):
    """An existing cluster whose nodes are the lab's nodes."""

    kubeconfig: Literal["file", "secret"] = "secret"
    """Where the kubeconfig is: in `kubeconfig_file`, or in the stack secret `rocelab:kubeconfig`."""
    kubeconfig_file: Path | None = None
    pod_subnet: IPv4Network
    """The primary CNI's pod network; it may overlap no rail."""
    service_subnet: IPv4Network
    """The services' network; it may overlap no rail."""
    system_namespace: Name = "kube-system"
    """Namespace of the node agents (Multus, SR-IOV CNI and device plugin, nv-ipam)."""
    namespaces: tuple[Name, ...] = Field(default=("default",), min_length=1)
    """Namespaces whose pods may use the rails: each gets every NetworkAttachmentDefinition."""
    rdma_vendor_ids: tuple[str, ...] = ("15b3",)
    """PCI vendors that the device plugin offers; 8086 in the simulator."""
    bill: Bill = Bill()
    """Versions of all that runs in the cluster: one table, `stacks/bill.py`."""

"""Which pods a job has and what each of them gets: one object from which annotation and limits both follow."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stacks.base import LabError
from stacks.lab import Lab
from stacks.nodes import Node

Transport = Literal["roce", "tcp", "host"]
"""roce: a VF of each rail in each worker. tcp: no VF, NCCL over sockets. host: the host's own network and PFs."""

POD_INTERFACE = "eth0"
"""The pod network's interface, where MPI and NCCL's bootstrap stay."""


class Frozen(BaseModel):
    """Base of what is worked out here: unknown fields are faults, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Attachment(Frozen):
    """One rail in a pod. Network and resource belong together: Multus gives the one, kubelet counts the other."""

    rail: str
    network: str
    """NetworkAttachmentDefinition as `namespace/name`."""
    resource: str
    """Device-plugin resource, such as `intel.com/sriov_111`."""


class HostNetwork(Frozen):
    """What workers need that have the host's own network instead of VFs."""

    device_resource: str
    """The shared device plugin's resource: it hands out /dev/infiniband, so that no container is privileged."""
    interfaces: tuple[str, ...]
    """Management interfaces of the nodes, where MPI stays."""
    pfs: tuple[str, ...]
    """PFs whose RDMA devices NCCL may use."""


class Workers(Frozen):
    """The workers of a job, one on each node."""

    namespace: str
    image: str
    nodes: tuple[str, ...]
    gpus_per_node: int
    attachments: tuple[Attachment, ...] = ()
    """The rails in each worker."""
    host: HostNetwork | None = None
    traffic_class: int | None = None
    """TOS byte of RoCE traffic, where the lab has quality of service; NIC and switch sort by the same."""
    timeout_s: int

    @property
    def transport(self) -> Transport:
        """What NCCL runs over follows from what the pods get."""
        if self.host:
            return "host"
        return "roce" if self.attachments else "tcp"

    @property
    def rails(self) -> tuple[str, ...]:
        """Names of the rails in use."""
        return tuple(attached.rail for attached in self.attachments)

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks, in the order of the rails."""
        return tuple(attached.network for attached in self.attachments)

    @property
    def limits(self) -> dict[str, str]:
        """What each worker asks for, extended resources only: requests equal limits there."""
        devices = [attached.resource for attached in self.attachments]
        if self.host:
            devices.append(self.host.device_resource)
        return {**dict.fromkeys(devices, "1"), "nvidia.com/gpu": str(self.gpus_per_node)}

    @property
    def ranks(self) -> int:
        """One rank a GPU."""
        return len(self.nodes) * self.gpus_per_node

    @property
    def bootstrap_interfaces(self) -> tuple[str, ...]:
        """Where MPI and NCCL's own bootstrap run: never on a rail."""
        return self.host.interfaces if self.host else (POD_INTERFACE,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What a job asks of its workers besides the lab."""

    namespace: str
    image: str
    timeout_s: int
    transport: Transport = "roce"
    device_resource: str | None = None
    """Needed with transport host."""


def workers_of(lab: Lab, wanted: Wanted) -> Workers:
    """Workers on all active nodes with GPUs, with the rails that all of them have.

    Raises:
        LabError: without a cluster, with fewer than two such nodes, or without what the transport needs.
    """
    nodes = [node for node in lab.active_nodes if node.gpus]
    if lab.cluster is None:
        raise LabError("cluster: missing, and a job runs in one; add the section")
    if len(nodes) < 2:
        raise LabError(f"nodes: {len(nodes)} active with gpus, and a job over the fabric needs two; set state and gpus")
    # attachments stand in the cluster's namespaces; from any other one they are reached by their full name
    home = wanted.namespace if wanted.namespace in lab.cluster.namespaces else lab.cluster.namespaces[0]
    return Workers(
        namespace=wanted.namespace,
        image=wanted.image,
        nodes=tuple(node.name for node in nodes),
        gpus_per_node=min(node.gpus for node in nodes),
        attachments=_attachments(lab, nodes, home) if wanted.transport == "roce" else (),
        host=_host(lab, nodes, wanted.device_resource) if wanted.transport == "host" else None,
        traffic_class=lab.qos.tos if lab.qos and wanted.transport != "tcp" else None,
        timeout_s=wanted.timeout_s,
    )


def _attachments(lab: Lab, nodes: list[Node], namespace: str) -> tuple[Attachment, ...]:
    rails = [rail for rail in lab.rails if all((pf := node.pf_on(rail.name)) and pf.vfs for node in nodes)]
    if not rails:
        raise LabError("nodes[].pfs[].vfs: no rail has VFs on every node of the job; set vfs, or use transport tcp")
    return tuple(
        Attachment(rail=rail.name, network=f"{namespace}/{rail.network_name}", resource=rail.resource) for rail in rails
    )


def _host(lab: Lab, nodes: list[Node], device_resource: str | None) -> HostNetwork:
    if not device_resource:
        raise LabError(
            "transport host: a container gets no /dev/infiniband by itself, and privileged ones are not made. Name the "
            "shared device plugin's resource: --device-resource rdma/<name>"
        )
    pfs = (node.pf_on(rail.name) for rail in lab.rails for node in nodes)
    return HostNetwork(
        device_resource=device_resource,
        interfaces=tuple(dict.fromkeys(node.management_interface for node in nodes)),
        pfs=tuple(dict.fromkeys(pf.interface for pf in pfs if pf)),
    )

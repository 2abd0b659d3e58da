"""Everything that carries the rails into pods, in a cluster that exists."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.cluster.attachments import Attachments, AttachmentsArgs, describe
from components.cluster.definitions import read_definitions
from components.cluster.ipam import render_ipam
from components.cluster.manifests import Manifest, Program
from components.cluster.mpi import NAMESPACE as MPI_NAMESPACE
from components.cluster.mpi import render_mpi_operator
from components.cluster.multus import render_multus
from components.cluster.namespaces import render_namespaces
from components.cluster.operators import Operator, OperatorArgs, place
from components.cluster.rails import populated_rails
from components.cluster.sriov import LAYOUT_ANNOTATION, render_device_plugin, render_rdma_cni, render_sriov_cni
from components.cluster.store import Store
from stacks.base import LabError
from stacks.cluster import Cluster
from stacks.lab import Lab


@dataclass(frozen=True, kw_only=True, slots=True)
class RdmaClusterArgs:
    """Inputs of `RdmaCluster`: the lab, then what the hosts and the stack's secrets yield."""

    lab: Lab
    kubeconfig: pulumi.Input[str]
    vf_layout: pulumi.Input[str]
    """Digest of all VFs, known when they are there: only the device plugin waits for it."""


class RdmaCluster(pulumi.ComponentResource):
    """Definitions, node agents, pools, networks and the MPI operator of one lab.

    The hosts and this component work at the same time; the device plugin alone waits, since it looks for VFs once.
    """

    attachments: Mapping[str, Mapping[str, str | int]]
    """Per rail: resource, network, vlan_id, mtu_bytes."""
    provider: kubernetes.Provider
    """For what other layers place in the same cluster."""
    ready: pulumi.Output[bool]
    """True once every object is there and every pod of ours runs."""

    def __init__(self, name: str, args: RdmaClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:cluster:RdmaCluster", name, None, opts)
        lab, cluster = args.lab, _section(args.lab)
        manager = f"rocelab-{lab.name}"
        self.provider = kubernetes.Provider(
            f"{name}-provider",
            kubeconfig=args.kubeconfig,
            # the cluster's identity in the state: without it a new API address deletes and makes everything again
            cluster_identifier=lab.name,
            enable_server_side_apply=True,
            opts=pulumi.ResourceOptions(parent=self),
        )
        child = pulumi.ResourceOptions(parent=self, provider=self.provider)
        namespaces = {
            key: place(f"{name}-namespace-{key}", manifest, manager, child)
            for key, manifest in render_namespaces(lab, cluster).items()
        }
        kinds = {
            key: place(f"{name}-definition-{key}", manifest, manager, child) for key, manifest in _definitions().items()
        }
        pools = [kinds["ippools"], kinds["cidrpools"]]
        after: dict[str, list[pulumi.Resource]] = {
            "multus": [kinds["networks"]],
            "nv-ipam": [*pools],
            "mpi-operator": [kinds["mpijobs"], namespaces[MPI_NAMESPACE]],
        }
        operators = [
            Operator(
                f"{name}-{key}",
                OperatorArgs(
                    program=program,
                    manager=manager,
                    after=after.get(key, []),
                    pod_annotations={LAYOUT_ANNOTATION: args.vf_layout} if key == "device-plugin" else {},
                ),
                child,
            )
            for key, program in programs(lab, cluster).items()
        ]
        attached = Attachments(
            f"{name}-rails",
            AttachmentsArgs(
                lab=lab,
                cluster=cluster,
                manager=manager,
                networks_after=[kinds["networks"]],
                pools_after=pools,
            ),
            child,
        )
        self.attachments = describe(lab)
        everything = [*attached.placed, *(running for operator in operators for running in operator.running)]
        self.ready = pulumi.Output.all(*(resource.id for resource in everything)).apply(lambda _: True)
        self.register_outputs({"attachments": self.attachments, "ready": self.ready})


def programs(lab: Lab, cluster: Cluster) -> dict[str, Program]:
    """What runs in the lab's cluster, by the key that its resources are named with."""
    chosen = {
        "multus": render_multus(cluster),
        "sriov-cni": render_sriov_cni(cluster),
        "nv-ipam": render_ipam(cluster),
        "mpi-operator": render_mpi_operator(cluster),
    }
    if populated_rails(lab):
        # without a resource to offer, the plugin ends at once, again and again
        chosen["device-plugin"] = render_device_plugin(lab, cluster)
    if lab.hosts.rdma_namespaces == "exclusive":
        chosen["rdma-cni"] = render_rdma_cni(cluster)
    return chosen


def _section(lab: Lab) -> Cluster:
    if lab.cluster is None:
        raise ValueError(f"lab {lab.name} has no section cluster")
    return lab.cluster


def _definitions() -> Mapping[str, Manifest]:
    try:
        return read_definitions(Store.from_environment())
    except LabError as error:
        # the loader cannot read these files, and their fault is the machine's: no traceback
        raise pulumi.RunError(str(error)) from None

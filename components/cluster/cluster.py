"""Everything that brings the rails into pods, in an existing cluster."""

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import JsonValue

from components.cluster.attachments import Attachments, AttachmentsArgs, describe
from components.cluster.bootstrap.kubeconfig import Kubeconfig
from components.cluster.claim import Claim
from components.cluster.device_plugins import LAYOUT_ANNOTATION
from components.cluster.foundations import place_foundations
from components.cluster.node_checks import gate_spec
from components.cluster.node_gate import NodeGate
from components.cluster.operators import Operator, OperatorArgs
from components.cluster.preconditions import preconditions
from components.cluster.profiles import DEVICE_PLUGIN, programs
from components.cluster.roll_out import announce
from components.kubernetes.client import identity_of
from components.outputs import few_faults
from components.provider.program import Declaration
from components.ssh.credentials import kubeconfig_source
from stacks.cluster import Cluster
from stacks.frozen import frozen
from stacks.lab import Lab

GATE_S = {"virtual": 120, "plain": 180, "operator": 1800}
"""How long the gate waits: a plugin registers within seconds, on an emulated machine within two
minutes; an operator may reboot nodes for VFs. Without real kubelets the gate waits at most
`node_gate.PLAYED_S`."""


ROLL_OUT = pulumi.CustomTimeouts(create="3m", update="3m")
"""Fake kubelets pull no image, so a pod that is not ready within seconds never will be."""


@frozen
class RdmaClusterArgs:
    """The lab, then values from hosts and secrets."""

    lab: Lab
    kubeconfig: pulumi.Input[str]
    vf_layout: pulumi.Input[str]
    """Digest of all VFs, known when they exist: only the device plugin waits for it."""


class RdmaCluster(pulumi.ComponentResource):
    """Definitions, node agents, pools, networks and the MPI operator of one lab.

    It works in parallel with the hosts. Only the device plugin waits for them, because it looks for
    VFs once.
    """

    attachments: Mapping[str, Mapping[str, str | int]]
    """Per rail: resource, network, vlan_id, mtu_bytes."""
    fault_outline: pulumi.Output[Mapping[str, JsonValue]]
    """The faults as the stack output has them: the first ones, and a count."""
    faults: pulumi.Output[Mapping[str, list[str]]]
    """Why jobs cannot run, by node, pool or network; empty when they can."""
    provider: kubernetes.Provider
    """For objects of other layers in the same cluster."""
    ready: pulumi.Output[bool]
    """True once every object exists, every pod of the lab runs, and the gate has read the nodes."""

    def __init__(
        self, name: str, args: RdmaClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:cluster:RdmaCluster", name, None, opts)
        lab, cluster = args.lab, _section(args.lab)
        # what the kubeconfig opens is no secret, and stays the same when its login is renewed
        identity = pulumi.Output.unsecret(
            pulumi.Output.from_input(args.kubeconfig).apply(identity_of)
        )
        opened = {"cluster": identity, "kubeconfig": kubeconfig_source(cluster)}
        owner_name = f"lab {lab.name} of stack {pulumi.get_project()}/{pulumi.get_stack()}"
        claim = Declaration(
            Claim,
            f"{name}-claim",
            {"owner": owner_name, "required": preconditions(lab, cluster), **opened},
            pulumi.ResourceOptions(parent=self),
        )
        self.provider = kubernetes.Provider(
            f"{name}-provider",
            kubeconfig=args.kubeconfig,
            # its identity in the state: without it, a new API address would replace everything
            cluster_identifier=lab.name,
            enable_server_side_apply=True,
            # every object goes through it, so nothing is placed in another lab's cluster
            opts=pulumi.ResourceOptions(parent=self, depends_on=[claim]),
        )
        child = pulumi.ResourceOptions(parent=self, provider=self.provider)
        after = place_foundations(name, lab, cluster, child)
        roll_out = None if lab.has_real_pods else ROLL_OUT
        running: dict[str, pulumi.CustomResource] = {}
        for key, program in programs(lab, cluster).items():
            restarts = {}
            if key == DEVICE_PLUGIN:
                restarts = {LAYOUT_ANNOTATION: args.vf_layout}
            operator_args = OperatorArgs(
                program=program,
                lab=lab.name,
                after=after.get(key, []),
                roll_out=roll_out,
                pod_annotations=restarts,
            )
            running |= Operator(f"{name}-{key}", operator_args, child).running
        attached = Attachments(
            f"{name}-rails",
            AttachmentsArgs(
                lab=lab,
                cluster=cluster,
                networks_after=after["networks"],
                pools_after=after["pools"],
            ),
            child,
        )
        self.attachments = describe(lab, cluster)
        announce(running, args.kubeconfig)
        everything = [*attached.placed, *after["policies"], *running.values()]
        if lab.simulated:
            patience = "virtual"
        else:
            patience = "operator" if after["policies"] else "plain"
        gate = Declaration(
            NodeGate,
            f"{name}-nodes",
            {
                "expected": gate_spec(lab, cluster),
                "after": args.vf_layout,
                "wait_s": GATE_S[patience],
                **opened,
            },
            # it reads what plugins and controllers made of all this
            pulumi.ResourceOptions(parent=self, depends_on=everything),
        )
        self.faults = gate.report.apply(
            lambda report: report or {}
        )  # none of a gate that --target left out
        self.fault_outline = self.faults.apply(few_faults)
        # by ID: the gate's report is unknown in a preview of its update, and so would be everything
        # that depends on it
        ids = [resource.id for resource in (*everything, gate)]
        self.ready = pulumi.Output.all(*ids).apply(lambda _: True)
        self.register_outputs(
            {"attachments": self.attachments, "faults": self.faults, "ready": self.ready}
        )


@frozen
class MadeClusterArgs:
    lab: Lab
    hosts: pulumi.Resource
    """What creates the cluster."""


class MadeCluster(pulumi.ComponentResource):
    """The cluster that the hosts' Fleet created, for other layers."""

    kubeconfig: pulumi.Output[str]

    def __init__(
        self, name: str, args: MadeClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocelab:cluster:MadeCluster", name, None, opts)
        # no value of the hosts shows that they form a cluster by now
        made = pulumi.ResourceOptions(parent=self, depends_on=[args.hosts])
        self.kubeconfig = Declaration(
            Kubeconfig, f"{name}-kubeconfig", {"cluster": args.lab.name}, made
        ).kubeconfig
        self.register_outputs({"kubeconfig": self.kubeconfig})


def _section(lab: Lab) -> Cluster:
    if lab.cluster is None:
        raise ValueError(f"lab {lab.name} has no section cluster")
    return lab.cluster

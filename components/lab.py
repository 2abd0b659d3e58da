"""The wiring diagram of a lab: fabric, hosts, the cluster on them, and the proof that it works."""

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi

from components.cluster.cluster import MadeCluster, MadeClusterArgs, RdmaCluster, RdmaClusterArgs
from components.hosts.hosts import Hosts, HostsArgs
from components.ports.matrix import output_lines
from components.switches.switches import Switches, SwitchesArgs
from components.validation.validation import Validation, ValidationArgs
from stacks.load import load_credentials, load_lab

Outputs = Mapping[str, Any]


def wire(prefix: str = "", parent: pulumi.Resource | None = None) -> Outputs:
    """Makes the lab of the stack's configuration, and returns its outputs.

    Args:
        prefix: of the names of its resources.
        parent: None: the stack.
    """
    config = pulumi.Config("rocelab")
    lab = load_lab(config)
    credentials = load_credentials(lab, config)
    below = pulumi.ResourceOptions(parent=parent)

    fabric = None
    if lab.fabric is not None and credentials.vcenter_password is not None:
        # a third of a second, which labs without vSphere need not pay at every preview
        from components.fabric.fabric import VsphereFabric, VsphereFabricArgs  # noqa: PLC0415

        fabric_args = VsphereFabricArgs(
            lab=lab,
            fabric=lab.fabric,
            password=credentials.vcenter_password,
            machine_keys=credentials.machine_keys,
        )
        fabric = VsphereFabric(f"{prefix}fabric", fabric_args, below)

    switches = None
    if lab.switches:
        switches_args = SwitchesArgs(lab=lab, credentials=credentials)
        switches = Switches(f"{prefix}switches", switches_args, below)

    made_first = [fabric] if fabric else []
    after_fabric = pulumi.ResourceOptions(parent=parent, depends_on=made_first)
    hosts = Hosts(f"{prefix}hosts", HostsArgs(lab=lab, credentials=credentials), after_fabric)

    kubeconfig = credentials.kubeconfig
    if lab.cluster is not None and lab.cluster.bootstrap is not None:
        made_args = MadeClusterArgs(lab=lab, hosts=hosts)
        kubeconfig = MadeCluster(f"{prefix}bootstrap", made_args, below).kubeconfig
    cluster = None
    if lab.cluster is not None and kubeconfig is not None:
        cluster_args = RdmaClusterArgs(lab=lab, kubeconfig=kubeconfig, vf_layout=hosts.vf_layout)
        cluster = RdmaCluster(f"{prefix}cluster", cluster_args, below)

    facts = switches.joined(hosts.facts) if switches else hosts.facts
    proof = ValidationArgs(lab=lab, host_results=hosts.results, host_facts=facts, cluster=cluster)
    validation = Validation(f"{prefix}validation", proof, below)

    outputs: dict[str, Any] = {
        "lab": {"name": lab.name, "kind": lab.kind, "simulated": lab.simulated},
        "ports": output_lines(lab),
        "switches": switches.summary if switches else {},
        "hosts": hosts.outline,
        "topology": hosts.topology,
        "cluster": {"faults": cluster.fault_outline} if cluster else {},
        "attachments": cluster.attachments if cluster else {},
        "kubeconfig": kubeconfig,
        "validation": validation.summary,
    }
    if fabric:
        outputs["fabric"] = fabric.outline
    return outputs


class LabComponent(pulumi.ComponentResource):
    """A whole lab: hosts, switches, cluster and verdict, from the provider's configuration."""

    outputs: Outputs
    OUTPUTS: ClassVar = {
        "lab": "Name and kind of the lab, and whether it is simulated.",
        "fabric": "Hosts and machines of vSphere, with warnings.",
        "ports": "Ports that a firewall between the machines must leave open.",
        "switches": "Status of each switch.",
        "hosts": "Status of each host, with reason and hint where it is not ready.",
        "topology": "Blocks of nodes that share their leaf switches, for schedulers.",
        "cluster": "What keeps jobs from nodes, pools or networks.",
        "attachments": "Network attachments and resources that a pod asks for, by rail.",
        "kubeconfig": "Kubeconfig of the cluster, also of one that rocelab made.",
        "validation": "The verdict: does it work, and how close to the ceiling?",
    }
    OPTIONAL: ClassVar = {"fabric", "kubeconfig"}
    """Outputs that some labs lack."""

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("rocelab:index:Lab", name, None, opts)
        self.outputs = wire(f"{name}-", self)
        self.register_outputs(self.outputs)

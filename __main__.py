"""The wiring diagram of a lab: the fabric, hosts, then the cluster on them, then the proof that it works."""

import pulumi

from components.cluster.cluster import RdmaCluster, RdmaClusterArgs
from components.fabric.fabric import VsphereFabric, VsphereFabricArgs
from components.hosts.hosts import Hosts, HostsArgs
from components.switches.switches import Switches, SwitchesArgs
from components.validation.validation import Validation, ValidationArgs
from stacks.load import load_credentials, load_lab

config = pulumi.Config()
lab = load_lab(config)
credentials = load_credentials(lab, config)

if lab.fabric is not None and credentials.vcenter_password is not None:
    VsphereFabric("fabric", VsphereFabricArgs(lab=lab, fabric=lab.fabric, password=credentials.vcenter_password))
switches = Switches("switches", SwitchesArgs(lab=lab, credentials=credentials)) if lab.switches else None
hosts = Hosts("hosts", HostsArgs(lab=lab, credentials=credentials))
cluster = None
if lab.cluster is not None and credentials.kubeconfig is not None:
    cluster = RdmaCluster(
        "cluster",
        RdmaClusterArgs(lab=lab, kubeconfig=credentials.kubeconfig, vf_layout=hosts.vf_layout),
    )
validation = Validation(
    "validation",
    ValidationArgs(
        lab=lab,
        host_results=hosts.results,
        host_facts=switches.joined(hosts.facts) if switches else hosts.facts,
        cluster=cluster,
    ),
)

pulumi.export("lab", {"name": lab.name, "kind": lab.kind, "simulated": lab.simulated})
pulumi.export("switches", switches.summary if switches else {})
pulumi.export("hosts", hosts.results)
pulumi.export("cluster", {"faults": cluster.faults} if cluster else {})
pulumi.export("attachments", cluster.attachments if cluster else {})
pulumi.export("kubeconfig", credentials.kubeconfig)
pulumi.export("validation", validation.summary)

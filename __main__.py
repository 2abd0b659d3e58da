"""The wiring diagram of a lab: hosts, then the cluster on them, then the proof that it works."""

import pulumi

from components.cluster.cluster import RdmaCluster, RdmaClusterArgs
from components.hosts.hosts import Hosts, HostsArgs
from components.validation.validation import Validation, ValidationArgs
from stacks.load import load_credentials, load_lab

config = pulumi.Config()
lab = load_lab(config)
credentials = load_credentials(lab, config)

hosts = Hosts("hosts", HostsArgs(lab=lab, credentials=credentials))
cluster = None
if lab.cluster is not None and credentials.kubeconfig is not None:
    cluster = RdmaCluster(
        "cluster",
        RdmaClusterArgs(lab=lab, kubeconfig=credentials.kubeconfig, vf_layout=hosts.vf_layout),
    )
validation = Validation(
    "validation",
    ValidationArgs(lab=lab, host_results=hosts.results, host_facts=hosts.facts, cluster=cluster),
)

pulumi.export("lab", {"name": lab.name, "kind": lab.kind, "simulated": lab.simulated})
pulumi.export("hosts", hosts.results)
pulumi.export("attachments", cluster.attachments if cluster else {})
pulumi.export("kubeconfig", credentials.kubeconfig)
pulumi.export("validation", validation.summary)

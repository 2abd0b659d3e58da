"""The wiring diagram of a lab: the fabric, hosts, then the cluster on them, then the proof that it works."""

import pulumi

from components.cluster.cluster import MadeCluster, MadeClusterArgs, RdmaCluster, RdmaClusterArgs
from components.hosts.hosts import Hosts, HostsArgs
from components.ports.matrix import output_lines
from components.switches.switches import Switches, SwitchesArgs
from components.validation.validation import Validation, ValidationArgs
from stacks.load import load_credentials, load_lab

config = pulumi.Config()
lab = load_lab(config)
credentials = load_credentials(lab, config)

fabric = None
if lab.fabric is not None and credentials.vcenter_password is not None:
    # a third of a second, which labs without vSphere need not pay at every preview
    from components.fabric.fabric import VsphereFabric, VsphereFabricArgs

    asked = VsphereFabricArgs(
        lab=lab,
        fabric=lab.fabric,
        password=credentials.vcenter_password,
        machine_keys=credentials.machine_keys,
    )
    fabric = VsphereFabric("fabric", asked)
    pulumi.export("fabric", fabric.outline)
switches = Switches("switches", SwitchesArgs(lab=lab, credentials=credentials)) if lab.switches else None
hosts = Hosts(
    "hosts", HostsArgs(lab=lab, credentials=credentials), pulumi.ResourceOptions(depends_on=[fabric] if fabric else [])
)
kubeconfig = credentials.kubeconfig
if lab.cluster is not None and lab.cluster.bootstrap is not None:
    kubeconfig = MadeCluster("bootstrap", MadeClusterArgs(lab=lab, hosts=hosts)).kubeconfig
cluster = None
if lab.cluster is not None and kubeconfig is not None:
    cluster = RdmaCluster(
        "cluster",
        RdmaClusterArgs(lab=lab, kubeconfig=kubeconfig, vf_layout=hosts.vf_layout),
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
pulumi.export("ports", output_lines(lab))
pulumi.export("switches", switches.summary if switches else {})
pulumi.export("hosts", hosts.outline)
pulumi.export("cluster", {"faults": cluster.fault_outline} if cluster else {})
pulumi.export("attachments", cluster.attachments if cluster else {})
pulumi.export("kubeconfig", kubeconfig)
pulumi.export("validation", validation.summary)

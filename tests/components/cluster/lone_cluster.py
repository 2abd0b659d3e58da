"""A Pulumi program of the cluster layer alone: the lab file and the VF layout come from the environment.

`LONE_ROLL_OUT` shortens the wait for pods of an `up` whose pods cannot come.
"""

import os
from pathlib import Path

import pulumi

from components.cluster import cluster as layer
from components.cluster.cluster import RdmaCluster, RdmaClusterArgs
from stacks.read import read_stack_file

if wait := os.environ.get("LONE_ROLL_OUT"):
    layer.ROLL_OUT = pulumi.CustomTimeouts(create=wait, update=wait)

cluster = RdmaCluster(
    "cluster",
    RdmaClusterArgs(
        lab=read_stack_file(Path(os.environ["LONE_LAB"])),
        kubeconfig=pulumi.Output.secret(Path(".sim/kubeconfig").read_text()),
        vf_layout=os.environ["LONE_LAYOUT"],
    ),
)
pulumi.export("attachments", cluster.attachments)
pulumi.export("ready", cluster.ready)
pulumi.export("faults", cluster.faults)

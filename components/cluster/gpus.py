"""The source of `nvidia.com/gpu`: NVIDIA's device plugin as a DaemonSet, or the GPU operator by its
ClusterPolicy.
"""

from components.cluster.manifests import Manifest, Program, in_parts, render, render_program
from components.cluster.policies import driver_by_operator
from components.cluster.rails import present_nodes
from stacks.cluster import Cluster
from stacks.lab import Lab

RUNTIME_CLASS = "nvidia"
OWNER_S_FIELDS = ("spec.dcgm", "spec.dcgmExporter")
"""What rocelab writes once, because the definition requires it, and then leaves to the owner."""


def render_gpu_device_plugin(lab: Lab, cluster: Cluster) -> Program:
    """The plain plugin, on the lab's nodes with GPUs, driver and container toolkit."""
    is_default = lab.gpu is not None and lab.gpu.toolkit.default_runtime
    runtime_class = "" if is_default else RUNTIME_CLASS
    return render_program(
        "nvidia_device_plugin/daemonset",
        namespace=cluster.system_namespace,
        image=cluster.bill.gpu_device_plugin,
        nodes=[node.name for node in present_nodes(lab) if node.gpus],
        runtime_class=runtime_class,
    )


def render_gpu_policy(lab: Lab, cluster: Cluster) -> Manifest:
    """What the GPU operator runs. Driver and toolkit only if the lab leaves them to it (`gpu`)."""
    bill, registry, gpu = cluster.bill, cluster.registry, lab.gpu
    driver: Manifest = {"enabled": False}
    if gpu is not None and gpu.driver.source == "operator":
        driver = {"enabled": True, **in_parts(bill.gpu_driver, registry)}
        if gpu.gpudirect == "peermem":
            # the old way of GPUDirect: a module between both drivers; dma-buf needs none
            driver["rdma"] = {"enabled": True, "useHostMofed": not driver_by_operator(lab)}
        driver["manager"] = in_parts(bill.gpu_driver_manager, registry)
    toolkit: Manifest = {"enabled": False}
    if gpu is not None and gpu.toolkit.source == "operator":
        toolkit = {"enabled": True, **in_parts(bill.container_toolkit, registry)}
    return render(
        "cluster/manifests/gpu_operator/cluster_policy",
        runtime_class=RUNTIME_CLASS,
        driver=driver,
        toolkit=toolkit,
        device_plugin={"enabled": True, **in_parts(bill.gpu_device_plugin, registry)},
        validator=in_parts(bill.gpu_operator, registry),
    )

"""The source of `nvidia.com/gpu`: NVIDIA's device plugin as a DaemonSet, or the GPU operator by its ClusterPolicy."""

from pydantic import JsonValue

from components.cluster.manifests import (
    TOLERATE_ALL,
    Manifest,
    Program,
    daemon_set,
    host_folder,
    in_parts,
    metadata,
    mount,
    resources,
)
from components.cluster.policies import driver_by_operator
from components.cluster.rails import present_nodes
from stacks.cluster import Cluster
from stacks.lab import Lab

APP = "nvidia-device-plugin"
RUNTIME_CLASS = "nvidia"
POLICY = "cluster-policy"
"""The name that the operator's chart uses, so that two policies collide instead of one being ignored."""


OWNER_S_FIELDS = ("spec.dcgm", "spec.dcgmExporter")
"""What rocelab writes once, because the policy's definition requires it, and then leaves as the owner sets it."""


def render_gpu_device_plugin(lab: Lab, cluster: Cluster) -> Program:
    """The plain plugin, on the lab's nodes with GPUs, driver and container toolkit.

    On a node without the toolkit, the pod would never start, and the roll-out would never end.
    """
    hosts: list[JsonValue] = [node.name for node in present_nodes(lab) if node.gpus]
    with_gpus: Manifest = {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
    container: Manifest = {
        "name": "nvidia-device-plugin-ctr",
        "image": cluster.bill.gpu_device_plugin,
        # if no GPU is found yet, the node's resources show it, and the gate reports it
        "env": [{"name": "FAIL_ON_INIT_ERROR", "value": "false"}],
        "resources": resources("50m", "64Mi", "256Mi"),
        "securityContext": {"privileged": True},
        "volumeMounts": [mount("device-plugins", "/var/lib/kubelet/device-plugins")],
    }
    pod: Manifest = {
        # if the toolkit is not the default runtime, a pod selects it by this class
        **({} if _toolkit_is_default(lab) else {"runtimeClassName": RUNTIME_CLASS}),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [with_gpus]}]
                }
            }
        },
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [host_folder("device-plugins", "/var/lib/kubelet/device-plugins")],
    }
    needs = {} if _toolkit_is_default(lab) else {"runtime-class": _runtime_class()}
    name = "nvidia-device-plugin-daemonset"
    return Program(needs=needs, runs={"daemonset": daemon_set(name, APP, cluster.system_namespace, pod)})


def render_gpu_policy(lab: Lab, cluster: Cluster) -> Manifest:
    """What the GPU operator runs. Driver and toolkit only if the lab leaves them to it (`gpu`).

    It lists images, because the operator has no defaults outside its chart.
    """
    bill, registry = cluster.bill, cluster.registry
    driver = lab.gpu is not None and lab.gpu.driver.source == "operator"
    toolkit = lab.gpu is not None and lab.gpu.toolkit.source == "operator"
    peermem = lab.gpu is not None and lab.gpu.gpudirect == "peermem"
    off: Manifest = {"enabled": False}
    spec: Manifest = {
        "operator": {"runtimeClass": RUNTIME_CLASS},
        "daemonsets": {"tolerations": TOLERATE_ALL, "priorityClassName": "system-node-critical"},
        "driver": {
            "enabled": driver,
            **(
                {
                    **in_parts(bill.gpu_driver, registry),
                    # the old way of GPUDirect: a module between both drivers; dma-buf needs none
                    **({"rdma": {"enabled": True, "useHostMofed": not driver_by_operator(lab)}} if peermem else {}),
                    "manager": in_parts(bill.gpu_driver_manager, registry),
                }
                if driver
                else {}
            ),
        },
        "toolkit": {"enabled": toolkit, **(in_parts(bill.container_toolkit, registry) if toolkit else {})},
        "devicePlugin": {"enabled": True, **in_parts(bill.gpu_device_plugin, registry)},
        "validator": in_parts(bill.gpu_operator, registry),
        "gfd": {"enabled": True, **in_parts(bill.gpu_device_plugin, registry)},
        # without an image of its own, an exporter that is on keeps the policy from ever being ready
        "dcgm": off,
        "dcgmExporter": off,
        # the lab needs none of these, and each would be another image to mirror
        "nodeStatusExporter": off,
        "migManager": off,
        "vgpuDeviceManager": off,
        "sandboxDevicePlugin": off,
        "vfioManager": off,
    }
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": metadata(POLICY, "gpu-policy"),
        "spec": spec,
    }


def _toolkit_is_default(lab: Lab) -> bool:
    return lab.gpu is not None and lab.gpu.toolkit.default_runtime


def _runtime_class() -> Manifest:
    return {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": metadata(RUNTIME_CLASS, APP),
        "handler": RUNTIME_CLASS,
    }

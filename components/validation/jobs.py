"""The NCCL all-reduce of seed A as an MPIJob of `kubeflow.org/v2beta1`: rendered here, created by the runner."""

from pydantic import JsonValue

from components.validation.records import Frozen

GROUP, VERSION, PLURAL = "kubeflow.org", "v2beta1", "mpijobs"
SSH_PORT = 22
RUN_LABEL, LAB_LABEL = "rocelab.dev/run", "rocelab.dev/lab"


class NcclPlan(Frozen):
    """What the job needs to know. Annotation and limits come from the same rails, so they cannot disagree."""

    namespace: str
    image: str
    nodes: tuple[str, ...]
    """Kubernetes nodes, one worker on each."""
    gpus_per_node: int
    rails: tuple[str, ...]
    networks: tuple[str, ...]
    """NetworkAttachmentDefinitions as `namespace/name`, one a rail."""
    resources: tuple[str, ...]
    """Device-plugin resources, one a rail, in the same order."""
    mellanox: bool
    """Whether all rails are mlx5 NICs; then NCCL is kept off every other RDMA device."""
    smallest_bytes: int
    largest_bytes: int
    timeout_s: int


def job_name(run_id: str) -> str:
    """The job's name; with `-worker-NNNN` behind it still a DNS label."""
    return f"bench-{run_id}".lower()


def all_reduce_job(plan: NcclPlan, lab: str, run_id: str) -> dict[str, JsonValue]:
    """The job of one run."""
    labels: dict[str, JsonValue] = {LAB_LABEL: lab, RUN_LABEL: run_id}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "MPIJob",
        "metadata": {"name": job_name(run_id), "namespace": plan.namespace, "labels": labels},
        "spec": {
            "slotsPerWorker": plan.gpus_per_node,
            # mpirun before the workers' sshd answers fails by itself: the first try of many jobs in the field
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {
                # the default, None, leaves the workers holding GPUs and VFs for ever; the launcher's log must stay
                "cleanPodPolicy": "Running",
                "backoffLimit": 0,
                "activeDeadlineSeconds": plan.timeout_s,
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(plan, labels)},
                "Worker": {
                    "replicas": len(plan.nodes),
                    "restartPolicy": "Never",
                    "template": _worker(plan, labels),
                },
            },
        },
    }


def _launcher(plan: NcclPlan, labels: dict[str, JsonValue]) -> JsonValue:
    """No GPU and no rail: it only starts the ranks and shows what rank 0 prints."""
    container: JsonValue = {
        "name": "launcher",
        "image": plan.image,
        "command": ["mpirun"],
        "args": [*_mpirun(plan), *_test(plan)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
    }
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


def _mpirun(plan: NcclPlan) -> list[str]:
    variables = {
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,NET",
        # a ring crosses each NIC once, which is what the ceiling assumes; IB fails loudly instead of using sockets
        "NCCL_ALGO": "Ring",
        "NCCL_NET": "IB",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": "PXB",  # seed A's 2
        "NCCL_SOCKET_IFNAME": "eth0",
        **({"NCCL_IB_HCA": "mlx5"} if plan.mellanox else {}),
    }
    # sshd sessions do not inherit the pod's environment, hence -x; Open MPI itself stays off the rails
    return [
        *("--allow-run-as-root", "-np", str(len(plan.nodes) * plan.gpus_per_node), "--bind-to", "none"),
        *("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0"),
        *(word for name, value in variables.items() for word in ("-x", f"{name}={value}")),
        *("-x", "LD_LIBRARY_PATH", "-x", "PATH"),
    ]


def _test(plan: NcclPlan) -> list[str]:
    sizes = ["-b", str(plan.smallest_bytes), "-e", str(plan.largest_bytes), "-f", "2"]
    return ["all_reduce_perf", *sizes, "-g", "1"]


def _worker(plan: NcclPlan, labels: dict[str, JsonValue]) -> JsonValue:
    """Without a command the operator starts sshd; each worker has one VF of every rail and all GPUs of its node."""
    limits: dict[str, JsonValue] = {
        **dict.fromkeys(plan.resources, "1"),
        "nvidia.com/gpu": str(plan.gpus_per_node),
    }
    container: JsonValue = {
        "name": "worker",
        "image": plan.image,
        # locked memory for queue pairs; nothing of it needs a privileged container
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "resources": {"limits": limits},
        "readinessProbe": {"tcpSocket": {"port": SSH_PORT}, "periodSeconds": 2},
        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108  # in the pod, not here
    }
    role: JsonValue = {"matchLabels": {**labels, "training.kubeflow.org/job-role": "worker"}}
    on_our_nodes: JsonValue = {
        "matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(plan.nodes)}]
    }
    return {
        "metadata": {"labels": labels, "annotations": {"k8s.v1.cni.cncf.io/networks": ",".join(plan.networks)}},
        "spec": {
            "containers": [container],
            "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [on_our_nodes]}
                },
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": role, "topologyKey": "kubernetes.io/hostname"}
                    ]
                },
            },
        },
    }

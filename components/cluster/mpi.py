"""The MPI operator, which runs MPIJobs (kubeflow.org/v2beta1)."""

from components.cluster.manifests import (
    Manifest,
    Program,
    account,
    cluster_role,
    deployment,
    granted,
    ready_when,
    resources,
    role,
    rule,
    unprivileged,
)
from stacks.cluster import Cluster

APP = "mpi-operator"
NAMESPACE = "mpi-operator"
"""Upstream's namespace, so that a second operator collides instead of running in parallel."""
HEALTH_PORT = 8080


def render_mpi_operator(cluster: Cluster) -> Program:
    """The operator with the rights that its code uses.

    Unlike upstream: no pods/exec, because workers are reached by SSH; no gang scheduler; a lease in one namespace; and
    jobs/status, which suspending a job updates.
    """
    who = account("mpi-operator", APP, NAMESPACE)
    rights = cluster_role(
        "mpi-operator",
        APP,
        [
            # the SSH key and the host file of each job
            rule("", ["configmaps", "secrets", "services"], ["create", "list", "watch", "update"]),
            rule("", ["pods"], ["create", "get", "list", "watch", "delete", "update", "patch"]),
            rule("", ["events"], ["create", "patch"]),
            rule("batch", ["jobs"], ["create", "list", "watch", "update"]),
            rule("batch", ["jobs/status"], ["update"]),
            rule("scheduling.k8s.io", ["priorityclasses"], ["list", "watch"]),
            rule("kubeflow.org", ["mpijobs"], ["get", "list", "watch", "update", "patch"]),
            rule("kubeflow.org", ["mpijobs/finalizers", "mpijobs/status"], ["update", "patch"]),
        ],
    )
    leads = role(
        "mpi-operator",
        APP,
        NAMESPACE,
        [rule("coordination.k8s.io", ["leases"], ["get", "create", "update"])],
    )
    return Program(
        needs=granted(who, rights, leads),
        runs={"deployment": deployment("mpi-operator", APP, NAMESPACE, _pod(cluster))},
    )


def _pod(cluster: Cluster) -> Manifest:
    container: Manifest = {
        "name": "mpi-operator",
        "image": cluster.bill.mpi_operator,
        "args": ["-alsologtostderr", f"--lock-namespace={NAMESPACE}"],
        "readinessProbe": ready_when("/healthz", HEALTH_PORT),
        "resources": resources("50m", "64Mi", "512Mi"),
        "securityContext": unprivileged(),
    }
    return {"serviceAccountName": "mpi-operator", "containers": [container]}

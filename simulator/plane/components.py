"""Command lines of the cluster's processes. Pure, so that tests see each flag."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulator.plane.kubelets import api_identity
from simulator.plane.layout import Layout
from stacks.lab import Lab

POD_SUBNET = "10.244.0.0/16"
SERVICE_SUBNET = "10.96.0.0/16"
"""kubeadm's usual value, for labs without a cluster section."""


@dataclass(frozen=True)
class Component:
    """One process: name, command line, environment and port, if any."""

    name: str
    command: tuple[str, ...]
    port: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)


def etcd(layout: Layout) -> Component:
    """The database."""
    flags = (f"--data-dir={layout.folder / 'etcd'}", f"--listen={layout.etcd_url}")
    return _component(layout, "etcd", ("plane", "etcd", *flags), layout.etcd_port)


def apiserver(layout: Layout, lab: Lab) -> Component:
    """The API server, with RBAC and all default admission."""
    services = str(lab.cluster.service_subnet) if lab.cluster else SERVICE_SUBNET
    serving = api_identity(lab, layout)
    flags = (
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={layout.address}",
        f"--secure-port={layout.api_port}",
        f"--advertise-address={layout.address}",
        # the service `kubernetes`, which no pod here calls, cannot have a loopback address as endpoint
        "--endpoint-reconciler-type=none",
        f"--service-cluster-ip-range={services}",
        # restricts each kubelet to its own node and pods
        *(
            ("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction")
            if lab.has_real_pods
            else ("--authorization-mode=RBAC",)
        ),
        "--anonymous-auth=false",
        # node agents such as Multus run privileged
        "--allow-privileged=true",
        f"--client-ca-file={layout.pki('ca.crt')}",
        f"--tls-cert-file={layout.pki(f'{serving}.crt')}",
        f"--tls-private-key-file={layout.pki(f'{serving}.key')}",
        f"--service-account-key-file={layout.pki('service-accounts.key')}",
        f"--service-account-signing-key-file={layout.pki('service-accounts.key')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--kubelet-certificate-authority={layout.pki('ca.crt')}",
        f"--kubelet-client-certificate={layout.pki('apiserver-to-kubelet.crt')}",
        f"--kubelet-client-key={layout.pki('apiserver-to-kubelet.key')}",
        # kubelets, fake or real, answer at the ExternalIP; the lab file sets a node's InternalIP
        "--kubelet-preferred-address-types=ExternalIP",
        "--profiling=false",
    )
    return _component(layout, "kube-apiserver", ("plane", "apiserver", *flags), layout.api_port)


def controller_manager(layout: Layout) -> Component:
    """All default controllers, each with its own service account, as with kubeadm."""
    flags = (
        f"--kubeconfig={layout.folder / 'controller-manager.kubeconfig'}",
        "--secure-port=0",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        # with the default limits, a new cluster waits 5 s for its first service accounts
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        f"--root-ca-file={layout.pki('ca.crt')}",
        f"--service-account-private-key-file={layout.pki('service-accounts.key')}",
        "--profiling=false",
    )
    return _component(layout, "kube-controller-manager", ("plane", "controller-manager", *flags))


def scheduler(layout: Layout) -> Component:
    """The scheduler."""
    flags = (
        f"--kubeconfig={layout.folder / 'scheduler.kubeconfig'}",
        "--secure-port=0",
        "--leader-elect=false",
        "--profiling=false",
    )
    return _component(layout, "kube-scheduler", ("plane", "scheduler", *flags))


def kwok(layout: Layout, lab: Lab) -> Component:
    """The fake kubelets of all nodes."""
    pods = str(lab.cluster.pod_subnet) if lab.cluster else POD_SUBNET
    flags = (
        f"--kubeconfig={layout.folder / 'kwok.kubeconfig'}",
        "--manage-all-nodes=true",
        f"--cidr={pods}",
        f"--node-ip={layout.address}",
        f"--node-port={layout.kubelet_port}",
        f"--server-address={layout.address}:{layout.kubelet_port}",
        f"--tls-cert-file={layout.pki('kubelet.crt')}",
        f"--tls-private-key-file={layout.pki('kubelet.key')}",
        "--enable-crds=Stage,Logs,ClusterLogs",
    )
    return _component(layout, "kwok", ("kwok", *flags), layout.kubelet_port)


def _component(layout: Layout, name: str, command: tuple[str, ...], port: int | None = None) -> Component:
    program = (layout.binaries / command[0]).resolve()
    return Component(name, (str(program), *command[1:]), port, environment(layout))


def environment(layout: Layout) -> dict[str, str]:
    """The whole environment of a process: no proxy, KUBECONFIG or ~/.kwok of yours applies."""
    return {
        "HOME": str(layout.folder),
        "PATH": "/usr/bin:/bin",
        # returns memory early: five processes share a laptop with two virtual machines
        "GOGC": "50",
    }

"""kubeadm's configuration as text, from the lab and from secrets that exist for one run only.

API kubeadm.k8s.io/v1beta4. Every address is a management address: API server, etcd and kubelet must
neither listen on a rail nor be reached over one.
"""

from collections.abc import Sequence
from dataclasses import field

import yaml
from pydantic import JsonValue

from stacks.bootstrap import Bootstrap
from stacks.cluster import Cluster
from stacks.frozen import frozen
from stacks.lab import Lab
from stacks.nodes import Node
from stacks.safe_yaml import DUMPER

API = "kubeadm.k8s.io/v1beta4"
API_PORT = 6443
TOKEN_TTL = "1h0m0s"  # noqa: S105  # a time, no secret
GROUP = "system:bootstrappers:kubeadm:default-node-token"
FIRST_CALL = "4m0s"
"""How long kubeadm repeats a call that the API server does not answer yet. Its default is one
minute, which a busy disk under etcd exceeds; the control plane itself may take the four of
`controlPlaneComponentHealthCheck`."""

Document = dict[str, JsonValue]


@frozen
class Invitation:
    """The secrets of a join. They are created when hosts join, expire within an hour, and are in no
    file here.
    """

    token: str = field(repr=False)
    certificate_key: str = field(repr=False)
    """Decrypts the control plane's certificates for joining control planes."""

    @property
    def token_id(self) -> str:
        """The token's name, which is no secret."""
        return self.token.partition(".")[0]


def init_config(lab: Lab, node: Node, invitation: Invitation) -> str:
    """The configuration of the first control plane, also used to invite nodes."""
    cluster, bootstrap = sections(lab)
    init: Document = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        "bootstrapTokens": [
            {
                "token": invitation.token,
                "ttl": TOKEN_TTL,
                "usages": ["signing", "authentication"],
                "groups": [GROUP],
                "description": f"rocelab {lab.name}: for joins of one run",
            }
        ],
        "certificateKey": invitation.certificate_key,
        "localAPIEndpoint": _local_endpoint(node),
        "nodeRegistration": _registration(bootstrap, node),
        "timeouts": {"kubernetesAPICall": FIRST_CALL},
    }
    return _text(
        [init, _cluster_configuration(lab, cluster, bootstrap), _kubelet(bootstrap), _kube_proxy()]
    )


def join_config(lab: Lab, node: Node, invitation: Invitation, ca_hashes: Sequence[str]) -> str:
    """For every other node. The cluster's certificate is pinned, so no other API server is
    trusted.
    """
    _, bootstrap = sections(lab)
    join: Document = {
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": invitation.token,
                "apiServerEndpoint": api_endpoint(lab),
                "caCertHashes": list(ca_hashes),
            }
        },
        "nodeRegistration": _registration(bootstrap, node),
        "timeouts": {"kubernetesAPICall": FIRST_CALL},
    }
    if node.role == "control_plane":
        join["controlPlane"] = {
            "localAPIEndpoint": _local_endpoint(node),
            "certificateKey": invitation.certificate_key,
        }
    return _text([join])


def api_endpoint(lab: Lab) -> str:
    """Address of the API: the one in the lab file, or the only control plane."""
    _, bootstrap = sections(lab)
    return bootstrap.control_plane_endpoint or f"{control_planes(lab)[0].address}:{API_PORT}"


def control_planes(lab: Lab) -> list[Node]:
    """In the order of the lab file; the first creates the cluster."""
    return [node for node in lab.nodes if node.role == "control_plane" and node.state != "absent"]


def sections(lab: Lab) -> tuple[Cluster, Bootstrap]:
    """The sections of a cluster that rocelab creates.

    Raises:
        ValueError: when the lab has none, a bug of the caller.
    """
    if lab.cluster is None or lab.cluster.bootstrap is None:
        raise ValueError(f"lab {lab.name} has no cluster.bootstrap")
    return lab.cluster, lab.cluster.bootstrap


def _local_endpoint(node: Node) -> Document:
    return {"advertiseAddress": str(node.address), "bindPort": API_PORT}


def _registration(bootstrap: Bootstrap, node: Node) -> Document:
    # the host step `kubelet` sets the address in the kubelet's arguments file, and detects drift
    # there
    return {"name": node.name, "criSocket": bootstrap.cri_socket, "imagePullPolicy": "IfNotPresent"}


def _cluster_configuration(lab: Lab, cluster: Cluster, bootstrap: Bootstrap) -> Document:
    return {
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": lab.name,
        "kubernetesVersion": f"v{bootstrap.version}",
        "controlPlaneEndpoint": api_endpoint(lab),
        "networking": {
            "podSubnet": str(cluster.pod_subnet),
            "serviceSubnet": str(cluster.service_subnet),
        },
        **({"imageRepository": bootstrap.image_repository} if bootstrap.image_repository else {}),
    }


def _kubelet(bootstrap: Bootstrap) -> Document:
    """The same for all nodes: kubeadm stores it in the cluster and gives it to each joining
    node.
    """
    pinned: Document = {"cpuManagerPolicy": "static", "reservedSystemCPUs": bootstrap.reserved_cpus}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "topologyManagerPolicy": bootstrap.topology_manager,
        **(pinned if bootstrap.reserved_cpus else {}),
    }


def _kube_proxy() -> Document:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        # NodePorts on the node's management address only; by default every rail's address would
        # answer too
        "nodePortAddresses": ["primary"],
    }


def _text(documents: list[Document]) -> str:
    return str(
        yaml.dump_all(documents, Dumper=DUMPER, sort_keys=False, explicit_start=True, width=120)
    )

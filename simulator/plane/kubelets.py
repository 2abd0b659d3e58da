"""The files of a real kubelet: settings, identity, its share of the pod network."""

import io
import json
import tarfile
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from simulator.nodes.machine import API_DOOR, KUBELET_PORT, POD_NIC
from simulator.part import SimulatorError
from simulator.plane import kubeconfig
from simulator.plane.layout import Layout
from stacks.cluster import Cluster
from stacks.lab import Lab
from stacks.nodes import Node

_PKI = "/etc/kubernetes/pki"
_PER_NODE = 24
"""Prefix length of a node's share of the pod network; the last share is the network between the nodes."""


@dataclass(frozen=True)
class PodNetwork:
    """Addresses of the pod network. Nodes have plain routes between their NICs and run no agent."""

    cluster: Cluster

    def share(self, node: Node) -> IPv4Network:
        """Addresses of the node's pods, by the machine's number.

        Raises:
            SimulatorError: if the lab's pod network has too few.
        """
        return self._shares()[_number(node)]

    def address(self, node: Node) -> IPv4Address:
        """The node's own address in the network between the nodes."""
        return self._between[_number(node)]

    @property
    def api_service(self) -> IPv4Address:
        """Address of the service `kubernetes`: the first service address."""
        return self.cluster.service_subnet[1]

    @property
    def dns_service(self) -> IPv4Address:
        """Where pods ask for names: the tenth service address, as with kubeadm."""
        return self.cluster.service_subnet[10]

    @property
    def _between(self) -> IPv4Network:
        return self._shares()[-1]

    def _shares(self) -> list[IPv4Network]:
        subnet = self.cluster.pod_subnet
        if subnet.prefixlen > 16:
            raise SimulatorError(f"cluster.pod_subnet: {subnet} is too small for simulated nodes; use a /16 or larger")
        return list(subnet.subnets(new_prefix=_PER_NODE))

    def commands(self, node: Node, others: list[Node]) -> str:
        """The node's links and routes, as input of `ip -batch`."""
        lines = [
            f"link set {POD_NIC} up",
            f"address add {self.address(node)}/{_PER_NODE} dev {POD_NIC}",
            *(f"route add {self.share(other)} via {self.address(other)}" for other in others),
            "link add services type dummy",
            f"address add {self.api_service}/32 dev services",
            f"address add {self.dns_service}/32 dev services",
            "link set services up",
        ]
        return "".join(f"{line}\n" for line in lines)

    def plugin(self, node: Node) -> str:
        """The configuration of the pods' first interface."""
        share = self.share(node)
        ipam = {"type": "host-local", "ranges": [[{"subnet": str(share)}]], "routes": [{"dst": "0.0.0.0/0"}]}
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
        return json.dumps({"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]}, indent=2) + "\n"


def api_identity(lab: Lab, layout: Layout) -> str:
    """Name of the API server's certificate. Real pods reach the server at more addresses."""
    return f"apiserver-{'-'.join(_api_addresses(lab, layout))}" if lab.has_real_pods else "apiserver"


def make_api_identity(lab: Lab, layout: Layout) -> None:
    """Makes the certificate that real pods need, unless it exists."""
    from simulator.plane import pki  # noqa: PLC0415  # takes a fifth of a second, and other labs need it once

    pki.issue_further(layout.folder / "pki", api_identity(lab, layout), _api_addresses(lab, layout))


def _api_addresses(lab: Lab, layout: Layout) -> list[str]:
    """Addresses of the API server: on this machine, on nodes, and in pods."""
    return [layout.address, API_DOOR, str(PodNetwork(section(lab)).api_service)]


def section(lab: Lab) -> Cluster:
    """The lab's cluster, which a lab with real kubelets must have."""
    if lab.cluster is None:
        raise SimulatorError(f"lab {lab.name} has real kubelets and no section cluster")
    return lab.cluster


def archive(lab: Lab, layout: Layout, address: str) -> bytes:
    """The archive that the node at this address unpacks at its root. Equal content has equal bytes.

    Raises:
        SimulatorError: if the lab's pod network has too few addresses.
    """
    node = next(node for node in lab.nodes if str(node.address) == address)
    others = [other for other in lab.active_nodes if other.name != node.name]
    from simulator.plane import pki  # noqa: PLC0415  # as above

    network = PodNetwork(section(lab))
    pki.issue(layout.folder / "pki", layout.address)
    serving = [str(node.address), str(network.address(node))]
    client, server = pki.issue_for_kubelet(layout.folder / "pki", node.name, serving)
    pki.issue_client(layout.folder / "pki", pki.DNS)
    dns = str(network.dns_service)
    files = {
        "etc/kubernetes/node": f"NODE_NAME={node.name}\nDNS_ADDRESS={dns}\nAPI_SERVER={API_DOOR}:6443\n",
        "etc/kubernetes/kubelet.yaml": json.dumps(_settings(dns), indent=2) + "\n",
        "etc/kubernetes/kubelet.conf": kubeconfig.render(layout, client, server=f"https://{API_DOOR}:6443"),
        "etc/kubernetes/network": network.commands(node, others),
        "etc/cni/net.d/10-lab.conflist": network.plugin(node),
        f"{_PKI[1:]}/ca.crt": layout.pki("ca.crt").read_text(),
        f"{_PKI[1:]}/kubelet.crt": layout.pki(f"{server}.crt").read_text(),
        f"{_PKI[1:]}/kubelet.key": layout.pki(f"{server}.key").read_text(),
        f"{_PKI[1:]}/dns.crt": layout.pki("dns.crt").read_text(),
        f"{_PKI[1:]}/dns.key": layout.pki("dns.key").read_text(),
    }
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(text.encode()), 0o600
            tar.addfile(info, io.BytesIO(text.encode()))
    return content.getvalue()


def _settings(dns: str) -> dict[str, object]:
    """As kubeadm sets a kubelet up, but for what a simulated node has not: registries, a resolver, time to spare."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{_PKI}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{_PKI}/kubelet.crt",
        "tlsPrivateKeyFile": f"{_PKI}/kubelet.key",
        "port": KUBELET_PORT,
        "cgroupDriver": "systemd",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        # the simulator makes the Node objects, with the addresses at which the API server reaches the kubelets
        "registerNode": False,
        "resolvConf": "",
        "clusterDNS": [dns],
        "clusterDomain": "cluster.local",
        # images cannot be pulled again
        "imageGCHighThresholdPercent": 100,
        # what takes longer is torn down and begun again: on a busy machine for ever, with the 2 minutes of the default
        "runtimeRequestTimeout": "15m",
        # evicts nothing: otherwise it asks every ten seconds what each container uses, which keeps the node busy
        "evictionHard": {"memory.available": "0%"},
        "localStorageCapacityIsolation": False,
    }


def _number(node: Node) -> int:
    return int(str(node.address).rpartition(".")[2])

"""NetworkAttachmentDefinitions: what happens when a pod asks for a rail."""

import json

from pydantic import JsonValue

from components.cluster.ipam import IPS, address_source
from components.cluster.manifests import Manifest, render
from components.cluster.rails import interfaces, pod_rails, pod_side
from stacks.cluster import Cluster
from stacks.delivery import SharedRdma
from stacks.lab import Lab
from stacks.rails import Rail

API_VERSION = "k8s.cni.cncf.io/v1"


def render_network(lab: Lab, cluster: Cluster, rail: Rail, namespace: str) -> Manifest:
    """The network of a rail in one namespace."""
    shared = isinstance(cluster.delivery, SharedRdma)
    if shared:
        first = _macvlan(lab, cluster, rail)
    else:
        first = _vf(cluster, rail)
    chain: Manifest = {
        "cniVersion": "1.0.0",
        "name": rail.network_name,
        "plugins": [first, *meta_plugins(lab, cluster, rail)],
    }
    # a macvlan is created, not taken from a pool of devices
    resource = "" if shared else rail.resource
    return render(
        "cluster/manifests/rails/network",
        network=rail.network_name,
        namespace=namespace,
        resource=resource,
        chain=json.dumps(chain, indent=2) + "\n",
    )


def meta_plugins(lab: Lab, cluster: Cluster, rail: Rail) -> list[JsonValue]:
    """The CNI plugins that run after the one that brings the interface, in their order."""
    plugins: list[JsonValue] = []
    if isinstance(cluster.delivery, SharedRdma):
        if len(pod_rails(lab)) > 1:
            # untagged rails may share a switch: without this a pod answers ARP for one rail's
            # address on another
            sysctl = {
                "net.ipv4.conf.IFNAME.arp_ignore": "1",
                "net.ipv4.conf.IFNAME.arp_announce": "2",
            }
            plugins.append({"type": "tuning", "sysctl": {**sysctl}})
    else:
        # the SR-IOV plugin has no MTU of its own, and a VF comes with the driver's default
        plugins.append({"type": "tuning", "mtu": rail.mtu_bytes})
    if rail.pod and rail.pod.gateway is not None:
        # Source-based routing: what the pod's own address sends beyond the subnet takes the rail's
        # router. The plugin moves all routes of the interface out of the main table, so that a
        # program which does not bind its source reaches no peer on the rail. An isolated rail has
        # no peer beyond its subnet: its connected route is enough.
        plugins.append({"type": "sbr"})
    if lab.hosts.rdma_namespaces == "exclusive":
        plugins.append({"type": "rdma"})
    return plugins


def _vf(cluster: Cluster, rail: Rail) -> Manifest:
    """The VF with its VLAN.

    `link_state` is left out: its default is `auto`, and drivers without that switch refuse even the
    default.
    """
    vlan_id = pod_side(rail).vlan_id
    return {
        "type": "sriov",
        **({"vlan": vlan_id} if vlan_id is not None else {}),
        # these apply to the VF in the pod, not to the idle one on the host
        "spoofchk": "off",
        "trust": "on",
        **({"capabilities": IPS} if cluster.ipam.NAMED_BY_PODS else {}),
        "ipam": address_source(cluster).for_rail(rail),
    }


def _macvlan(lab: Lab, cluster: Cluster, rail: Rail) -> Manifest:
    """An interface on the PF, untagged like the PF. Rules ensure that a rail has one name
    for it.
    """
    return {
        "type": "macvlan",
        "master": interfaces(lab, rail)[0],
        "mode": "bridge",
        "mtu": rail.mtu_bytes,
        **({"capabilities": IPS} if cluster.ipam.NAMED_BY_PODS else {}),
        "ipam": address_source(cluster).for_rail(rail),
    }

"""Rules about the guests of virtual machines."""

from collections.abc import Iterator

from stacks.guests import BitfusionClient, Guests
from stacks.nodes import VsphereVm
from stacks.rules.parts import Fault, Parts


def refuse_guests_without_machines(parts: Parts, guests: Guests) -> Iterator[Fault]:
    machines = any(isinstance(node, VsphereVm) for node in parts.nodes.values())
    if guests.network is not None and not machines:
        yield Fault(
            ("guests", "network"),
            "no node is of kind vsphere_vm, so this has no effect; remove it",
        )


def refuse_routed_rails_in_guests(parts: Parts, guests: Guests) -> Iterator[Fault]:
    """Both networkd and NetworkManager remove routing rules that they did not create."""
    if guests.network is None:
        return
    for i, rail in parts.rails.items():
        if rail.name in parts.routed_rails:
            yield Fault(
                ("rails", i, "host_gateway"),
                "the guest's network tool would remove the routing rules that routed rails need; "
                "remove guests.network",
            )


def refuse_a_licence_without_licensed_vms(parts: Parts) -> Iterator[Fault]:
    licensed = any(isinstance(node, VsphereVm) and node.gpus for node in parts.nodes.values())
    if parts.has("licence") and not licensed:
        yield Fault(
            ("licence",),
            "no node of kind vsphere_vm has gpus, so no license is needed; remove this section",
        )


def refuse_impossible_bitfusion_clients(
    parts: Parts, bitfusion_client: BitfusionClient
) -> Iterator[Fault]:
    nodes, client = parts.nodes_by_name, bitfusion_client
    for i, name in enumerate(client.nodes):
        node_path = ("bitfusion_client", "nodes", i)
        if name not in nodes:
            yield Fault(node_path, f"this lab has no node {name}; nodes: {', '.join(nodes)}")
        elif client.authorisation == "vcenter" and not isinstance(nodes[name], VsphereVm):
            yield Fault(
                node_path,
                f"{name} is bare metal, which vCenter cannot enable; set "
                "bitfusion_client.authorisation: token",
            )
    path = ("bitfusion_client", "servers")
    if parts.has("bitfusion") and client.servers:
        yield Fault(
            path,
            "the lab creates its servers, and bitfusion.servers has their addresses; remove this "
            "list",
        )
    if not parts.has("bitfusion") and not client.servers:
        yield Fault(
            path,
            "missing, and the lab creates no servers; list existing servers, or add bitfusion",
        )
    for i, server in enumerate(client.servers):
        if not any(server in rail.host_subnet for rail in parts.rails.values()):
            yield Fault(
                (*path, i),
                f"{server} is on no rail; use the server's address on the network of its PVRDMA "
                "adapter",
            )

"""Rules about the guests of virtual machines."""

from collections.abc import Iterator

from stacks.guests import BitfusionClient, Guests
from stacks.licence import LegacyLicence, NlsLicence
from stacks.nodes import VsphereVm
from stacks.rules.parts import Fault, Parts, Rule


def _refuse_guests_without_machines(parts: Parts) -> Iterator[Fault]:
    guests = parts.section("guests", Guests)
    machines = any(isinstance(node, VsphereVm) for node in parts.nodes.values())
    if guests is not None and guests.network is not None and not machines:
        yield Fault(("guests", "network"), "no node is of kind vsphere_vm, so this has no effect; remove it")


def _refuse_routed_rails_in_guests(parts: Parts) -> Iterator[Fault]:
    """Both networkd and NetworkManager remove routing rules that they did not create."""
    guests = parts.section("guests", Guests)
    if guests is None or guests.network is None:
        return
    for i, rail in parts.rails.items():
        if rail.name in parts.routed_rails:
            yield Fault(
                ("rails", i, "host_gateway"),
                "the guest's network tool would remove the routing rules that routed rails need; remove guests.network",
            )


def _refuse_a_licence_that_nobody_needs(parts: Parts) -> Iterator[Fault]:
    licence = parts.section("licence", NlsLicence) or parts.section("licence", LegacyLicence)
    licensed = any(isinstance(node, VsphereVm) and node.gpus for node in parts.nodes.values())
    if licence is not None and not licensed:
        yield Fault(("licence",), "no node of kind vsphere_vm has gpus, so no license is needed; remove this section")


def _refuse_bitfusion_clients_that_are_none(parts: Parts) -> Iterator[Fault]:
    client = parts.section("bitfusion_client", BitfusionClient)
    if client is None:
        return
    nodes = parts.nodes_by_name
    for i, name in enumerate(client.nodes):
        path = ("bitfusion_client", "nodes", i)
        if name not in nodes:
            yield Fault(path, f"this lab has no node {name}; nodes: {', '.join(nodes)}")
        elif client.authorisation == "vcenter" and not isinstance(nodes[name], VsphereVm):
            yield Fault(
                path, f"{name} is bare metal, which vCenter cannot enable; set bitfusion_client.authorisation: token"
            )
    yield from _servers_stand_once(client, made=parts.others.get("bitfusion") is not None)
    for i, server in enumerate(client.servers):
        if not any(server in rail.host_subnet for rail in parts.rails.values()):
            yield Fault(
                ("bitfusion_client", "servers", i),
                f"{server} is on no rail; use the server's address on the network of its PVRDMA adapter",
            )


def _servers_stand_once(client: BitfusionClient, *, made: bool) -> Iterator[Fault]:
    path = ("bitfusion_client", "servers")
    if made and client.servers:
        yield Fault(path, "the lab creates its servers, and bitfusion.servers has their addresses; remove this list")
    if not made and not client.servers:
        yield Fault(path, "missing, and the lab creates no servers; list existing servers, or add bitfusion")


GUEST_RULES: tuple[Rule, ...] = (
    _refuse_guests_without_machines,
    _refuse_routed_rails_in_guests,
    _refuse_a_licence_that_nobody_needs,
    _refuse_bitfusion_clients_that_are_none,
)

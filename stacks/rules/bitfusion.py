"""Rules of Bitfusion servers: their rails, addresses and hosts have to be those of the lab, and
clients reach them.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address

from stacks.bitfusion import Bitfusion, named_addresses, way_to
from stacks.fabric import Fabric
from stacks.guests import BitfusionClient
from stacks.rules.parts import Fault, Parts, Path, twice

PATH = ("bitfusion", "servers")


def refuse_servers_without_a_vcenter(parts: Parts) -> Iterator[Fault]:
    if parts.has("bitfusion") and not parts.has("fabric"):
        yield Fault(
            ("bitfusion",), "Bitfusion servers are created in a vCenter; describe it in `fabric`"
        )


def refuse_adapters_off_their_rail(
    parts: Parts, bitfusion: Bitfusion, fabric: Fabric
) -> Iterator[Fault]:
    switches = fabric.switch_by_rail
    rails = parts.rails_by_name
    for i, server in enumerate(bitfusion.servers):
        for j, adapter in enumerate(server.adapters):
            path = (*PATH, i, "adapters", j)
            switch, rail = switches.get(adapter.rail), rails.get(adapter.rail)
            if switch is None:
                yield Fault(
                    (*path, "rail"),
                    f"{adapter.rail} has no switch in fabric.switches; it has "
                    f"{', '.join(switches)}",
                )
            elif server.host not in [host.name for host in switch.hosts]:
                yield Fault(
                    (*PATH, i, "host"),
                    f"{server.host} is not a host of {switch.name}, the switch of {adapter.rail}",
                )
            if rail is not None and adapter.address.network != rail.host_subnet:
                yield Fault(
                    (*path, "address"),
                    f"{adapter.address} is outside {adapter.rail}'s host_subnet "
                    f"{rail.host_subnet}; choose an address inside it",
                )


def refuse_pvrdma_as_the_first_adapter(bitfusion: Bitfusion, fabric: Fabric) -> Iterator[Fault]:
    groups = {switch.port_group for switch in fabric.switches}
    if bitfusion.management_network in groups:
        yield Fault(
            ("bitfusion", "management_network"),
            f"{bitfusion.management_network} is a rail's port group, but adapter 1 is never "
            "PVRDMA; name another network",
        )


def refuse_what_is_given_twice(parts: Parts, bitfusion: Bitfusion) -> Iterator[Fault]:
    names: list[tuple[Path, str]] = [
        (("nodes", i, "name"), node.name) for i, node in parts.nodes.items()
    ]
    names += [((*PATH, i, "name"), server.name) for i, server in enumerate(bitfusion.servers)]
    addresses: list[tuple[Path, IPv4Address]] = [
        ((*path, "address"), pf.address.ip) for path, _, pf in parts.pfs()
    ]
    for i, server in enumerate(bitfusion.servers):
        addresses.append(((*PATH, i, "address"), server.address.ip))
        for j, adapter in enumerate(server.adapters):
            addresses.append(((*PATH, i, "adapters", j, "address"), adapter.address.ip))
    # the core rules report what nodes share among themselves
    yield from (
        fault for fault in twice("name", names, "choose another") if fault.path[0] == "bitfusion"
    )
    for fault in twice("address", addresses, "choose a free one"):
        if fault.path[0] == "bitfusion":
            yield fault


def refuse_clients_that_share_no_rail_with_a_server(
    parts: Parts, bitfusion_client: BitfusionClient
) -> Iterator[Fault]:
    """Rails have no routes to each other.

    A client without a rail of a server would borrow over its management network.
    """
    if not parts.all_rails_valid:
        return
    bitfusion = parts.section("bitfusion", Bitfusion)
    servers = (
        bitfusion.addresses
        if bitfusion
        else named_addresses(bitfusion_client.servers, parts.rails.values())
    )
    rails = {rail.name for rail in parts.rails.values()}
    nodes = parts.nodes_by_name
    for i, name in enumerate(bitfusion_client.nodes):
        # the guests' rules report a node that does not exist and a server on no rail
        for server in (
            server for server in servers if name in nodes and rails.issuperset(server) and server
        ):
            if way_to(server, nodes[name]) is None:
                listed = " or ".join(server)
                yield Fault(
                    ("bitfusion_client", "nodes", i),
                    f"{name} has no PF on {listed}, which the server at "
                    f"{next(iter(server.values()))} uses; add a PF on {listed}, or remove the "
                    "client",
                )

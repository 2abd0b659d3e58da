"""Rules about routed rails."""

from collections.abc import Callable, Iterator

from stacks.rules.parts import Fault, Parts


def _refuse_pfs_with_the_address_of_their_router(parts: Parts) -> Iterator[Fault]:
    gateways = {rail.host_gateway: f"host_gateway of {rail.name}" for rail in parts.rails.values()}
    gateways |= {pf.gateway: f"gateway of {node.name} on {pf.rail}" for _, node, pf in parts.pfs()}
    for path, _, pf in parts.pfs():
        if router := gateways.get(pf.address.ip):
            yield Fault(
                (*path, "address"), f"{pf.address.ip} is the {router}: the router has it; give this PF a free one"
            )


NETWORK_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (_refuse_pfs_with_the_address_of_their_router,)

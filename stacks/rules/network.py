"""Rules about routed rails."""

from collections.abc import Callable, Iterator

from stacks.rules.parts import Fault, Parts


def _refuse_pfs_with_the_address_of_their_router(parts: Parts) -> Iterator[Fault]:
    gateways = {rail.name: rail.host_gateway for rail in parts.rails.values() if rail.host_gateway}
    for path, _, pf in parts.pfs():
        if gateways.get(pf.rail) == pf.address.ip:
            yield Fault(
                (*path, "address"),
                f"{pf.address.ip} is the host_gateway of {pf.rail}: the router has it; give this PF a free one",
            )


NETWORK_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (_refuse_pfs_with_the_address_of_their_router,)

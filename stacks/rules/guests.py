"""Rules about the guests of virtual machines."""

from collections.abc import Callable, Iterator

from stacks.guests import Guests
from stacks.nodes import VsphereVm
from stacks.rules.parts import Fault, Parts


def _refuse_guests_without_machines(parts: Parts) -> Iterator[Fault]:
    guests = parts.section("guests", Guests)
    machines = any(isinstance(node, VsphereVm) for node in parts.nodes.values())
    if guests is not None and guests.network is not None and not machines:
        yield Fault(
            ("guests", "network"), "no node is of kind vsphere_vm, so nothing would be done; take the section out"
        )


def _refuse_routed_rails_in_guests(parts: Parts) -> Iterator[Fault]:
    """Both networkd and NetworkManager take routing rules away that they did not make."""
    guests = parts.section("guests", Guests)
    if guests is None or guests.network is None:
        return
    for i, rail in parts.rails.items():
        if rail.host_gateway is not None:
            yield Fault(
                ("rails", i, "host_gateway"),
                "a routed rail has routing rules of ours, which the guest's network tool would remove: "
                "take guests.network out",
            )


GUEST_RULES: tuple[Callable[[Parts], Iterator[Fault]], ...] = (
    _refuse_guests_without_machines,
    _refuse_routed_rails_in_guests,
)

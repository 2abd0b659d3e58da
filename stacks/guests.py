"""What a lab asks of its virtual machines' guests, beyond what every host gets."""

from typing import Literal

from stacks.base import Section


class GuestNetwork(Section):
    """The rails' addresses also in the guest's own network configuration, for people and for the next boot."""

    tool: Literal["auto", "netplan", "nmcli", "ifcfg"] = "auto"
    """What keeps them. auto: netplan where it is, network-scripts on RHEL 7, else NetworkManager."""


class Guests(Section):
    """Guests of the nodes of kind vsphere_vm."""

    network: GuestNetwork | None = None
    """None: only this program's unit sets the rails' addresses at boot."""

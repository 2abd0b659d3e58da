"""What a lab asks of its virtual machines' guests, and of Bitfusion's clients, beyond what every host gets."""

from ipaddress import IPv4Address
from typing import Literal

from pydantic import Field

from stacks.base import Name, Section
from stacks.software import Download, Version


class GuestNetwork(Section):
    """The rails' addresses also in the guest's own network configuration, for people and for the next boot."""

    tool: Literal["auto", "netplan", "nmcli"] = "auto"
    """What keeps them. auto: netplan where it is installed, else NetworkManager."""


class Guests(Section):
    """Guests of the nodes of kind vsphere_vm."""

    network: GuestNetwork | None = None
    """None: only this program's unit sets the rails' addresses at boot."""
    initramfs: bool = False
    """Whether Ubuntu's and Debian's initramfs is written anew when module options change; it takes a minute."""


class BitfusionClient(Section):
    """The client of vSphere Bitfusion on nodes without GPUs of their own (the Bitfusion article).

    Never run against the product here: VMware has ended it, and its packages cannot be had.
    """

    nodes: tuple[Name, ...] = Field(min_length=1)
    """Nodes that become clients, virtual machines or bare metal."""
    version: Version = "3.0.1-4"
    """As its package has it; client and server have to be of one release."""
    package: Download
    """The client's .deb or .rpm for the nodes' distribution."""
    servers: tuple[IPv4Address, ...] = ()
    """Addresses on the rails of servers that are there already. Those that this lab makes stand in
    `bitfusion.servers` alone."""
    authorisation: Literal["vcenter", "token"] = "vcenter"
    """vcenter: each VM is enabled in vCenter's plug-in, by hand, and only checked here. token: the stack secret
    `rocelab:bitfusionToken`, the plug-in's .tar in base64, which bare metal needs."""
    sample: str = Field(default="/workspace/tensorrt/bin/sample_mnist", pattern=r"^/[A-Za-z0-9_./-]+$", max_length=200)
    """Program of the end proof: one GPU of each server runs it."""
    latency_max_us: float = Field(default=50.0, gt=0, le=1000)
    """Bitfusion's own recommendation for the way between client and server (the article's introduction)."""

"""What VMs' guests and Bitfusion's clients need beyond what every host gets."""

from ipaddress import IPv4Address
from typing import Literal

from pydantic import Field

from stacks.base import Name, Section
from stacks.software import Download, Version


class GuestNetwork(Section):
    """Writes the rails' addresses into the guest's own network configuration too.

    People find them there, and they are there before rocelab's unit runs at a boot.
    """

    tool: Literal["auto", "netplan", "nmcli"] = "auto"
    """Where to write them. auto: netplan where it is installed, otherwise NetworkManager."""


class Guests(Section):
    """Guests of the nodes of kind vsphere_vm."""

    network: GuestNetwork | None = None
    """None: only rocelab's systemd unit sets the rails' addresses at boot."""
    initramfs: bool = False
    """Whether to rebuild Ubuntu's and Debian's initramfs when module options change; it takes a
    minute."""


class BitfusionClient(Section):
    """The client of vSphere Bitfusion on nodes without GPUs of their own (the Bitfusion article).

    Never run against the product here: VMware has ended it, and its packages cannot be had.
    """

    nodes: tuple[Name, ...] = Field(min_length=1)
    """Nodes that become clients, VMs or bare metal."""
    version: Version = "3.0.1-4"
    """Version of the package; client and server must be of one release."""
    package: Download
    """The client's .deb or .rpm for the nodes' distribution."""
    servers: tuple[IPv4Address, ...] = ()
    """Rail addresses of existing servers. Servers that this lab creates belong in
    `bitfusion.servers` only."""
    authorisation: Literal["vcenter", "token"] = "vcenter"
    """vcenter: you enable each VM in vCenter's plug-in, and rocelab only checks it. token: the
    stack secret `rocelab:bitfusionToken`, the plug-in's .tar in base64, which bare metal needs."""
    sample: str = Field(
        default="/workspace/tensorrt/bin/sample_mnist",
        pattern=r"^/[A-Za-z0-9_./-]+$",
        max_length=200,
    )
    """Program of the final proof, which runs on one GPU of each server."""
    latency_max_us: float = Field(default=50.0, gt=0, le=1000)
    """Bitfusion's recommended maximum latency between client and server (the article's
    introduction)."""

"""The checks of a Bitfusion client: a sample on a borrowed GPU, a latency below the product's limit, and a bandwidth.

Never run against the product, which VMware has discontinued.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Literal

from stacks.base import LabError
from stacks.bitfusion import way_to
from stacks.guests import BitfusionClient
from stacks.lab import Lab
from stacks.nodes import Pf

IN_IMAGE = "sudo docker run --rm -u root --ipc=host --privileged --net=host --cap-add=IPC_LOCK --pid=host"
"""How the Bitfusion article starts the repaired image, without its -it, because there is no terminal.

The PVRDMA device uses the VM's own network addresses and /dev/infiniband.
"""
Proves = Literal["end-proof", "latency", "bandwidth"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BitfusionCheck:
    """One command on a client, its counterpart on the server, and its limit."""

    name: Proves
    client: str
    """Node that runs it."""
    server: str
    """Address of the server on the rail."""
    words: tuple[str, ...]
    server_words: tuple[str, ...] = ()
    latency_max_us: float | None = None
    """Upper limit of the typical latency. None: no limit."""


def checks(lab: Lab) -> tuple[BitfusionCheck, ...]:
    """Sample, latency and bandwidth for each client on each server.

    Raises:
        LabError: when the lab has no clients.
    """
    asked = lab.bitfusion_client
    if asked is None:
        raise LabError("bitfusion_client: missing; this lab has no node that borrows GPUs")
    clients = [node for node in lab.active_nodes if node.name in asked.nodes]
    ways = ((node.name, way_to(server, node)) for node in clients for server in lab.bitfusion_addresses)
    return tuple(check for client, way in ways if way for check in _between(client, *way, asked))


def _between(client: str, pf: Pf, address: IPv4Address, asked: BitfusionClient) -> Iterator[BitfusionCheck]:
    """One client and one server. Without -d, perftest would use the first device, on any rail."""
    server = str(address)
    yield BitfusionCheck(
        name="end-proof",
        client=client,
        server=server,
        words=("bitfusion", "run", "-n", "1", "-l", server, "--", asked.sample),
    )
    # -F: ignore the CPU frequency, which means nothing in a VM
    yield BitfusionCheck(
        name="latency",
        client=client,
        server=server,
        words=("ib_send_lat", "-d", pf.rdma_device, "-F", "-n", "5000", server),
        server_words=("ib_send_lat", "-F", "-n", "5000"),
        latency_max_us=asked.latency_max_us,
    )
    yield BitfusionCheck(
        name="bandwidth",
        client=client,
        server=server,
        words=("ib_send_bw", "-d", pf.rdma_device, "-F", "--report_gbits", server),
        server_words=("ib_send_bw", "-F", "--report_gbits"),
    )

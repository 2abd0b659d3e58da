"""What proves a Bitfusion client: a sample on a borrowed GPU, a latency below the product's limit, and a bandwidth.

Never run against the product: VMware has ended it.
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
"""How seed C starts the repaired image, whose name comes behind it; without its -it, since no terminal is there.

The PVRDMA device has its addresses from the machine's own network, and lies in the machine's /dev/infiniband.
"""
Proves = Literal["end-proof", "latency", "bandwidth"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BitfusionCheck:
    """One command on a client, what has to run on the server beside it, and when it is good."""

    name: Proves
    client: str
    """Node that runs it."""
    server: str
    """Address of the server on the rail."""
    words: tuple[str, ...]
    server_words: tuple[str, ...] = ()
    latency_max_us: float | None = None
    """Typical latency at most. None: running is all that is asked, and of a bandwidth that it is reported."""


def checks(lab: Lab) -> tuple[BitfusionCheck, ...]:
    """The end proof of each client on each server, and latency and bandwidth between the two.

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
    """One client and one server. By itself perftest takes the first device, whatever rail the server is on."""
    server = str(address)
    yield BitfusionCheck(
        name="end-proof",
        client=client,
        server=server,
        words=("bitfusion", "run", "-n", "1", "-l", server, "--", asked.sample),
    )
    # -F: the frequency of a VM's core says nothing
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

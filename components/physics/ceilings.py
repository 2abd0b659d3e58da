"""How fast physics lets a rail be: goodput over Ethernet, over PCIe, and shared with others."""

from dataclasses import replace
from typing import Literal

from stacks.frozen import frozen

PATH_MTUS_BYTES = (256, 512, 1024, 2048, 4096)
"""Path MTUs of InfiniBand and RoCE; larger Ethernet MTUs only make room for the largest of them."""

PACKET_BYTES = 82
"""Around a payload, IPv4, untagged: preamble 8, gap 12, Ethernet 14, FCS 4, IP 20, UDP 8, BTH 12,
ICRC 4."""
Framing = Literal["roce_v2", "roce_v1", "infiniband"]
AROUND_PACKET: dict[Framing, int] = {"roce_v2": PACKET_BYTES, "roce_v1": 94, "infiniband": 26}
"""RoCE v1 has a GRH of 40 bytes in place of IP and UDP. InfiniBand has LRH 8, BTH 12, ICRC 4 and
VCRC 2 within a subnet."""
INFINIBAND_DATA_GBIT_S = {10.0: 8.0, 20.0: 16.0, 40.0: 32.0, 56.0: 54.54}
"""Of SDR, DDR, QDR and FDR with four lanes, whose names count the line's encoding too."""
RETH_BYTES = 16
"""Once per message: the target of an RDMA write, or the source of a read."""
AETH_BYTES = 4
"""In an acknowledgement, and in the first and the last packet of a read's answer (InfiniBand
specification 9.4)."""
PAD_BYTES = 4

Operation = Literal["write", "send", "read"]
Limit = Literal["line", "pcie", "shared slot", "measured verbs", "node"]


@frozen
class Ceiling:
    """The highest value that can be expected, and what limits it."""

    value: float
    unit: Literal["Gbit/s", "GB/s"]
    basis: str
    limited_by: Limit


@frozen
class Path:
    """The known properties of a path between two ports."""

    line_rate_gbit_s: float
    """Line rate of the slower port, as its host reports it."""
    path_mtu_bytes: int
    message_bytes: int = 65_536
    operation: Operation = "write"
    framing: Framing = "roce_v2"
    pcie_gbit_s: float | None = None
    """Payload that the narrower PCIe link carries each way; None, if unknown, limits nothing."""
    both_ways: bool = False
    """Both ends send at once, and the value is the sum."""
    ports_on_slot: int = 1
    """Ports that run at once behind one PCIe link: both ports of a dual-port NIC."""


def goodput_ratio(path_mtu_bytes: int, message_bytes: int) -> float:
    """Share of the line rate, 0 to 1, that RDMA writes in one direction leave for data."""
    return data_share(
        Path(line_rate_gbit_s=1, path_mtu_bytes=path_mtu_bytes, message_bytes=message_bytes)
    )


def data_share(path: Path) -> float:
    """Share of the line rate, 0 to 1, that is left for data in one direction of this path.

    With both_ways the acknowledgements (one a message, the least that a reliable connection sends)
    or the requests of the stream in the other direction take their part too.
    """
    around = AROUND_PACKET[path.framing]
    packets = -(-path.message_bytes // path.path_mtu_bytes)
    once = {"write": RETH_BYTES, "send": 0, "read": AETH_BYTES * min(packets, 2)}[path.operation]
    back = 0
    if path.both_ways and path.operation == "read":
        back = around + RETH_BYTES
    elif path.both_ways:
        back = around + AETH_BYTES
    padding = -path.message_bytes % PAD_BYTES
    return path.message_bytes / (path.message_bytes + padding + packets * around + once + back)


def bandwidth_ceiling(path: Path) -> Ceiling:
    """The highest bandwidth of a stream, in 10^9 bits a second; the sum of both with both_ways.

    Line and PCIe are full duplex, so each direction has its own limit. The ports of one NIC
    share its slot: their sum meets its limit, and the ceiling here is an equal part of it.
    """
    value = path.line_rate_gbit_s * data_share(path)
    limit = f"line rate {path.line_rate_gbit_s:g} Gbit/s at path MTU {path.path_mtu_bytes}"
    limited_by: Limit = "line"
    if path.pcie_gbit_s is not None and path.pcie_gbit_s / path.ports_on_slot < value:
        value, limit = path.pcie_gbit_s / path.ports_on_slot, f"PCIe {path.pcie_gbit_s:.1f} Gbit/s"
        limited_by = "pcie"
        if path.ports_on_slot > 1:
            limit += f", shared by {path.ports_on_slot} ports"
            limited_by = "shared slot"
    if path.both_ways:
        value *= 2
        limit += ", both directions"
    return Ceiling(value=value, unit="Gbit/s", basis=limit, limited_by=limited_by)


def smaller_mtu_at(measured_gbit_s: float, path: Path) -> int | None:
    """A smaller path MTU whose ceiling the measured value sits at, while it misses the path's own.

    A hint, never a cause: a slow path of the configured MTU can land on the same number. NICs reach
    98.5 to 100 % of their ceiling, hence the window.
    """
    if measured_gbit_s / bandwidth_ceiling(path).value >= 0.97:
        return None
    for candidate in PATH_MTUS_BYTES:
        of_line = measured_gbit_s / (
            path.line_rate_gbit_s * data_share(replace(path, path_mtu_bytes=candidate))
        )
        if candidate < path.path_mtu_bytes and 0.985 <= of_line <= 1.002:
            return candidate
    return None

"""How fast physics lets a rail be: goodput of RoCE v2 over Ethernet, and what that allows NCCL."""

from collections.abc import Sequence

PATH_MTUS_BYTES = (256, 512, 1024, 2048, 4096)
"""Path MTUs of InfiniBand and RoCE; larger Ethernet MTUs only make room for the largest of them."""

PACKET_BYTES = 82
"""Around a packet's payload, IPv4, untagged: preamble 8, gap 12, Ethernet 14, FCS 4, IP 20, UDP 8, BTH 12, ICRC 4."""
VLAN_BYTES = 4
IPV6_BYTES = 20
RETH_BYTES = 16
"""Once a message: where an RDMA write goes."""


def goodput_ratio(path_mtu_bytes: int, message_bytes: int, *, vlan: bool = False, ipv6: bool = False) -> float:
    """Share of the line rate that a stream of RDMA writes leaves for data."""
    around = PACKET_BYTES + (VLAN_BYTES if vlan else 0) + (IPV6_BYTES if ipv6 else 0)
    packets = -(-message_bytes // path_mtu_bytes)
    return message_bytes / (message_bytes + packets * around + RETH_BYTES)


def verbs_ceiling_gbit_s(
    line_rate_gbit_s: float, path_mtu_bytes: int, message_bytes: int, *, vlan: bool = False, ipv6: bool = False
) -> float:
    """What `ib_write_bw` can print at best, in 10^9 bits a second."""
    return line_rate_gbit_s * goodput_ratio(path_mtu_bytes, message_bytes, vlan=vlan, ipv6=ipv6)


def nccl_ceiling_gbyte_s(rails_gbit_s: Sequence[float]) -> float:
    """Largest ring busbw in 10^9 bytes a second: the ring crosses each rail's NIC once, so the rails add up."""
    return sum(rails_gbit_s) / 8


def looks_like_path_mtu(
    measured_gbit_s: float, line_rate_gbit_s: float, path_mtu_bytes: int, message_bytes: int
) -> int | None:
    """A smaller path MTU whose ceiling the measured value sits at, while it misses the configured one's.

    A hint, never a cause: a slow path of the configured MTU can land on the same number. NICs reach 98.5 to 100 % of
    their ceiling, hence the window.
    """
    if measured_gbit_s / verbs_ceiling_gbit_s(line_rate_gbit_s, path_mtu_bytes, message_bytes) >= 0.97:
        return None
    for candidate in PATH_MTUS_BYTES:
        ratio = measured_gbit_s / verbs_ceiling_gbit_s(line_rate_gbit_s, candidate, message_bytes)
        if candidate < path_mtu_bytes and 0.985 <= ratio <= 1.002:
            return candidate
    return None

"""What TCP can carry over the same line, for the comparison with RoCE."""

from components.validation.physics.ceilings import IPV6_BYTES, VLAN_BYTES, Ceiling

FRAME_BYTES = 38
"""Around the IP packet: preamble 8, gap 12, Ethernet 14, FCS 4."""
HEADERS_BYTES = 52
"""Inside it: IPv4 20, TCP 20, time stamps 12, which Linux sends by default."""

ONE_FLOW_GBIT_S = 40.0
"""What one flow reaches at best on one core of a server; 20 to 40 is usual, so a faster line needs several flows."""


def tcp_goodput_ratio(mtu_bytes: int, *, vlan: bool = False, ipv6: bool = False) -> float:
    """Share of the line rate, 0 to 1, that full segments leave for data.

    Raises:
        ValueError: for an MTU that no segment fits in.
    """
    payload = mtu_bytes - HEADERS_BYTES - (IPV6_BYTES if ipv6 else 0)
    if payload <= 0:
        raise ValueError(f"MTU {mtu_bytes}: a TCP segment needs more than {mtu_bytes - payload} bytes")
    return payload / (mtu_bytes + FRAME_BYTES + (VLAN_BYTES if vlan else 0))


def tcp_ceiling(line_rate_gbit_s: float, mtu_bytes: int, *, vlan: bool = False, ipv6: bool = False) -> Ceiling:
    """Goodput in 10^9 bits a second, if the processors keep up: no verdict hangs on it."""
    return Ceiling(
        value=line_rate_gbit_s * tcp_goodput_ratio(mtu_bytes, vlan=vlan, ipv6=ipv6),
        unit="Gbit/s",
        basis=f"line rate {line_rate_gbit_s:g} Gbit/s, TCP at MTU {mtu_bytes}",
        limited_by="line",
    )

"""How long a small message may take: no formula gives that, so the bounds are a table of what good fabrics show."""

from dataclasses import dataclass
from typing import Literal

from components.validation.physics.ceilings import Ceiling

Port = Literal["pf", "vf", "pvrdma", "tcp"]
"""What the message goes through: a port or VF by verbs, a paravirtual one, or the kernel's TCP."""

ROUND_TRIPS = ("ib_read_lat", "ib_atomic_lat")
"""Tests whose numbers are whole round trips: the other ones print half of them."""
JITTER = 10.0
"""99th percentile over median, as records keep it, from which on a host's sleep states or interrupts are likely."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyBound:
    """Medians of a small message, one way."""

    warn_above_us: float
    fail_above_us: float
    basis: str

    @property
    def ceiling(self) -> Ceiling:
        """As the other limits: a value above it is a warning."""
        return Ceiling(value=self.warn_above_us, unit="us", basis=self.basis, limited_by="latency table")


BOUNDS: dict[Port, LatencyBound] = {
    # back to back 0.8 to 0.9 us, 0.25 to 0.6 us a hop: 1.2 to 2.5 us through one switch, a VF as fast as its PF
    "pf": LatencyBound(warn_above_us=5, fail_above_us=10, basis="1.2 to 2.5 us are usual through one switch"),
    "vf": LatencyBound(warn_above_us=5, fail_above_us=10, basis="1.2 to 2.5 us are usual through one switch"),
    # the hardware path needs single microseconds; 50 us is what Bitfusion still works with (VMware's guide)
    "pvrdma": LatencyBound(warn_above_us=15, fail_above_us=50, basis="PVRDMA's hardware path needs less than 10 us"),
    # shown beside the others for comparison
    "tcp": LatencyBound(warn_above_us=30, fail_above_us=100, basis="10 to 30 us are usual for kernel TCP"),
}


def ways_of(test: str) -> int:
    """How many directions the number has that perftest prints: a read's or an atomic's is a whole round trip."""
    return 2 if test in ROUND_TRIPS else 1


def jitters(median_us: float, tail_us: float) -> bool:
    """Whether the 99th percentile is so far from the median that the host, not the fabric, is the likely reason."""
    return median_us > 0 and tail_us / median_us > JITTER

"""How a small message is judged: no formula gives its time, so bounds (stacks/benchmarks.py) rest on what is usual."""

USUAL_HARDWARE = "1.2 to 2.5 us are usual through one switch"
"""Back to back 0.8 to 0.9 us, 0.25 to 0.6 us a hop; a VF is as fast as its PF."""
USUAL_PVRDMA = "PVRDMA's hardware path needs less than 10 us"
"""Its bound of 50 us is what Bitfusion still works with (VMware's guide)."""

ROUND_TRIPS = ("ib_read_lat", "ib_atomic_lat")
"""Tests whose numbers are whole round trips: the other ones print half of them."""
JITTER = 10.0
"""99th percentile over median, as records keep it, from which on a host's sleep states or interrupts are likely."""


def ways_of(test: str) -> int:
    """How many directions the number has that perftest prints: a read's or an atomic's is a whole round trip."""
    return 2 if test in ROUND_TRIPS else 1


def jitters(median_us: float, tail_us: float) -> bool:
    """Whether the 99th percentile is so far from the median that the host, not the fabric, is the likely reason."""
    return median_us > 0 and tail_us / median_us > JITTER

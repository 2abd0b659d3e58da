"""What perftest prints: bandwidth, latency, and why a run failed."""

from components.validation.parsers.lines import ResultFormatError
from components.validation.parsers.perftest.bandwidth import Perftest, Row, parse_bandwidth
from components.validation.parsers.perftest.causes import cause_of
from components.validation.parsers.perftest.latency import Latency, LatencyRow, parse_latency

__all__ = [
    "Latency",
    "LatencyRow",
    "Perftest",
    "ResultFormatError",
    "Row",
    "cause_of",
    "parse_bandwidth",
    "parse_latency",
]

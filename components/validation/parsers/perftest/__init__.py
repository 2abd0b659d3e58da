"""What perftest prints: bandwidth, latency, the JSON beside them, and why a run failed."""

from components.validation.parsers.lines import ResultFormatError
from components.validation.parsers.perftest.bandwidth import Perftest, Row, parse_bandwidth
from components.validation.parsers.perftest.causes import cause_of
from components.validation.parsers.perftest.confirm import confirm_bandwidth, confirm_latency
from components.validation.parsers.perftest.latency import Latency, LatencyRow, parse_latency

__all__ = [
    "Latency",
    "LatencyRow",
    "Perftest",
    "ResultFormatError",
    "Row",
    "cause_of",
    "confirm_bandwidth",
    "confirm_latency",
    "parse_bandwidth",
    "parse_latency",
]

"""The tables that nccl-tests print, of all versions."""

from components.validation.parsers.nccl.rows import LARGE_BYTES, NcclLog, Placement, Row
from components.validation.parsers.nccl.table import parse_nccl

__all__ = [
    "LARGE_BYTES",
    "NcclLog",
    "Placement",
    "Row",
    "parse_nccl",
]

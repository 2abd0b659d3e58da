"""What nccl-tests print: tables of all versions, and the JSON report."""

from components.validation.parsers.nccl.report import REPORT_BEGIN, REPORT_END, parse_report, report_in
from components.validation.parsers.nccl.rows import LARGE_BYTES, NcclLog, Placement, Row
from components.validation.parsers.nccl.table import parse_nccl, parse_nccl_tables

__all__ = [
    "LARGE_BYTES",
    "REPORT_BEGIN",
    "REPORT_END",
    "NcclLog",
    "Placement",
    "Row",
    "parse_nccl",
    "parse_nccl_tables",
    "parse_report",
    "report_in",
]

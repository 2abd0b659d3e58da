"""Reads the text that perftest's bandwidth tests print; all versions since 2016. Judges nothing."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from components.validation.parsers.lines import ResultFormatError, decimals, integer, lines_of, number, rounding
from components.validation.parsers.perftest.header import header_of
from components.validation.parsers.perftest.table import CPU, Table, table_of

MIB_S_IN_GBIT_S = 2**20 * 8 / 1e9
"""perftest's MB/sec and MiB/sec are both 2^20 bytes; its Gb/sec is 10^9 bits (perftest_parameters.c)."""
FACTOR_OF_UNIT = {"Gb/sec": 1.0, "MB/sec": MIB_S_IN_GBIT_S, "MiB/sec": MIB_S_IN_GBIT_S}
RATE = "MsgRate[Mpps]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message size. The peak is left out: nothing else in the text confirms it, and no version prints it always."""

    message_bytes: int
    iterations: int
    """Over all queue pairs."""
    average_gbit_s: float
    """In 10^9 bits a second; of a bidirectional test the sum of both directions."""
    message_rate_mpps: float
    cpu_percent: float | None = None
    """With `--cpu_util`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Perftest:
    """What one end of a test printed. Both ends print the client's numbers: count one of them."""

    title: str
    """Such as `RDMA_Write BW Test`."""
    role: Literal["client", "server"]
    both_directions: bool
    """The averages are sums of two directions."""
    device: str
    path_mtu_bytes: int
    """With rdma_cm this is the port's active MTU, not necessarily the path's; without it, the path's."""
    link_type: str
    gid_index: int | None
    queue_pairs: int
    rdma_cm: bool
    local_gid: IPv4Address | IPv6Address | None
    remote_gid: IPv4Address | IPv6Address | None
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    """Warnings that do not make the number worse."""
    counters: dict[str, int]
    """Growth of the device's counters, where `-W` asked for them."""


def parse_bandwidth(text: str) -> Perftest:
    """Reads one end's output; stderr may be mixed in.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = [line.text for line in lines_of(text)]
    header = header_of(lines)
    words = header.title.split()
    if "BW" not in words:
        raise ResultFormatError(f"{header.title} is no bandwidth test")
    table = table_of(header.title, lines)
    return Perftest(
        title=header.title,
        role=header.role,
        both_directions="Bidirectional" in words,
        device=header.device,
        path_mtu_bytes=header.path_mtu_bytes,
        link_type=header.link_type,
        gid_index=header.gid_index,
        queue_pairs=header.queue_pairs,
        rdma_cm=header.rdma_cm,
        local_gid=header.local_gid,
        remote_gid=header.remote_gid,
        rows=_rows(table),
        notes=header.notes,
        counters=table.counters,
    )


def _rows(table: Table) -> tuple[Row, ...]:
    units = [column[len("BW average[") : -1] for column in table.columns if column.startswith("BW average[")]
    if len(units) != 1:
        raise ResultFormatError(f"{table.title}: the table's header has no average bandwidth")
    if units[0] not in FACTOR_OF_UNIT:
        raise ResultFormatError(f"{table.title}: bandwidth in {units[0]}; known are {', '.join(FACTOR_OF_UNIT)}")
    average, rate = table.index(f"BW average[{units[0]}]"), table.index(RATE)
    iterations = table.index("#iterations")
    cpu = table.index(CPU) if CPU in table.columns else None
    rows = []
    for cells in table.rows:
        if decimals(cells[average]) not in (2, 6) or decimals(cells[rate]) != 6:
            raise ResultFormatError(f"{table.title}: a damaged row: {' '.join(cells)[:80]}")
        row = Row(
            message_bytes=integer(cells[0], f"{table.title}: message size"),
            iterations=integer(cells[iterations], f"{table.title}: iterations"),
            average_gbit_s=number(cells[average], table.title) * FACTOR_OF_UNIT[units[0]],
            message_rate_mpps=number(cells[rate], table.title),
            cpu_percent=number(cells[cpu], table.title) if cpu is not None else None,
        )
        _refuse_contradiction(
            row, rounding(cells[average]) * FACTOR_OF_UNIT[units[0]], rounding(cells[rate]), table.title
        )
        rows.append(row)
    return tuple(rows)


def _refuse_contradiction(row: Row, average_rounding: float, rate_rounding: float, title: str) -> None:
    """The message rate says the bandwidth in other words, so a damaged digit of either shows."""
    gbit_of_mpps = row.message_bytes * 8 / 1e3
    apart = abs(row.message_rate_mpps * gbit_of_mpps - row.average_gbit_s)
    allowed = average_rounding + rate_rounding * gbit_of_mpps
    if row.average_gbit_s <= 0 or apart > allowed * 1.001 + 1e-12:
        raise ResultFormatError(
            f"{title}: {row.average_gbit_s:.4f} Gbit/s and {row.message_rate_mpps} million messages of "
            f"{row.message_bytes} bytes a second contradict each other"
        )

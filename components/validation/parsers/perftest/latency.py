"""Reads the text that perftest's latency tests print, with and without percentiles, and of `-D`. Judges nothing."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal

from components.validation.parsers.lines import ResultFormatError, decimals, integer, lines_of, number, rounding
from components.validation.parsers.perftest.header import header_of
from components.validation.parsers.perftest.table import CPU, Table, table_of

ROUND_TRIP = {"RDMA_Read", "Atomic"}
"""First words of the titles whose times are whole round trips; those of the others are half of one."""
LEAST, GREATEST, TYPICAL = "t_min[usec]", "t_max[usec]", "t_typical[usec]"
AVERAGE, DEVIATION = "t_avg[usec]", "t_stdev[usec]"
P99, P999, TPS = "99% percentile[usec]", "99.9% percentile[usec]", "tps average"
ORDER = (LEAST, GREATEST, TYPICAL, AVERAGE, DEVIATION, P99, P999, TPS)
"""Of all versions, whatever of them each one has."""
SUMMED_UP_TO_US = 46_340
"""perftest squares each distance from the mean in 32 bits: behind this one the deviation is a wrong number or -nan."""
COLUMNS = (("#bytes", "#iterations"), ("#bytes", "#iterations", CPU))
"""What stands around them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyRow:
    """One message size, in microseconds. What a version or mode does not print is None."""

    message_bytes: int
    iterations: int
    typical_us: float | None
    """The median."""
    average_us: float | None
    least_us: float | None
    greatest_us: float | None
    """Without the two slowest, which perftest leaves out."""
    p99_us: float | None
    p999_us: float | None

    @property
    def value_us(self) -> float:
        """What stands for the row: the median, and of a run by time, which keeps no single times, the mean."""
        value = self.typical_us if self.typical_us is not None else self.average_us
        if value is None:
            raise ValueError("a row of neither median nor mean is never made")
        return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """What one end of a latency test printed: each end has measured by itself."""

    title: str
    """Such as `RDMA_Write Latency Test`."""
    role: Literal["client", "server"]
    round_trip: bool
    """Times are there and back again, as reads and atomics print them; else one way."""
    device: str
    path_mtu_bytes: int
    link_type: str
    gid_index: int | None
    rdma_cm: bool
    local_gid: IPv4Address | IPv6Address | None
    remote_gid: IPv4Address | IPv6Address | None
    rows: tuple[LatencyRow, ...]
    notes: tuple[str, ...]
    counters: dict[str, int]


def parse_latency(text: str) -> Latency:
    """Reads one end's output; stderr may be mixed in.

    A latency stands in the text only once: a row in which a digit was exchanged for another may still be in order.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    lines = [line.text for line in lines_of(text)]
    header = header_of(lines)
    words = header.title.split()
    if "Latency" not in words:
        raise ResultFormatError(f"{header.title} is no latency test")
    table = table_of(header.title, lines)
    return Latency(
        title=header.title,
        role=header.role,
        round_trip=words[0] in ROUND_TRIP,
        device=header.device,
        path_mtu_bytes=header.path_mtu_bytes,
        link_type=header.link_type,
        gid_index=header.gid_index,
        rdma_cm=header.rdma_cm,
        local_gid=header.local_gid,
        remote_gid=header.remote_gid,
        rows=tuple(_row(table, cells, round_trip=words[0] in ROUND_TRIP) for cells in table.rows),
        notes=header.notes,
        counters=table.counters,
    )


def _row(table: Table, cells: tuple[str, ...], *, round_trip: bool) -> LatencyRow:
    known, others = ([name for name in table.columns if (name in ORDER) is there] for there in (True, False))
    said = {name: number(cells[table.index(name)], f"{table.title}: {name}") for name in known if name != DEVIATION}
    if DEVIATION in known and _adds_up(said):
        said[DEVIATION] = number(cells[table.index(DEVIATION)], f"{table.title}: {DEVIATION}")
    if tuple(others) not in COLUMNS or known != [name for name in ORDER if name in known]:
        raise ResultFormatError(f"{table.title}: columns that no version has: {', '.join(table.columns)[:120]}")
    if TYPICAL not in said and not {AVERAGE, TPS} <= set(said):
        raise ResultFormatError(f"{table.title}: no median among the columns: cycles instead of time?")
    if any(decimals(cells[table.index(name)]) != 2 for name in said):
        raise ResultFormatError(f"{table.title}: a damaged row: {' '.join(cells)[:80]}")
    if any(value < 0 for value in said.values()) or said.get(TYPICAL, said.get(AVERAGE)) == 0:
        raise ResultFormatError(f"{table.title}: a time of nothing or less: {' '.join(cells)[:80]}")
    _refuse_disorder(table, said)
    if TPS in said and AVERAGE in said:
        _refuse_wrong_rate(table, cells, said, trips=1 if round_trip else 2)
    return LatencyRow(
        message_bytes=integer(cells[0], f"{table.title}: message size"),
        iterations=integer(cells[table.index("#iterations")], f"{table.title}: iterations"),
        typical_us=said.get(TYPICAL),
        average_us=said.get(AVERAGE),
        least_us=said.get(LEAST),
        greatest_us=said.get(GREATEST),
        p99_us=said.get(P99),
        p999_us=said.get(P999),
    )


def _adds_up(said: dict[str, float]) -> bool:
    """Whether the deviation can be believed."""
    average = said.get(AVERAGE, 0.0)
    farthest = max(abs(said.get(name, average) - average) for name in (LEAST, GREATEST))
    return farthest < SUMMED_UP_TO_US


def _refuse_disorder(table: Table, said: dict[str, float]) -> None:
    """Statistics of the same times: a swapped column or a lost decimal point breaks their order."""
    ordered = [said[name] for name in (LEAST, TYPICAL, P99, P999, GREATEST) if name in said]
    deviation = said.get(DEVIATION, 0.0)
    in_order = ordered == sorted(ordered)
    if in_order and AVERAGE in said and LEAST in said and GREATEST in said:
        in_order = said[LEAST] <= said[AVERAGE] <= said[GREATEST] and deviation <= said[GREATEST] - said[LEAST]
        if DEVIATION in said and TYPICAL in said:
            # mean and median lie within one deviation; perftest cuts each distance to whole microseconds
            in_order = in_order and abs(said[AVERAGE] - said[TYPICAL]) <= deviation + 1.01
    if not in_order:
        numbers = ", ".join(f"{name} {value}" for name, value in said.items())
        raise ResultFormatError(f"{table.title}: times out of order: {numbers[:160]}")


def _refuse_wrong_rate(table: Table, cells: tuple[str, ...], said: dict[str, float], trips: int) -> None:
    """Round trips a second are the same time in other words."""
    average, rate = said[AVERAGE], said[TPS]
    average_rounding, rate_rounding = rounding(cells[table.index(AVERAGE)]), rounding(cells[table.index(TPS)])
    by_rate_us = 1e6 / rate / trips if rate > 0 else 0.0
    if rate <= 0 or abs(by_rate_us - average) > average_rounding * 1.001 + by_rate_us * rate_rounding / rate:
        raise ResultFormatError(f"{table.title}: {average} us and {rate} round trips a second contradict each other")

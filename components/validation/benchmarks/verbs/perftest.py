"""Reads what perftest prints, in all versions since 2016: header, table, and why a run failed.
Judges nothing.
"""

import re
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from itertools import pairwise

from components.validation.parsers import (
    INTEGER,
    NUMBER,
    ResultFormatError,
    decimals,
    integer,
    lines_of,
    number,
    rounding,
)
from stacks.frozen import frozen
from stacks.safe_yaml import load_beside
from stacks.words import plural

_TITLE = re.compile(r"^\s*([A-Z][A-Za-z_]*(?: [A-Z][A-Za-z_]*){0,5} Test)\s*$")
_WORDS = {
    *(
        "Send",
        "Send_imm",
        "RDMA_Write",
        "RDMA_Write_imm",
        "RDMA_Read",
        "Atomic",
        "CMP_AND_SWAP",
        "FETCH_AND_ADD",
    ),
    *("Bidirectional", "Post", "List", "BW", "Latency", "Multicast", "Test"),
}
"""All that perftest makes titles of: a damaged word must not turn a sum of two directions into
one."""
_LABELS = {
    "device": re.compile(r"\bDevice\s*: (\S+)"),
    "mtu": re.compile(r"^\s*Mtu\s*: ([0-9]{1,6})\[B\]\s*$"),
    "link": re.compile(r"^\s*Link type\s*: (\S+)\s*$"),
    "gid": re.compile(r"^\s*GID index\s*: ([0-9]{1,4})\s*$"),
    "cm": re.compile(r"^\s*rdma_cm QPs\s*: (ON|OFF)\s*$"),
}
_NEEDED = ("device", "mtu", "link", "cm")


@frozen
class PrintedRow:
    """One message size.

    The peak of a bandwidth is left out: nothing else in the text confirms it, and no version prints
    it always.
    """

    message_bytes: int
    iterations: int
    """Over all queue pairs."""
    value: float
    """Average bandwidth in 10^9 bits a second, of a bidirectional test the sum of both directions;
    or the median latency in us, of a run by time, which keeps no single times, the mean."""
    tail: float | None = None
    """99th percentile of a latency."""


@frozen
class Printed:
    """The output of one end. Of a bandwidth test both ends print the client's numbers."""

    title: str
    device: str
    path_mtu_bytes: int
    """With rdma_cm this is the port's active MTU, not necessarily the path's; without it, the
    path's."""
    link_type: str
    gid_index: int | None
    rdma_cm: bool
    local_gid: IPv4Address | IPv6Address | None
    remote_gid: IPv4Address | IPv6Address | None
    rows: tuple[PrintedRow, ...] = ()
    """Of the table; empty where only the header was read."""


def header_of(text: str) -> Printed:
    """Reads the header of one end's output.

    Raises:
        ResultFormatError: when there is none, more than one, or one that lacks what every version
            prints.
    """
    return _header_of([line.text for line in lines_of(text)])


def _header_of(lines: list[str]) -> Printed:
    titles = [match[1] for match in map(_TITLE.match, lines) if match]
    if not titles:
        raise ResultFormatError(f"no perftest output: no title among {plural(len(lines), 'line')}")
    if len(titles) > 1:
        raise ResultFormatError(f"{len(titles)} perftest outputs in one: {', '.join(titles)[:80]}")
    title = titles[0]
    if unknown := [word for word in title.split() if word not in _WORDS]:
        raise ResultFormatError(f"{title}: unknown word {unknown[0]} in the title")
    printed = {key: _only(pattern, lines, f"{title}: {key}") for key, pattern in _LABELS.items()}
    if missing := [key for key in _NEEDED if printed[key] is None]:
        raise ResultFormatError(f"{title}: the header lacks {', '.join(missing)}: cut short")
    gid = printed["gid"]
    gid_index = int(gid) if gid else None
    return Printed(
        title=title,
        device=str(printed["device"]),
        path_mtu_bytes=int(str(printed["mtu"])),
        link_type=str(printed["link"]),
        gid_index=gid_index,
        rdma_cm=printed["cm"] == "ON",
        local_gid=_gid_after("local address", lines),
        remote_gid=_gid_after("remote address", lines),
    )


def _only(pattern: re.Pattern[str], lines: list[str], what: str) -> str | None:
    values = {match[1] for match in map(pattern.search, lines) if match}
    if len(values) > 1:
        raise ResultFormatError(f"{what}: two values, {' and '.join(sorted(values))[:60]}")
    return values.pop() if values else None


def _gid_after(label: str, lines: list[str]) -> IPv4Address | IPv6Address | None:
    """The GID in the line after `label`; perftest prints its sixteen bytes in decimal."""
    for line, following in pairwise(lines):
        if (
            label in line
            and line.strip().startswith(label)
            and following.strip().startswith("GID:")
        ):
            words = following.split("GID:")[1].strip().split(":")
            if len(words) != 16 or not all(
                re.fullmatch("[0-9]{1,3}", word) and int(word) < 256 for word in words
            ):
                return None
            address = IPv6Address(bytes(map(int, words)))
            return address.ipv4_mapped or address
    return None


CPU = "CPU_Util[%]"
_COLUMN = re.compile(r"#[a-z]+|tps average|[A-Za-z0-9][A-Za-z0-9.%_ ]*\[[^\]\[]{1,12}%?\]")
_RULE = re.compile(r"^\s*-{20,}\s*$")
_ROW = re.compile(rf"^\s*{INTEGER}(?:\s+(?:{NUMBER}|-?nan))+\s*$")
"""The reader of a cell decides whether it may be nan."""
_LIKE_A_ROW = re.compile(r"^\s*[0-9.]")


@frozen
class Table:
    """Cells as printed; each row has as many as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def index(self, name: str) -> int:
        """The position of a column.

        Raises:
            ResultFormatError: if it is missing or there twice.
        """
        if self.columns.count(name) != 1:
            raise ResultFormatError(
                f"{self.title}: the table has {self.columns.count(name)} columns {name}, not one"
            )
        return self.columns.index(name)


def table_of(title: str, lines: list[str]) -> Table:
    """Reads the one table; lines of others between its rows do no harm as long as they do not begin
    with a number.

    Raises:
        ResultFormatError: when the table is cut, doubled, empty, or a row does not fit its header.
    """
    starts = [i for i, line in enumerate(lines) if line.strip().startswith("#bytes")]
    if not starts:
        raise ResultFormatError(f"{title}: no table: the test ended before it measured")
    if len(starts) > 1:
        raise ResultFormatError(f"{title}: {len(starts)} tables in one output")
    start = starts[0]
    columns = tuple(" ".join(column.split()) for column in _COLUMN.findall(lines[start]))
    rest = _COLUMN.sub("", lines[start]).strip()
    if columns[:1] != ("#bytes",) or "#iterations" not in columns or rest:
        raise ResultFormatError(f"{title}: unknown columns: {lines[start].strip()[:80]}")
    end = next((i for i, line in enumerate(lines) if i > start and _RULE.match(line)), None)
    if end is None:
        raise ResultFormatError(f"{title}: the table has no end: cut short")
    rows = tuple(
        _cells(title, columns, line) for line in lines[start + 1 : end] if _LIKE_A_ROW.match(line)
    )
    if not rows:
        raise ResultFormatError(f"{title}: the table has no row: nothing was measured")
    sizes = [int(row[0]) for row in rows]
    if len(rows) > 1 and any(later != 2 * earlier for earlier, later in pairwise(sizes)):
        raise ResultFormatError(
            f"{title}: sizes do not double from row to row: a row is missing or damaged"
        )
    return Table(title=title, columns=columns, rows=rows)


def _header_and_table(text: str, word: str, kind: str) -> tuple[Printed, Table]:
    """The header and the table of a test with this word in its title."""
    lines = [line.text for line in lines_of(text)]
    header = _header_of(lines)
    if word not in header.title.split():
        raise ResultFormatError(f"{header.title} is not a {kind} test")
    return header, table_of(header.title, lines)


def _cells(title: str, columns: tuple[str, ...], line: str) -> tuple[str, ...]:
    cells = tuple(line.split())
    if not _ROW.match(line):
        raise ResultFormatError(f"{title}: a damaged row: {line.strip()[:80]}")
    if len(cells) != len(columns):
        raise ResultFormatError(
            f"{title}: {plural(len(cells), 'value')} under {plural(len(columns), 'column')}: "
            f"{line.strip()[:80]}"
        )
    return cells


MIB_S_IN_GBIT_S = 2**20 * 8 / 1e9
"""perftest's MB/sec and MiB/sec are both 2^20 bytes; its Gb/sec is 10^9 bits
(perftest_parameters.c)."""
FACTOR_OF_UNIT = {"Gb/sec": 1.0, "MB/sec": MIB_S_IN_GBIT_S, "MiB/sec": MIB_S_IN_GBIT_S}
RATE = "MsgRate[Mpps]"


def parse_bandwidth(text: str) -> Printed:
    """Reads one end's output; stderr may be mixed in.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    header, table = _header_and_table(text, "BW", "bandwidth")
    return replace(header, rows=_rows(table))


def _rows(table: Table) -> tuple[PrintedRow, ...]:
    averages = [column for column in table.columns if column.startswith("BW average[")]
    units = [column.removeprefix("BW average[")[:-1] for column in averages]
    if len(units) != 1:
        raise ResultFormatError(f"{table.title}: the table's header has no average bandwidth")
    if units[0] not in FACTOR_OF_UNIT:
        raise ResultFormatError(
            f"{table.title}: bandwidth in {units[0]}; known are {', '.join(FACTOR_OF_UNIT)}"
        )
    average, rate = table.index(f"BW average[{units[0]}]"), table.index(RATE)
    iterations = table.index("#iterations")
    rows = []
    for cells in table.rows:
        if decimals(cells[average]) not in (2, 6) or decimals(cells[rate]) != 6:
            raise ResultFormatError(f"{table.title}: a damaged row: {' '.join(cells)[:80]}")
        row = PrintedRow(
            message_bytes=integer(cells[0], f"{table.title}: message size"),
            iterations=integer(cells[iterations], f"{table.title}: iterations"),
            value=number(cells[average], table.title) * FACTOR_OF_UNIT[units[0]],
        )
        allowed = rounding(cells[average]) * FACTOR_OF_UNIT[units[0]]
        _refuse_contradiction(row, allowed, cells[rate], table.title)
        rows.append(row)
    return tuple(rows)


def _refuse_contradiction(row: PrintedRow, allowed: float, rate: str, title: str) -> None:
    """The message rate says the bandwidth in other words, so a damaged digit of either shows."""
    rate_mpps = number(rate, title)
    gbit_of_mpps = row.message_bytes * 8 / 1e3
    allowed += rounding(rate) * gbit_of_mpps
    apart = abs(rate_mpps * gbit_of_mpps - row.value)
    if row.value <= 0 or apart > allowed * 1.001 + 1e-12:
        raise ResultFormatError(
            f"{title}: {row.value:.4f} Gbit/s and {rate_mpps} million messages of "
            f"{row.message_bytes} bytes a second contradict each other"
        )


ROUND_TRIP = {"RDMA_Read", "Atomic"}
"""First words of the titles whose times are whole round trips; those of the others are half of
one."""
LEAST, GREATEST, TYPICAL = "t_min[usec]", "t_max[usec]", "t_typical[usec]"
AVERAGE, DEVIATION = "t_avg[usec]", "t_stdev[usec]"
P99, P999, TPS = "99% percentile[usec]", "99.9% percentile[usec]", "tps average"
ORDER = (LEAST, GREATEST, TYPICAL, AVERAGE, DEVIATION, P99, P999, TPS)
"""The statistics of all versions, in the order in which a version prints its own."""
SUMMED_UP_TO_US = 46_340
"""perftest squares each distance from the mean in 32 bits: behind this one the deviation is a wrong
number or -nan."""
COLUMNS = (("#bytes", "#iterations"), ("#bytes", "#iterations", CPU))


def parse_latency(text: str) -> Printed:
    """Reads one end's output; stderr may be mixed in.

    A latency is in the text only once: a row in which a digit was exchanged for another may still
    be in order.

    Raises:
        ResultFormatError: with the reason; a number is never guessed.
    """
    header, table = _header_and_table(text, "Latency", "latency")
    round_trip = table.title.split()[0] in ROUND_TRIP
    rows = tuple(_row(table, cells, round_trip=round_trip) for cells in table.rows)
    return replace(header, rows=rows)


def _row(table: Table, cells: tuple[str, ...], *, round_trip: bool) -> PrintedRow:
    known = [name for name in table.columns if name in ORDER]
    others = [name for name in table.columns if name not in ORDER]
    times = {}
    for name in known:
        if name != DEVIATION:
            times[name] = number(cells[table.index(name)], f"{table.title}: {name}")
    if DEVIATION in known and _adds_up(times):
        times[DEVIATION] = number(cells[table.index(DEVIATION)], f"{table.title}: {DEVIATION}")
    _refuse_columns(table, known, others)
    _refuse_damage(table, cells, times)
    _refuse_disorder(table, times)
    if TPS in times and AVERAGE in times:
        trips = 1 if round_trip else 2
        _refuse_wrong_rate(table, cells, times, trips)
    return PrintedRow(
        message_bytes=integer(cells[0], f"{table.title}: message size"),
        iterations=integer(cells[table.index("#iterations")], f"{table.title}: iterations"),
        value=times.get(TYPICAL, times.get(AVERAGE, 0.0)),
        tail=times.get(P99),
    )


def _refuse_columns(table: Table, known: list[str], others: list[str]) -> None:
    if tuple(others) not in COLUMNS or known != [name for name in ORDER if name in known]:
        raise ResultFormatError(
            f"{table.title}: columns that no version has: {', '.join(table.columns)[:120]}"
        )
    if TYPICAL not in known and not {AVERAGE, TPS} <= set(known):
        raise ResultFormatError(
            f"{table.title}: no median among the columns: cycles instead of time?"
        )


def _refuse_damage(table: Table, cells: tuple[str, ...], times: dict[str, float]) -> None:
    row = " ".join(cells)[:80]
    if any(decimals(cells[table.index(name)]) != 2 for name in times):
        raise ResultFormatError(f"{table.title}: a damaged row: {row}")
    if min(times.values()) < 0 or times.get(TYPICAL, times.get(AVERAGE)) == 0:
        raise ResultFormatError(f"{table.title}: a time of nothing or less: {row}")


def _adds_up(times: dict[str, float]) -> bool:
    """Whether the deviation can be believed."""
    average = times.get(AVERAGE, 0.0)
    farthest = max(abs(times.get(name, average) - average) for name in (LEAST, GREATEST))
    return farthest < SUMMED_UP_TO_US


def _refuse_disorder(table: Table, times: dict[str, float]) -> None:
    """Statistics of the same times: a swapped column or a lost decimal point breaks their order."""
    ordered = [times[name] for name in (LEAST, TYPICAL, P99, P999, GREATEST) if name in times]
    deviation = times.get(DEVIATION, 0.0)
    in_order = ordered == sorted(ordered)
    if in_order and AVERAGE in times and LEAST in times and GREATEST in times:
        in_order = (
            times[LEAST] <= times[AVERAGE] <= times[GREATEST]
            and deviation <= times[GREATEST] - times[LEAST]
        )
        if DEVIATION in times and TYPICAL in times:
            # mean and median lie within one deviation; perftest cuts each distance to whole
            # microseconds
            in_order = in_order and abs(times[AVERAGE] - times[TYPICAL]) <= deviation + 1.01
    if not in_order:
        numbers = ", ".join(f"{name} {value}" for name, value in times.items())
        raise ResultFormatError(f"{table.title}: times out of order: {numbers[:160]}")


def _refuse_wrong_rate(
    table: Table, cells: tuple[str, ...], times: dict[str, float], trips: int
) -> None:
    """Round trips a second are the same time in other words."""
    average, rate = times[AVERAGE], times[TPS]
    average_rounding, rate_rounding = (
        rounding(cells[table.index(AVERAGE)]),
        rounding(cells[table.index(TPS)]),
    )
    by_rate_us = 1e6 / rate / trips if rate > 0 else 0.0
    if (
        rate <= 0
        or abs(by_rate_us - average) > average_rounding * 1.001 + by_rate_us * rate_rounding / rate
    ):
        raise ResultFormatError(
            f"{table.title}: {average} us and {rate} round trips a second contradict each other"
        )


CAUSES = load_beside(__file__, "causes.yaml")


def cause_of(stderr: str) -> str | None:
    """The most likely cause of a failed run, from perftest's own messages."""
    for known in CAUSES:
        if re.search(known["pattern"], stderr):
            return str(known["cause"])
    return None

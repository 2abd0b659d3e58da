"""Tables of perftest, and single rows of one, which their message rate confirms."""

import re

from components.judge.log_so_far import LogSoFar
from components.judge.results import Facts, Kind, Result, ResultRow
from components.physics.ceilings import PATH_MTUS_BYTES, Framing
from components.validation.benchmarks.verbs.perftest import FACTOR_OF_UNIT
from components.validation.parsers import NUMBER, decimals, rounding

TITLE = re.compile(
    r"^\s*((?:Send|RDMA_Write|RDMA_Read|Atomic|CMP_AND_SWAP|FETCH_AND_ADD|Raw_Eth)"
    r"[A-Za-z_ ]* Test)\s*$"
)
LABEL = re.compile(r"(Device|Number of qps|Mtu|Link type|rdma_cm QPs)\s*: (\S+)")
HEADING = re.compile(
    r"#bytes|#?iterations|tps average|[A-Za-z0-9][A-Za-z0-9.%_ ]*\[[^\]\[]{1,12}\]"
)
ROW = re.compile(rf"^\s*\d{{1,19}}(?:\s+{NUMBER}){{4}}\s*$")
OPERATIONS = {"Send": "send", "RDMA_Write": "write", "RDMA_Read": "read"}
FRAMINGS: dict[str, Framing] = {
    "Ethernet": "roce_v2",
    "IB": "infiniband",
    "InfiniBand": "infiniband",
}
RATE_DECIMALS = 6


def take(log: LogSoFar, line: str, number: int) -> bool:
    """Whether the line is perftest's."""
    if title := TITLE.match(line):
        _begin(log, title[1].split(), number)
        return True
    current = log.current
    if current is None or not current.program.startswith("ib_"):
        return False
    if line.lstrip().startswith("#bytes"):
        current.columns = tuple(HEADING.findall(line))
        current.open = True
        return True
    if re.match(r"^\s*-{20,}\s*$", line):
        current.footer = current.footer or bool(current.open and current.rows)
        current.open = current.open and not current.rows
        return True
    for label, value in LABEL.findall(line):
        _label(current.facts, label, value)
    if "address:" in line:
        current.gids[line.split(maxsplit=1)[0]] = ""
    elif line.strip().startswith("GID:") and current.gids:
        last_end = next(reversed(current.gids))
        current.gids[last_end] = line.strip()
        current.facts.loopback = len(current.gids) == 2 and len({*current.gids.values()}) == 1
    return False


def _begin(log: LogSoFar, words: list[str], number: int) -> None:
    kind: Kind = "bandwidth"
    if "Latency" in words:
        kind = "latency"
    suffix = {"latency": "lat"}.get(kind, "bw")
    result = log.begin(f"ib_{OPERATIONS.get(words[0], 'atomic')}_{suffix}", kind, number)
    result.facts.both_ways = "Bidirectional" in words
    result.open, result.read_row = False, row_of


def _label(facts: Facts, label: str, value: str) -> None:
    if label == "Device":
        facts.device = value
    elif label == "rdma_cm QPs":
        facts.rdma_cm = value == "ON"
    elif label == "Link type":
        facts.framing = FRAMINGS.get(value)
    elif label == "Number of qps":
        if re.fullmatch(r"\d{1,5}", value):
            facts.queue_pairs = int(value)
    elif value in {f"{mtu}[B]" for mtu in PATH_MTUS_BYTES}:
        facts.path_mtu_bytes = int(value[:-3])


def row_of(current: Result, cells: list[str]) -> ResultRow | None:
    """A row in the unit in which bandwidth and message rate agree."""
    columns = current.columns
    whole = not columns or len(cells) == len(columns)
    if current.kind == "latency":
        if columns and whole:
            return _latency(columns, cells)
        return None
    average = 3
    for place, column in enumerate(columns):
        if column.startswith("BW average["):
            average = place
    if not whole or len(cells) <= average + 1 or decimals(cells[average + 1]) != RATE_DECIMALS:
        return None
    size, rate = int(cells[0]), cells[average + 1]
    gbit_per_mpps = size * 8 / 1e3
    for unit, factor in FACTOR_OF_UNIT.items():
        value = float(cells[average]) * factor
        slack = rounding(rate) * gbit_per_mpps + rounding(cells[average]) * factor
        stated = not columns or f"BW average[{unit}]" in columns
        agrees = abs(value - float(rate) * gbit_per_mpps) <= 1.001 * slack + 1e-9
        if stated and value > 0 and agrees:
            return ResultRow(size_bytes=size, value=value)
    return None


def _latency(columns: tuple[str, ...], cells: list[str]) -> ResultRow | None:
    for name in ("t_typical[usec]", "t_avg[usec]"):
        if name in columns:
            value = float(cells[columns.index(name)])
            if value > 0:
                return ResultRow(size_bytes=int(cells[0]), value=value)
    return None


def take_bare_row(log: LogSoFar, line: str, number: int) -> bool:
    """Whether the line is a row without the header that names the unit."""
    if not ROW.match(line):
        return False
    program = "ib_write_bw"
    if log.point_to_point.startswith("ib_"):
        program = log.point_to_point
    row = row_of(Result(program=program, kind="bandwidth", line=number), line.split())
    if row is None:
        return False
    result = log.begin(program, "bandwidth", number)
    result.rows, result.open = [row], False
    result.gaps.append("the header: device, path MTU, link type, queue pairs")
    if not log.point_to_point:
        result.gaps.append("the name of the test: read as ib_write_bw")
    return True

"""The table of a perftest program: its columns by their names, its rows as cells, and the counters below them."""

import re
from dataclasses import dataclass
from itertools import pairwise

from components.validation.parsers.lines import INTEGER, NUMBER, ResultFormatError
from stacks.words import plural

CPU = "CPU_Util[%]"
"""The last column, with `--cpu_util`."""
_COLUMN = re.compile(r"#[a-z]+|tps average|[A-Za-z0-9][A-Za-z0-9.%_ ]*\[[^\]\[]{1,12}%?\]")
_RULE = re.compile(r"^\s*-{20,}\s*$")
_ROW = re.compile(rf"^\s*{INTEGER}(?:\s+(?:{NUMBER}|-?nan))+\s*$")
"""Whether nan may stand in a cell is for those to say who read it."""
_LIKE_A_ROW = re.compile(r"^\s*[0-9.]")
_COUNTER = re.compile(r"^\t([a-z][a-z0-9_]{1,60})=([0-9]{1,19})\s*$")
"""Printed by `-W`: how much a counter of the device grew during the test."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Cells as printed; each row has as many as there are columns."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    counters: dict[str, int]

    def index(self, name: str) -> int:
        """Where a column stands.

        Raises:
            ResultFormatError: when it stands nowhere, or twice.
        """
        if self.columns.count(name) != 1:
            raise ResultFormatError(f"{self.title}: the table has {self.columns.count(name)} columns {name}, not one")
        return self.columns.index(name)


def table_of(title: str, lines: list[str]) -> Table:
    """Reads the one table; lines of others between its rows do no harm as long as they do not begin with a number.

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
    rows = tuple(_cells(title, columns, line) for line in lines[start + 1 : end] if _LIKE_A_ROW.match(line))
    if not rows:
        raise ResultFormatError(f"{title}: the table has no row: nothing was measured")
    sizes = [int(row[0]) for row in rows]
    if len(rows) > 1 and any(later != 2 * earlier for earlier, later in pairwise(sizes)):
        raise ResultFormatError(f"{title}: sizes do not double from row to row: a row is missing or damaged")
    counters = {m[1]: int(m[2]) for line in lines[start + 1 : end] if (m := _COUNTER.match(line))}
    return Table(title=title, columns=columns, rows=rows, counters=counters)


def _cells(title: str, columns: tuple[str, ...], line: str) -> tuple[str, ...]:
    cells = tuple(line.split())
    if not _ROW.match(line):
        raise ResultFormatError(f"{title}: a damaged row: {line.strip()[:80]}")
    if len(cells) != len(columns):
        raise ResultFormatError(
            f"{title}: {plural(len(cells), 'value')} under {plural(len(columns), 'column')}: {line.strip()[:80]}"
        )
    return cells

"""The rows of an nccl-tests result, and what they must not contradict. Judges nothing."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from components.validation.parsers.lines import ResultFormatError

LARGE_BYTES = 2**30
"""From here up busbw is no longer bound by latency (nccl-tests doc/PERFORMANCE.md)."""
ALIGNED_BYTES = 2**20
"""Below, sizes that are rounded to a multiple of the ranks do not grow evenly."""
SLACK = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """One half of a row. GB are 10^9 bytes."""

    time_us: float
    """Bandwidth confirms it for large messages; for small ones it stands in the log only once."""
    algbw_gbyte_s: float
    busbw_gbyte_s: float
    wrong: int | None
    """None in old tables, which print the largest error instead, and where nothing was checked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounding:
    """Half of the last printed digit of each value of a placement."""

    time_us: float
    algbw_gbyte_s: float
    busbw_gbyte_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One message size."""

    size_bytes: int
    out_of_place: Placement
    in_place: Placement | None

    @property
    def halves(self) -> tuple[Placement, ...]:
        """What was measured."""
        return (self.out_of_place, self.in_place) if self.in_place else (self.out_of_place,)


@dataclass(frozen=True, kw_only=True, slots=True)
class NcclLog:
    """One whole table with its footers, and the transport that NCCL reported."""

    ranks: int | None
    """As many as the log lists devices; None where it lists none."""
    rows: tuple[Row, ...]
    average_busbw_gbyte_s: float
    """As the footer prints it, over all rows and both placements: it depends on the sizes, so it is no metric."""
    out_of_bounds: int
    transport: Literal["ib", "socket"] | None

    @property
    def wrong(self) -> int | None:
        """Wrong elements over all rows; None when no row says."""
        counts = [half.wrong for row in self.rows for half in row.halves if half.wrong is not None]
        return sum(counts) if counts else None

    @property
    def large(self) -> tuple[Row, ...]:
        """The rows that say what the fabric carries: from 1 GiB up, else the largest one."""
        return tuple(row for row in self.rows if row.size_bytes >= LARGE_BYTES) or self.rows[-1:]

    @property
    def busbw_gbyte_s(self) -> float:
        """The metric: median out-of-place busbw of the large rows."""
        return round(median([row.out_of_place.busbw_gbyte_s for row in self.large]), 4)


Measured = tuple[int, Placement, Rounding]
"""Size, values and how they were rounded."""


def refuse_contradictions(halves: list[Measured], ranks: int | None) -> None:
    """Each placement says its speed twice, and busbw is algbw times one factor in the whole table.

    Raises:
        ResultFormatError: naming the size whose values do not fit together, or the rest.
    """
    least, most = 0.0, 2.0
    for size_bytes, half, rounding in halves:
        if half.time_us <= 0:
            raise ResultFormatError(f"{size_bytes} bytes in {half.time_us} us: not a measurement")
        slow = size_bytes / (half.time_us + rounding.time_us) / 1e3 * (1 - SLACK)
        fast = size_bytes / max(half.time_us - rounding.time_us, half.time_us / 2) / 1e3 * (1 + SLACK)
        if not slow - rounding.algbw_gbyte_s <= half.algbw_gbyte_s <= fast + rounding.algbw_gbyte_s:
            raise _contradiction(size_bytes, half)
        if size_bytes:
            least = max(least, (half.busbw_gbyte_s - rounding.busbw_gbyte_s * (1 + SLACK)) / fast)
            most = min(most, (half.busbw_gbyte_s + rounding.busbw_gbyte_s * (1 + SLACK)) / slow)
        elif half.busbw_gbyte_s:
            raise _contradiction(size_bytes, half)
        if least > most:
            raise _contradiction(size_bytes, half)
    if not _is_a_factor(least, most, ranks):
        raise ResultFormatError(f"no collective has a busbw of {least:.4f} to {most:.4f} times its algbw: contradict")


def _contradiction(size_bytes: int, half: Placement) -> ResultFormatError:
    return ResultFormatError(
        f"{size_bytes} bytes: {half.time_us} us, algbw {half.algbw_gbyte_s} and busbw {half.busbw_gbyte_s} "
        "GB/s contradict each other or the rows before"
    )


def _is_a_factor(least: float, most: float, ranks: int | None) -> bool:
    """1, (n-1)/n or 2(n-1)/n (nccl-tests doc/PERFORMANCE.md); of any number of ranks when the log does not say."""
    if least <= 1 <= most:
        return True
    for turns in (1, 2):
        low, high = least / turns, most / turns
        if ranks is not None:
            fits = low <= (ranks - 1) / ranks <= high
        else:
            # some n with low <= 1 - 1/n <= high
            fits = low < 1 and (high >= 1 or int(1 / (1 - high) + 1e-9) >= 1 / (1 - low) - 1e-9)
        if fits:
            return True
    return False


def refuse_gaps(sizes: list[int]) -> None:
    """Sizes grow by one factor or one step: a missing or a foreign row shows.

    Raises:
        ResultFormatError: where they do not.
    """
    if any(later < earlier or (later == earlier and later) for earlier, later in pairwise(sizes)):
        raise ResultFormatError("sizes do not grow from row to row: two tables, or a damaged one")
    large = [size for size in sizes if size >= ALIGNED_BYTES]
    steps = [later - earlier for earlier, later in pairwise(large)]
    factors = [later / earlier for earlier, later in pairwise(large)]
    if len(large) > 2 and not (_alike(steps) or _alike(factors)):
        raise ResultFormatError("sizes grow neither by one factor nor by one step: a row is missing or damaged")


def refuse_other_counts(rows: list[tuple[int, int]]) -> None:
    """The count is the size in elements, of one rank or of all, but the same in the whole table.

    Raises:
        ResultFormatError: naming the row that differs from the one before, or has no whole number of bytes an element.
    """
    told = [(size, count) for size, count in rows if count]
    for size, count in told:
        if size % count or size * told[0][1] != told[0][0] * count:
            raise ResultFormatError(f"{size} bytes and {count} elements contradict each other or the rows before")


def _alike(values: list[float] | list[int]) -> bool:
    return max(values) <= min(values) * 1.01


def refuse_wrong_footers(
    halves: list[Measured], average_gbyte_s: float, average_rounding: float, out_of_bounds: int
) -> None:
    """The footer's mean is over all rows, and it counts wrong results if and only if a row does.

    Raises:
        ResultFormatError: when rows and footers contradict each other.
    """
    mean = sum(half.busbw_gbyte_s for _, half, _ in halves) / len(halves)
    allowed = sum(rounding.busbw_gbyte_s for _, _, rounding in halves) / len(halves) + average_rounding
    if abs(mean - average_gbyte_s) > allowed * 1.001:
        raise ResultFormatError(
            f"the rows' mean busbw is {mean:.4f}, the footer says {average_gbyte_s}: rows are missing"
        )
    counts = [half.wrong for _, half, _ in halves if half.wrong is not None]
    if counts and (sum(counts) > 0) != (out_of_bounds > 0):
        raise ResultFormatError(
            f"{sum(counts)} wrong elements in the rows and {out_of_bounds} out of bounds in the footer contradict "
            "each other"
        )

"""The data of charts and tables, computed from a run document. Pure, no drawing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from components.physics.ceilings import PATH_MTUS_BYTES, Path, bandwidth_ceiling
from components.report.lines import test_name
from components.validation.history import Entry
from components.validation.records import CurvePoint, RunRecord, TransferResult
from components.validation.store import RunDocument
from components.validation.summary import Summary
from stacks.benchmarks import VerbsTest
from stacks.words import some

SHOWN_MTUS_BYTES = tuple(mtu for mtu in PATH_MTUS_BYTES if mtu >= 1024)


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """One test on one rail, pair by pair."""

    test: str
    shape: str
    rail: str
    unit: str
    nodes: tuple[str, ...]
    values: dict[tuple[str, str], float]
    """By client and server, in `unit`."""
    failed: frozenset[tuple[str, str]]
    reference: float
    """The value of a share of 1."""
    basis: str

    @property
    def latency(self) -> bool:
        """Less is better."""
        return self.unit == "us"

    def share(self, pair: tuple[str, str]) -> float:
        """How good a pair is against the reference.

        1 is as good as it, less is worse, whatever the unit.
        """
        value = self.values[pair]
        if value <= 0 or self.reference <= 0:
            return 0.0
        return self.reference / value if self.latency else value / self.reference

    def of_node(self, node: str) -> list[float]:
        """The shares of all pairs that a node is an end of."""
        return [self.share(pair) for pair in self.values if node in pair]


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """Curves of one test on one rail, put together: the values of each message size."""

    rail: str
    values: dict[int, list[float]]
    tails: dict[int, list[float]]
    """The 99th percentiles; empty where the tool does not print one of each size."""
    curves: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """One test over message sizes on all rails."""

    test: VerbsTest
    unit: str
    bands: tuple[Band, ...]
    line_rate_gbit_s: float | None
    """None where ports do not report it, where rails differ, and in the simulator; then no ceiling
    is drawn."""

    @property
    def latency(self) -> bool:
        return self.unit == "us"

    @property
    def sizes_bytes(self) -> list[int]:
        return [size for band in self.bands for size in band.values]

    def ceilings(self) -> dict[int, list[tuple[int, float]]]:
        """By path MTU, the most that a port of this rate can carry at each power of two."""
        if self.line_rate_gbit_s is None or self.unit != "Gbit/s":
            return {}
        low, high = min(self.sizes_bytes), max(self.sizes_bytes)
        between = [2**power for power in range(low.bit_length(), (high - 1).bit_length())]
        ceilings = {}
        for mtu_bytes in SHOWN_MTUS_BYTES:
            path = Path(line_rate_gbit_s=self.line_rate_gbit_s, path_mtu_bytes=mtu_bytes)
            points = []
            for size in (low, *between, high):
                points.append((size, bandwidth_ceiling(replace(path, message_bytes=size)).value))
            ceilings[mtu_bytes] = points
        return ceilings


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """One test over the runs."""

    title: str
    unit: str
    runs: tuple[str, ...]
    """When each began, RFC 3339."""
    lines: dict[str, tuple[float | None, ...]]
    """By rail; None where a run has no value."""
    settled: tuple[bool, ...]
    """Whether the run passed."""
    baseline: int | None
    """Which of the runs the last one is compared with."""
    parts: tuple[int, ...]
    """By run: how often the configuration changed before it. Values of different parts are not
    compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MtuLink:
    """One part of a rail's chain of MTUs, from the switch to the queue pair."""

    rail: str
    what: str
    text: str
    """Empty: not known."""
    fault: str = ""
    """Why it cannot be right."""


def matrices(record: RunRecord, summary: Summary) -> list[Matrix]:
    """Each test that ran between pairs, in the order of the record."""
    by_test: dict[tuple[str, str, str], list[TransferResult]] = {}
    for transfer in record.transfers:
        if transfer.shape in ("one_way", "both_ways"):
            by_test.setdefault((transfer.test, transfer.shape, transfer.rail), []).append(transfer)
    bandwidths = [test for test in summary.tests if test.ceiling and test.unit == "Gbit/s"]
    ceilings = {(test.test, test.shape, test.rail): test.ceiling for test in bandwidths}
    drawn = []
    for key, transfers in by_test.items():
        if any(t.has_value for t in transfers):
            drawn.append(_matrix(transfers, ceilings.get(key)))
    return drawn


def _matrix(transfers: list[TransferResult], ceiling: float | None) -> Matrix:
    first, nodes = transfers[0], set[str]()
    for t in transfers:
        nodes |= {t.client, t.server}
    values = {(t.client, t.server): t.value for t in transfers if t.has_value}
    reference, basis = median(values.values()), "the median of the rail"
    if ceiling:
        reference, basis = ceiling, "the ceiling"
    return Matrix(
        test=first.test,
        shape=first.shape,
        rail=first.rail,
        unit=first.unit,
        nodes=tuple(sorted(nodes)),
        values=values,
        failed=frozenset((t.client, t.server) for t in transfers if t.outcome == "failed"),
        reference=reference,
        basis=basis,
    )


def sizes(record: RunRecord) -> list[Sizes]:
    """Each test over message sizes; latency tests last."""
    by_test: dict[str, list[TransferResult]] = {}
    for transfer in record.transfers:
        if transfer.curve and transfer.outcome == "measured":
            by_test.setdefault(transfer.test, []).append(transfer)
    last = sorted(by_test, key=lambda test: (test.endswith("_lat"), test))
    return [_sizes(by_test[test], simulated=record.simulated) for test in last]


def _sizes(transfers: list[TransferResult], *, simulated: bool) -> Sizes:
    rates = {None if simulated else t.line_rate_gbit_s for t in transfers}
    line_rate_gbit_s = rates.pop() if len(rates) == 1 else None
    curves: dict[str, list[tuple[CurvePoint, ...]]] = {}
    for t in transfers:
        curves.setdefault(t.rail, []).append(t.curve)
    return Sizes(
        test=transfers[0].test,
        unit=transfers[0].unit,
        bands=tuple(_band(rail, of_rail) for rail, of_rail in curves.items()),
        line_rate_gbit_s=line_rate_gbit_s,
    )


def _band(rail: str, curves: list[tuple[CurvePoint, ...]]) -> Band:
    points = sorted((point for curve in curves for point in curve), key=_size_of)
    values: dict[int, list[float]] = {}
    tails: dict[int, list[float]] = {}
    for point in points:
        values.setdefault(point.message_bytes, []).append(point.value)
        if point.tail is not None:
            tails.setdefault(point.message_bytes, []).append(point.tail)
    if tails.keys() != values.keys():
        tails = {}
    return Band(rail=rail, values=values, tails=tails, curves=len(curves))


def _size_of(point: CurvePoint) -> int:
    return point.message_bytes


def mtu_chains(document: RunDocument) -> list[tuple[MtuLink, ...]]:
    """Per rail: switch port, PF as declared and found, pods' VF, path MTU, and that in use."""
    return [
        _chain(document, declared.rail, declared.switch_mtu_bytes) for declared in document.rails
    ]


def _chain(document: RunDocument, name: str, switch: int | None) -> tuple[MtuLink, ...]:
    rail, record = document.plan.rail(name), document.record
    in_pods: Mapping[str, int] = {}
    for pod_rail in record.pods.rails if record.pods else ():
        if pod_rail.rail == name:
            in_pods = pod_rail.mtu_bytes
    measured_mtus = {}
    for end in rail.ends:
        facts = record.hosts.get(end.node)
        if facts and facts.mtu_bytes.get(end.interface):
            measured_mtus[end.node] = facts.mtu_bytes[end.interface]
    used = sorted(
        {t.path_mtu_bytes for t in record.transfers if t.rail == name and t.path_mtu_bytes}
    )
    small = f"smaller than the PF's {rail.mtu_bytes}" if switch and switch < rail.mtu_bytes else ""
    low = (
        f"{used[0]} where {rail.path_mtu_bytes} is expected"
        if used and used[0] < rail.path_mtu_bytes
        else ""
    )
    links = (
        ("switch port, declared", switch, small),
        ("PF, declared", rail.mtu_bytes, ""),
        ("PF, found", _range(measured_mtus.values()), _differs(measured_mtus, rail.mtu_bytes)),
        ("VF in pods", _range(in_pods.values()), _differs(in_pods, rail.mtu_bytes)),
        ("path MTU, expected", rail.path_mtu_bytes, ""),
        ("queue pairs used", _range(used), low),
    )
    chain = []
    for what, value, fault in links:
        chain.append(MtuLink(rail=name, what=what, text=str(value or ""), fault=fault))
    return tuple(chain)


def _differs(by_node: Mapping[str, int], expected: int) -> str:
    """The nodes with another MTU."""
    other = [f"{node}: {mtu}" for node, mtu in sorted(by_node.items()) if mtu != expected]
    return f"{some(other, 1)} differs" if other else ""


def _range(values: Iterable[int]) -> str:
    ordered = sorted(set(values))
    return "" if not ordered else " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))


def trends(runs: Sequence[Entry], baseline_run: str = "") -> list[Trend]:
    """A trend per test of the last run; nothing while there is only one run."""
    if len(runs) < 2:
        return []
    drawn = []
    for test, unit in _tests(runs[-1]).items():
        lines = _lines(test, runs)
        if any(len(line) - line.count(None) > 1 for line in lines.values()):
            ids = [run.run_id for run in runs]
            baseline = ids.index(baseline_run) if baseline_run in ids else None
            trend = Trend(
                title=test,
                unit=unit,
                runs=tuple(run.started_at for run in runs),
                lines=lines,
                settled=tuple(run.passed for run in runs),
                baseline=baseline,
                parts=tuple(_parts(runs)),
            )
            drawn.append(trend)
    return drawn


def _tests(run: Entry) -> dict[str, str]:
    """Unit by test."""
    return {_line_of(name)[0]: value.unit for name, value in run.values.items()}


def _lines(test: str, runs: Sequence[Entry]) -> dict[str, tuple[float | None, ...]]:
    """The values of a test by line, one per run."""
    lines: dict[str, list[float | None]] = {}
    for at, run in enumerate(runs):
        for name, value in run.values.items():
            title, line = _line_of(name)
            if title == test:
                lines.setdefault(line, [None] * len(runs))[at] = value.median
    return {line: tuple(values) for line, values in sorted(lines.items())}


def _line_of(name: str) -> tuple[str, str]:
    """Title and line of a value, named after test, shape and rail, or after job and transport."""
    words = name.split(" ")
    return test_name(words[0], words[1]) if len(words) == 3 else words[0], words[-1] if words[
        1:
    ] else "all"


def _parts(runs: Sequence[Entry]) -> Iterator[int]:
    part, before = 0, runs[0].config
    for run in runs:
        part += run.config != before
        before = run.config
        yield part


def short(name: str, most: int = 12) -> str:
    """A node's name for the edge of a chart, cut in the middle: its end makes it unique."""
    return name if len(name) <= most else f"{name[: most - 7]}…{name[-6:]}"


def three(value: float) -> str:
    """Three significant digits, and no powers of ten: what a chart has room for."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.3g}".rstrip(".")

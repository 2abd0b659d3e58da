"""Works the numbers of a report out again from raw outputs, and tells where they differ. Pure."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from components.report.lines import number as shown
from components.report.values import AGAIN, JOB, NCCL_KEY, PLAIN, Measured, from_samples, point_key
from components.validation.judging.statistics import repeats
from components.validation.parsers.nccl import parse_nccl
from components.validation.parsers.perftest import ResultFormatError, parse_bandwidth, parse_latency
from components.validation.parsers.tf_cnn import parse_tf_cnn
from components.validation.parsers.training import parse_training

TOLERANCE = 5e-5
"""Relative; less than half of the fourth digit, which is the last one that is shown."""
ROUNDED = 5e-3
"""A verdict has at least three digits of each number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A number of a report."""

    key: str
    """Of `values`: how it is worked out."""
    value: float
    text: str | None = None
    """As a reader sees it; None in a report for programs."""
    tolerance: float = TOLERANCE
    """Relative: how far it may have been rounded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """What a report says about numbers and the raw outputs behind them."""

    run_id: str
    bundle_sha256: str
    digests: Mapping[str, str]
    """By output, of those that the report lists."""
    outputs: Mapping[str, Measured]
    """By output, of whose transfer it has a value."""
    numbers: tuple[Claim, ...]
    nccl: str
    """The output with the log of the all-reduce; empty when there is none."""
    partial: frozenset[str] = frozenset()
    """Test, shape and rail of groups whose outputs are not all listed: they cannot be worked out again."""

    def open(self, claim: Claim) -> bool:
        """Whether this report does not say enough to work a number out again."""
        begun = (f"{group}{end}" for group in self.partial for end in ":/")
        repeated = (group.replace(f"/{AGAIN}/", f"/{PLAIN}/") for group in self.partial if f"/{AGAIN}/" in group)
        judged = claim.key.endswith(":judged") and claim.key.startswith(tuple(f"{group}/" for group in repeated))
        return judged or claim.key.startswith(tuple(begun))


def differences(claims: Claims, outputs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Every way in which the report and the raw outputs contradict each other, in words."""
    work = _Work(claims)
    for name, text in outputs:
        yield from work.take(name, text)
    yield from (f"{name}: not among the stored outputs" for name in claims.digests if name not in work.seen)
    again = work.numbers()
    for claim in claims.numbers:
        if claims.open(claim):
            continue
        if claim.key not in again:
            yield f"{claim.key}: {claim.value} has no raw output behind it"
        elif abs(again[claim.key] - claim.value) > claim.tolerance * abs(claim.value):
            yield f"{claim.key}: the report says {claim.value}, the raw outputs {again[claim.key]}"
        if claim.text is not None and claim.text != shown(claim.value):
            yield f"{claim.key}: the page shows {claim.text} for {claim.value}"


class _Work:
    """What follows from the outputs seen so far."""

    def __init__(self, claims: Claims) -> None:
        self.claims = claims
        self.seen: set[str] = set()
        self._samples: dict[Measured, dict[str, float]] = {}
        self._again: dict[str, float] = {}
        self._jobs = {key.split(":", 3)[3]: key for claim in claims.numbers if (key := claim.key).startswith(JOB)}
        """By log, the number that it gives."""

    def take(self, name: str, text: str) -> Iterator[str]:
        """Looks at one output; tells what is wrong with it."""
        claims = self.claims
        self.seen.add(name)
        if name in claims.digests and hashlib.sha256(text.encode()).hexdigest() != claims.digests[name]:
            yield f"{name}: its SHA-256 is not the one in the report"
        try:
            if measured := claims.outputs.get(name):
                self._read(name, text, measured)
            if name == claims.nccl:
                self._again[NCCL_KEY] = parse_nccl(output_of(text)).busbw_gbyte_s
            if key := self._jobs.get(name):
                self._again[key] = job_value(key, output_of(text))
        except ResultFormatError as error:
            yield f"{name}: {error}"

    def _read(self, name: str, text: str, measured: Measured) -> None:
        message_bytes, value = read_value(measured[0], text)
        if measured[1] == "sizes":
            self._again[point_key(measured, message_bytes)] = value
        else:
            self._samples.setdefault(measured, {})[name] = value

    def numbers(self) -> dict[str, float]:
        """Everything that can be worked out again, by key."""
        return self._again | from_samples({measured: tuple(of.values()) for measured, of in self._samples.items()})


def read_value(test: str, text: str) -> tuple[int, float]:
    """Message size and value of one output of perftest.

    Raises:
        ResultFormatError: when it gives none.
    """
    said = output_of(text)
    if test.endswith("_lat"):
        latency = parse_latency(said).rows[0]
        return latency.message_bytes, latency.value_us
    bandwidth = parse_bandwidth(said).rows[0]
    return bandwidth.message_bytes, bandwidth.average_gbit_s


def job_value(key: str, log: str) -> float:
    """The median of a job's values without outliers.

    Raises:
        ResultFormatError: when its log gives none.
    """
    _, program, ranks, _ = key.split(":", 3)
    if program == "nccl_all_reduce":
        samples = tuple(row.out_of_place.busbw_gbyte_s for row in parse_nccl(log).large)
    elif program == "tf_cnn":
        samples = (parse_tf_cnn(log, int(ranks)).total / int(ranks),)
    else:
        samples = parse_training(log).iterations_per_device
    return repeats(samples).median


def output_of(text: str) -> str:
    """What a program printed, without what the runner wrote around it: command, exit code and standard error."""
    inner = re.sub(r"\A(\$ [^\n]*\n)?(exit [^\n]*\n)?", "", text)
    return inner.partition("\n[stderr]\n")[0]

"""A number in a sentence, such as `all_reduce busbw 231 GB/s`. Nothing confirms it."""

import re

from components.judge.results import LARGE_BYTES, Kind, Result, ResultRow
from components.validation.benchmarks.verbs.perftest import MIB_S_IN_GBIT_S

COLLECTIVES = (
    "all_reduce|all_gather|reduce_scatter|alltoall|sendrecv|broadcast|reduce|gather|"
    "scatter|hypercube"
)
PROGRAM = re.compile(
    rf"\b(?:({COLLECTIVES})_perf|t ({COLLECTIVES})|(ib_(?:write|send|read|atomic)_(?:bw|lat))|"
    r"(osu_\w+|ucx_perftest))\b"
)
NUMBER_AND_UNIT = re.compile(
    r"(?<![\w.])(\d{1,6}(?:,\d{3})*(?:\.\d{1,6})?)\s*"
    r"(GB/s|Gb/s|Gbps|Gbit/s|GBps|MB/s|MiB/s|TB/s|Mb/s)(?!\w)"
)
COMPARED = re.compile(r"(?:[<>~]|\b(?:than|expect(?:s|ed|ing)?|theoretical|max|up to))\s*$")
"""Before a number that nobody measured."""
LEAST_SIZE = re.compile(r"(?:\s-b |\bminBytes )(\d{1,12})([KMG]?)")
AVERAGE = re.compile(r"^#?\s*Avg bus bandwidth\s*:\s*(\d{1,6}(?:\.\d{1,6})?)")
UNIT_IN_GBIT = {
    "GB/s": 8.0,
    "GBps": 8.0,
    "TB/s": 8000.0,
    "MB/s": 8e-3,
    "MiB/s": MIB_S_IN_GBIT_S,
    "Mb/s": 1e-3,
}
OF_COLLECTIVES = re.compile(
    r"busbw|bus ?bandwidth|nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|sendrecv|alltoall",
    re.IGNORECASE,
)
OF_VERBS = re.compile(r"ib_\w+_bw|perftest|ucx|osu_\w*bw|rdma", re.IGNORECASE)
SPELLINGS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
}


def claim_in(line: str, number: int, collective: str, *, cut: bool) -> Result | None:
    """The result that a sentence claims.

    Args:
        line: the sentence.
        number: of the line.
        collective: the test that the text named before.
        cut: whether the line may have lost its end.
    """
    if "/s" not in line and "ps" not in line and "Avg" not in line:
        return None
    average = AVERAGE.match(line)
    if average and not cut:
        result = _claim(collective or "all_reduce", "collective", float(average[1]), line, number)
        result.average = True
        return result
    for match in NUMBER_AND_UNIT.finditer(line):
        if not COMPARED.search(line[: match.start()].rstrip("*") + " "):
            break
    else:
        return None
    program, kind = _test_of(line)
    value = float(match[1].replace(",", "")) * UNIT_IN_GBIT.get(match[2], 1.0)
    if kind == "collective":
        value /= 8
    result = _claim(program, kind, value, line, number)
    averages = bool(re.search(r"\b(?:average|avg|mean)\b", line, re.IGNORECASE))
    result.average = averages and _least_bytes(line) < LARGE_BYTES
    result.facts.gpu_memory = "--use_cuda" in line
    result.facts.both_ways = program == "osu_bibw" or "bidirectional" in line
    result.facts.loopback = "loopback" in line.lower()
    return result


def _least_bytes(line: str) -> int:
    """The smallest message that a command line asks for."""
    size = LEAST_SIZE.search(line)
    if size is None:
        return 0
    return int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]


def _claim(program: str, kind: Kind, value: float, line: str, number: int) -> Result:
    row = ResultRow(size_bytes=None, value=value)
    result = Result(program=program, kind=kind, line=number, rows=[row], claim=True)
    result.notes = [line[:300]]
    result.gaps.append("the log: a number alone confirms nothing")
    return result


def _test_of(line: str) -> tuple[str, Kind]:
    """The test that a sentence names first, by its program or by a word for it."""
    collective, verbs = OF_COLLECTIVES.search(line), OF_VERBS.search(line)
    named = PROGRAM.search(line)
    if collective and not (verbs and verbs.start() < collective.start()):
        if named and (named[1] or named[2]):
            return named[1] or named[2], "collective"
        word = collective[0].lower()
        word = SPELLINGS.get(word.replace("_", ""), word)
        if "_" in word or word in ("sendrecv", "alltoall"):
            return word, "collective"
        return "all_reduce", "collective"
    if verbs:
        program = "ib_write_bw"
        if named:
            program = named[3] or named[4] or program
        return program, "bandwidth"
    return "", "unknown"

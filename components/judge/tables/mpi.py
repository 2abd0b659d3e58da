"""Tables of the OSU and Intel MPI benchmarks. Each number is printed once, unconfirmed."""

import re
from collections.abc import Mapping

from components.judge.log_so_far import LogSoFar
from components.judge.results import Kind, Result, ResultRow
from components.physics.collectives import busbw_factor

OSU = re.compile(r"^# OSU (?:MPI|OpenSHMEM|NCCL)\S* (.+?) (?:Latency )?Test")
IMB = re.compile(r"^# Benchmarking (\w+)")
PROCESSES = re.compile(r"^# ?#processes = (\d{1,6})")
ON_DEVICE = re.compile(r"^# Send Buffer on .*DEVICE")
OSU_PROGRAMS: Mapping[str, tuple[str, Kind]] = {
    "Bandwidth": ("osu_bw", "bandwidth"),
    "Bi-Directional Bandwidth": ("osu_bibw", "bandwidth"),
    "Multiple Bandwidth / Message Rate": ("osu_mbw_mr", "bandwidth"),
    "Allreduce": ("osu_allreduce", "collective"),
    "Latency": ("osu_latency", "latency"),
}
IMB_PROGRAMS: Mapping[str, Kind] = {
    "Allreduce": "collective",
    "PingPong": "bandwidth",
    "Uniband": "bandwidth",
    "Biband": "bandwidth",
    "Sendrecv": "bandwidth",
    "Exchange": "bandwidth",
}
BOTH_WAYS = ("osu_bibw", "IMB Biband", "IMB Sendrecv", "IMB Exchange")
MESSAGES_AT_ONCE = {"IMB Sendrecv": 2, "IMB Exchange": 4}
MBYTES = (1e6, 2**20)
"""IMB's MB, now and in old versions: the time says which."""


def take(log: LogSoFar, line: str, number: int) -> bool:
    """Whether the line is the head of such a table."""
    if osu := OSU.match(line):
        if osu[1] not in OSU_PROGRAMS:
            return False
        program, kind = OSU_PROGRAMS[osu[1]]
        _begin(log, program, kind, number)
        return True
    if imb := IMB.match(line):
        if imb[1] in IMB_PROGRAMS:
            _begin(log, f"IMB {imb[1]}", IMB_PROGRAMS[imb[1]], number)
        return True
    current = log.current
    if current is not None and (processes := PROCESSES.match(line)):
        current.facts.ranks = int(processes[1])
    if current is not None and ON_DEVICE.match(line):
        current.facts.gpu_memory = True
    return False


def _begin(log: LogSoFar, program: str, kind: Kind, number: int) -> None:
    result = log.begin(program, kind, number)
    result.facts.both_ways, result.read_row = program in BOTH_WAYS, _row


def _row(current: Result, cells: list[str]) -> ResultRow | None:
    size = int(cells[0])
    numbers = [float(cell) for cell in cells]
    if size == 0 or "." not in cells[-1] or min(numbers[1:]) <= 0:
        return None
    if current.program in ("osu_bw", "osu_bibw", "osu_mbw_mr"):
        return ResultRow(size_bytes=size, value=numbers[1] * 8e-3)
    if current.program == "osu_latency":
        return ResultRow(size_bytes=size, value=numbers[1])
    if current.kind != "collective":
        return _imb_row(current.program, numbers)
    time_us = numbers[1]
    if current.program == "IMB Allreduce":
        time_us = numbers[-1]
    algbw = size / time_us / 1e3
    busbw = algbw * busbw_factor("all_reduce", current.facts.ranks or 1)
    return ResultRow(size_bytes=size, value=busbw, algbw_gbyte_s=algbw)


def _imb_row(program: str, numbers: list[float]) -> ResultRow | None:
    if len(numbers) < 4:
        return None
    size, mbytes, time_us = int(numbers[0]), numbers[-1], numbers[2]
    if program in MESSAGES_AT_ONCE:
        time_us = numbers[3] / MESSAGES_AT_ONCE[program]
    timed = program not in ("IMB Uniband", "IMB Biband")
    for unit in MBYTES:
        if not timed or abs(size / time_us * 1e6 / unit / mbytes - 1) < 0.02:
            return ResultRow(size_bytes=size, value=mbytes * unit * 8 / 1e9)
    return None

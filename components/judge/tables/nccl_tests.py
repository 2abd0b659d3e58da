"""Tables of nccl-tests and rccl-tests, also where Markdown took the number signs."""

import re

from components.judge.log_so_far import LogSoFar
from components.judge.results import Result, ResultRow
from components.physics.collectives import busbw_factor, ranks_of
from components.validation.benchmarks.nccl.table import (
    NcclPlacement,
    Rounding,
    refuse_contradictions,
)
from components.validation.parsers import NUMBER, ResultFormatError, rounding
from stacks.words import plural

HEAD = re.compile(r"^#?\s+size\s+count\s.*\bbusbw\b")
RANK = re.compile(r"^#?\s+Rank\s+(\d{1,6}) .*?\bon\s+(\S+)(?:\s+device\s+\d+\s+\[\S+\] ?(.*))?$")
FOOTER = re.compile(r"^#?\s*(Out of bounds values|Avg bus bandwidth)\b")
ROW = re.compile(
    r"^\s*(\d{1,19})\s+(\d{1,19})\s+((?:u?int|float|double|half|bfloat|fp|f)\w*)\s+"
    r"(?:([a-z]\w*)\s+)?(?:-?\d+(?:\[\d+\])?\s+)??"
    r"(\d\S*)\s+(\d\S*)\s+(\d\S*)\s+(N/A|\d\S*)(?:\s+(\S.*))?$"
)
INNER_TAG = re.compile(r"(?:^|(?<=[\w.]))\[\d{1,6}\] ")
"""Some launchers tag what one rank prints piece by piece in the middle of a line too."""
SUMS = ("sum", "prod", "max", "min", "avg")
ALONE_GBYTE_S = 0.02
"""From this algbw on, a busbw of 0.00 is that of one rank."""
LEAST_ERROR = 1.0
"""Old tables print the largest error in place of a count; wrong data differ by more."""
SEPARATE_HINT = (
    "build nccl-tests with MPI=1, start it with the same MPI, and check for one list `# Rank` "
    "from 0 on"
)


def take(log: LogSoFar, line: str, number: int) -> bool:
    """Whether the line belongs to such a table."""
    if rank := RANK.match(line):
        current = log.current
        if current is not None and current.kind == "collective" and current.rows:
            current.open = False
        log.facts.listed_ranks.append((int(rank[1]), rank[2]))
        log.facts.gpu = log.facts.gpu or (rank[3] or "").strip() or None
        return True
    if HEAD.match(line):
        log.begin(log.collective, "collective", number)
        return True
    if footer := FOOTER.match(line):
        _footer(log.current, line, average=footer[1].startswith("Avg"))
        return log.current is not None
    if "] " in line:
        line = INNER_TAG.sub(" ", line)
    match = ROW.match(line)
    if match is None:
        return False
    current = log.current
    if current is None or current.kind != "collective" or not current.open:
        current = log.begin(log.collective, "collective", number)
        current.gaps.append("the table's header")
    _row(current, match)
    return True


def _footer(current: Result | None, line: str, *, average: bool) -> None:
    if current is None:
        return
    current.footer = current.footer or average
    current.open = not current.footer
    if line.rstrip().endswith("FAILED"):
        current.find("WRONG_VALUES", line.strip("# \n"))
    elif line.rstrip().endswith("0 OK"):
        # in place, alltoall has no result to check, and old versions print an error of 1
        current.rows = [_without_errors(row) for row in current.rows]


def _without_errors(row: ResultRow) -> ResultRow:
    return ResultRow(size_bytes=row.size_bytes, value=row.value, algbw_gbyte_s=row.algbw_gbyte_s)


def _row(current: Result, match: re.Match[str]) -> None:
    size, cells = int(match[1]), match.groups()[4:7]
    if not all(re.fullmatch(NUMBER, cell) for cell in cells):
        current.damaged += 1
        return
    time, algbw, busbw = map(float, cells)
    digits = Rounding(*map(rounding, cells))
    half = NcclPlacement(
        size_bytes=size, time_us=time, algbw_gbyte_s=algbw, busbw_gbyte_s=busbw, rounding=digits
    )
    alone = busbw == 0 and algbw > ALONE_GBYTE_S
    if not alone:
        try:
            refuse_contradictions([half], None)
        except ResultFormatError as error:
            current.damaged += 1
            current.find("CONTRADICTION", str(error)[:200])
            return
    if size and algbw > 0:
        least = (busbw - digits.busbw_gbyte_s) / (algbw + digits.algbw_gbyte_s)
        most = (busbw + digits.busbw_gbyte_s) / max(algbw - digits.algbw_gbyte_s, 1e-9)
        current.factors = (max(current.factors[0], least), min(current.factors[1], most))
    if not current.program:
        current.program = "all_reduce" if match[4] in SUMS else "all_gather"
        current.guessed = match[4] not in SUMS
        current.gaps.append(f"the name of the test: read as {current.program}")
    rows = current.rows
    if rows and rows[0].size_bytes != size and size < (rows[-1].size_bytes or 0):
        _separate(current, "message sizes go up and down: several runs print into one output")
    wrong = 0
    for cell in (match[8], *(match[9] or "").split()[3:4]):
        if re.fullmatch(r"\d{1,12}", cell):
            wrong += int(cell)
        elif re.fullmatch(NUMBER, cell) and float(cell) >= LEAST_ERROR:
            wrong += 1
    rows.append(ResultRow(size_bytes=size, value=busbw, algbw_gbyte_s=algbw, wrong=wrong))


def _separate(result: Result, evidence: str) -> None:
    result.find("SEPARATE_RUNS", evidence, SEPARATE_HINT)


def check(result: Result) -> None:
    """What the rows of a whole table say of the ranks, and whether the list of ranks agrees."""
    wrong = sum(row.wrong for row in result.rows)
    if wrong:
        result.find("WRONG_VALUES", f"{wrong} wrong elements")
    facts = result.facts
    numbers = [number for number, _ in facts.listed_ranks]
    if numbers.count(0) > 1:
        _separate(result, f"{numbers.count(0)} ranks have the number 0")
        return
    last = result.rows[-1]
    if last.value == 0 and (last.algbw_gbyte_s or 0.0) > ALONE_GBYTE_S:
        _separate(result, "busbw is 0, so each process has one rank and no network")
        return
    _compare(result, max(numbers, default=-1) + 1)
    _count_nodes(result)


def _compare(result: Result, listed: int) -> None:
    least, most = result.factors
    possible = ranks_of(result.program, least, most)
    tells = busbw_factor(result.program, 2) != busbw_factor(result.program, 3)
    if least > most or (tells and not possible):
        text = f"busbw is {least:.4f} to {most:.4f} times algbw, which no {result.program} has"
        result.find("CONTRADICTION", text)
    elif tells and listed and listed not in possible:
        if listed > possible[-1]:
            count = f"{possible[0]} to {possible[-1]}"
            if len(possible) == 1:
                count = str(possible[0])
            text = f"the log lists {plural(listed, 'rank')}, but busbw/algbw is that of {count}"
            result.find("RANKS_CONTRADICT", text)
        else:
            result.gaps.append(f"{possible[0] - listed} or more lines of the list of ranks")
            result.facts.listed_ranks.clear()
    elif listed:
        result.facts.ranks = listed
    if len(possible) == 1:
        result.facts.ranks = possible[0]


def _count_nodes(result: Result) -> None:
    hosts = result.facts.ranks_by_host
    if not hosts or sum(hosts.values()) != result.facts.ranks:
        return
    result.facts.nodes = result.facts.nodes or len(hosts)
    if len(set(hosts.values())) > 1:
        few = min(hosts, key=lambda host: hosts[host])
        result.find(
            "MISSING_GPU",
            f"{few} has {hosts[few]} ranks, others have {max(hosts.values())}",
            f"nvidia-smi -L on {few}: a ring is as fast as its smallest node",
        )

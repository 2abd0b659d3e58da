"""What `ucx_perftest` prints, in versions with and without the column of stages."""

import re

from components.judge.log_so_far import LogSoFar
from components.judge.results import ResultRow
from components.validation.benchmarks.verbs.perftest import MIB_S_IN_GBIT_S
from components.validation.parsers import NUMBER

HEAD = re.compile(r"^\|.*(overhead|latency) \(usec\)")
FINAL = re.compile(r"^(Final:|\[thread \d+\])\s+(.*)$")
OLD_ROW = re.compile(rf"^\s*\d{{1,19}}(?:\s+{NUMBER}){{7}}\s*$")
OPERATION = re.compile(r"\b(?:tag|am|put|get|stream|ucp_\w*|uct_\w*)_(bw|lat)\b")
CELLS = (8, 9)


def take(log: LogSoFar, line: str, number: int) -> bool:
    """Whether the line is ucx_perftest's."""
    if head := HEAD.match(line):
        table = log.begin("ucx_perftest", "bandwidth", number)
        if head[1] == "latency" and log.ucx_operation != "bw":
            table.kind = "latency"
        return True
    if ("_bw" in line or "_lat" in line) and (operation := OPERATION.search(line)):
        log.ucx_operation = operation[1]
    current = log.current
    of_ucx = current is not None and current.program == "ucx_perftest"
    if of_ucx and OLD_ROW.match(line):
        cells, footer = line.split(), False
    elif final := FINAL.match(line):
        cells, footer = final[2].split(), final[1] == "Final:"
    else:
        return False
    if current is None or not of_ucx:
        current = log.begin("ucx_perftest", "bandwidth", number)
        current.gaps.append("the header")
    if len(cells) not in CELLS or not all(re.fullmatch(NUMBER, cell) for cell in cells):
        current.damaged += 1
        return True
    bandwidth, rate = float(cells[-3]), float(cells[-1])
    size, value = None, float(cells[-5])
    if rate > 0:
        size = round(bandwidth * 2**20 / rate)
    if current.kind == "bandwidth":
        value = bandwidth * MIB_S_IN_GBIT_S
    current.rows, current.footer = [ResultRow(size_bytes=size, value=value)], footer
    return True

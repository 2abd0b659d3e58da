"""Images per second of Horovod's and TensorFlow's synthetic benchmarks."""

import re

from components.judge.results import Result, ResultRow

LINE = re.compile(
    r"^(?:Iter #|Img/sec per |Total img/sec|total images/sec:|Number of (?:GPU|CPU)s:)"
)
ITERATION = re.compile(r"^Iter #\d+: (\d+\.\d+) img/sec per")
TOTAL = re.compile(r"^(?:Total img/sec on (\d+) \w+\(s\)|total images/sec): (\d+\.\d+)")
SPREAD = 1.1


def result_of(lines: list[str], number: int) -> Result:
    """All lines of a log that `LINE` matches."""
    result = Result(program="training", kind="training", line=number)
    values = []
    for line in lines:
        if value := ITERATION.match(line):
            values.append(float(value[1]))
        elif total := TOTAL.match(line):
            if total[1]:
                result.facts.ranks = int(total[1])
            result.rows = [ResultRow(size_bytes=None, value=float(total[2]))]
            result.footer = True
    if values and max(values) > SPREAD * min(values):
        result.find(
            "SPREAD",
            f"iterations between {min(values):g} and {max(values):g} img/s per GPU",
            "measure longer: the mean of such iterations is not comparable",
        )
    return result

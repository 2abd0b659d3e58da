"""The lenient reader: prefixes, excerpts, damage."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from components.judge.judge import judge
from components.judge.known import KnownHardware
from components.judge.reader import read_results, text_of
from components.judge.results import Result
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples"
DEEPOPS = (SAMPLES / "nccl" / "deepops.txt").read_text()
WRITE = (SAMPLES / "perftest" / "deepops.client.txt").read_text()
KNOWN = KnownHardware(nic_gbit_s=100.0, nics_per_node=2, nodes=2, gpus_per_node=8)
LOGS = [
    path for folder in ("nccl", "perftest", "composed", "mpi", "training") for path in (SAMPLES / folder).glob("*.txt")
]


def only(text: str) -> Result:
    (result,) = read_results(text)
    return result


def values(text: str) -> list[tuple[int | None, float]]:
    return [(row.size_bytes, row.value) for result in read_results(text) for row in result.rows]


@pytest.mark.parametrize(
    "prefix",
    ["0: ", "> ", "2026-10-02T11:03:00.123Z ", "[2026-10-02 11:03:00] ", "[1,0]<stdout>:", "[pod/launcher-x7/mpi] "],
)
@pytest.mark.parametrize("text", [DEEPOPS, WRITE], ids=["nccl", "perftest"])
def test_a_prefix_on_every_line_changes_no_row(prefix: str, text: str) -> None:
    assert values("\n".join(prefix + line for line in text.splitlines()) + "\n") == values(text) != []


def test_a_fence_and_windows_line_ends_change_no_row() -> None:
    assert values(("```\n" + DEEPOPS + "```\n").replace("\n", "\r\n")) == values(DEEPOPS)
    assert values(text_of(DEEPOPS.encode("utf-16"))) == values(DEEPOPS)


def test_several_tables_in_one_text_are_several_results() -> None:
    assert [result.program for result in read_results(DEEPOPS + "\n" + WRITE)] == ["all_reduce", "ib_write_bw"]


def test_both_ends_of_one_test_are_one_result() -> None:
    assert only(WRITE + WRITE).rows[0].value == 92.4


def test_an_excerpt_is_read_and_its_gaps_are_named() -> None:
    row = DEEPOPS.splitlines()[-4]
    result = only(row)

    assert (result.program, result.rows[0].value, result.facts.ranks) == ("all_reduce", 22.92, 16)
    assert len(result.gaps) == 3


def test_a_table_without_footer_counts_but_says_so() -> None:
    result = only(DEEPOPS.partition("# Out of bounds")[0])

    assert len(result.rows) == 29
    assert "the end of the table" in result.gaps


def test_a_row_that_contradicts_itself_counts_for_nothing() -> None:
    result = only(DEEPOPS.replace("12.22   22.92", "12.22   42.92").replace("175667", "195667"))

    assert result.rows[-1].size_bytes == 2**30
    assert "CONTRADICTION" in {finding.code for finding in result.findings}


def test_osu_and_imb_and_ucx_are_read() -> None:
    osu = "# OSU MPI Bandwidth Test v5.6.2\n# Size      Bandwidth (MB/s)\n4194304             12010.11\n"
    imb = (
        "# Benchmarking Allreduce\n# #processes = 16\n #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]\n"
        "      4194304           10      1000.00      1000.00      1000.00\n"
    )
    ping = (
        "# Benchmarking PingPong\n# #processes = 2\n       #bytes #repetitions      t[usec]   Mbytes/sec\n"
        "      4194304           10       400.00     10485.76\n"
    )
    ucx = (
        "| Test:         ucp_put_bw                            |\n"
        "Final:    1000    0.000    5.35    5.35    23367.33    23367.33    186938    186938\n"
    )
    assert only(osu).rows[0].value == pytest.approx(96.08, abs=0.01)
    assert only(imb).rows[0].value == pytest.approx(4.194304 * 2 * 15 / 16)
    assert only(ping).rows[0].value == pytest.approx(83.886, abs=0.001)
    assert (only(ucx).rows[0].size_bytes or 0) // 1024 == 128


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_recorded_log_is_read_and_judged(path: Path) -> None:
    for result in read_results(path.read_text()):
        verdict = judge(result, KnownHardware()).verdict
        if path.stem == "two_nodes_sockets_2xH100":
            assert verdict == "broken", "GPUs that talk over sockets"
        else:
            assert verdict != "broken" or not result.rows


def mutated(text: str, chance: random.Random) -> str:
    """What happens to a pasted log: lines cut, lost, doubled; characters changed."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[place:]
            case 1:
                del lines[: place + 1]
            case 2:
                line = lines[place]
                lines[place] = line[: chance.randrange(len(line) + 1)]
            case 3:
                line = lines[place]
                at = chance.randrange(len(line) + 1)
                lines[place] = line[:at] + chance.choice("0123456789.-#: x") + line[at + 1 :]
            case 4:
                lines.insert(place, chance.choice(lines))
        if not lines:
            break
    return "".join(lines)


def survives(count: int) -> None:
    """No mutation ends in a traceback, or in a number that the whole log does not have."""
    chance = random.Random(28)  # noqa: S311
    wholes = {path: path.read_text() for path in LOGS}
    for _ in range(count):
        path = chance.choice(LOGS)
        text = mutated(wholes[path], chance)
        printed = {value for _, value in values(wholes[path])}
        for result in read_results(text):
            judged = judge(result, KNOWN)
            if judged.verdict in ("good", "slow") and result.program not in ("ucx_perftest", "training"):
                assert judged.value in printed, (path.name, judged)


def test_mutations_of_recorded_logs_yield_no_number_that_was_not_measured() -> None:
    survives(60)


@pytest.mark.whole
def test_a_thousand_mutations_of_recorded_logs_yield_no_number_that_was_not_measured() -> None:
    survives(1000)


MEASURED = """
import re, runpy, sys, time
try:
    runpy.run_module("components.cli", run_name="__main__")
except SystemExit:
    pass
status = open("/proc/self/status").read()
print(time.process_time(), re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)
"""


@pytest.mark.whole
def test_ten_megabytes_take_a_second_and_a_hundred_megabytes(tmp_path: Path) -> None:
    line = "n{0}:{0}:1 [0] NCCL INFO Channel 00/0 : {0}[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
    path = tmp_path / "run.log"
    path.write_text("".join(line.format(number) for number in range(120_000)) + DEEPOPS)
    assert path.stat().st_size > 10 * 2**20

    command = [sys.executable, "-c", MEASURED, "judge", str(path), "--nic", "100G"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    seconds, kbytes = map(float, done.stderr.split())

    assert seconds < 2, "a second on a quiet processor"
    assert kbytes < 100_000

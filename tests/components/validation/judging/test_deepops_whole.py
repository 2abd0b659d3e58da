"""The DeepOps guide's own outputs from the files through parsers and judgement to the text of the report, in one go."""

import re

import pytest

from components.report.lines import headline
from components.report.markdown import render_markdown
from components.validation.benchmarks.jobs.run import read_job
from components.validation.benchmarks.nccl.run import read_nccl
from components.validation.benchmarks.verbs.perftest import parse_bandwidth
from components.validation.records import RunRecord
from components.validation.store import Material
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from stacks.transports import Application
from tests.components.validation.labs import changed, hardware, measured, plan_for, record
from tests.components.validation.samples import RANKS, nccl, perftest, sample
from tests.messages import states

OVER_RDMA = f"{RANKS}gpu01:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>\n"
"""The guide prints the table alone; a run of ours has the ranks and NCCL's own lines before it."""


@pytest.fixture
def run(lab: Lab) -> tuple[Lab, RunRecord]:
    real = changed(hardware(lab), application=Application(program="horovod"))
    plan = plan_for(real)
    stage = plan.stages[0]
    printed = parse_bandwidth(perftest("deepops.client"))
    bandwidths = [
        measured(t.rail, t.client, t.server, printed.rows[0].value, path_mtu_bytes=printed.path_mtu_bytes)
        for transfers in plan.rounds_of(stage)
        for t in transfers
    ]
    assert plan.nccl
    reduced = read_nccl(plan.nccl, "guide", OVER_RDMA + nccl("deepops"), replayed=False)
    trained = read_job(plan.jobs[0], sample("training/deepops.txt"), replayed=False)
    return real, record(plan, nccl=reduced, also=bandwidths).model_copy(update={"jobs": (trained,)})


@pytest.fixture
def summary(run: tuple[Lab, RunRecord]) -> Summary:
    real, found = run
    assert real.benchmarks
    return judge(plan_for(real), real.benchmarks, found).verdict()


@pytest.fixture
def report(summary: Summary) -> str:
    return render_markdown(Material(summary=summary))


def test_the_guide_s_lab_works_and_its_bandwidth_is_a_warning(summary: Summary, report: str) -> None:
    assert f"**{headline(summary)}**" in report
    assert (summary.function, summary.performance) == ("pass", "warn")


def test_the_bandwidth_contradicts_its_header_by_both_numbers(report: str) -> None:
    (said,) = (line for line in report.splitlines() if "| MTU_FINGERPRINT_1024 |" in line)

    assert states(said, "92.40 Gbit/s", "94.3%", 4096, "99.8%", 1024)
    assert states(said, "-R", "PCIe", "ib_write_bw -m 4096")
    assert "and 3 more" in said, "every pair of the lab shows it, and it is said once"


def test_no_part_of_the_fabric_is_accused_of_what_all_of_it_shows(report: str) -> None:
    assert not re.search(r"\((NODE|NIC|PATH)_\w+\)", report)


def test_the_collective_is_what_the_verbs_predict(report: str) -> None:
    (row,) = (line for line in report.splitlines() if line.startswith("| nccl_all_reduce"))

    assert "22.92 GB/s" in row, "the largest row is judged"
    assert states(row, "99.3%", "23.10 GB/s")
    assert [cell.strip() for cell in row.split("|")].count("pass") == 2


def test_the_table_is_whole_since_its_average_is_the_printed_one(run: tuple[Lab, RunRecord]) -> None:
    _, found = run

    assert found.nccl is not None
    assert (found.nccl.average_busbw_gbyte_s, len(found.nccl.curve)) == (7.76739, 29)
    values = [float(x) for row in nccl("deepops").splitlines() if re.match(r" +\d", row) for x in row.split()[6:11:4]]
    assert sum(values) / len(values) == pytest.approx(7.76739, abs=0.001), "recomputed here, from the text itself"


def test_the_training_names_its_two_outliers(report: str) -> None:
    (said,) = (line for line in report.splitlines() if "| OUTLIERS |" in line)

    assert states(said, "mean 234.7 img/s", 10, "199.4", "186.1", "median is 246.4")


def test_the_same_table_over_sockets_is_no_pass_however_fast(run: tuple[Lab, RunRecord]) -> None:
    real, found = run
    assert real.benchmarks
    plan = plan_for(real)
    log = OVER_RDMA.replace("NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ;", "NET/Socket : Using [0]eth0:10.0.0.1")
    assert plan.nccl
    fallen = read_nccl(plan.nccl, "guide", log + nccl("deepops"), replayed=False)
    summary = judge(plan, real.benchmarks, found.model_copy(update={"nccl": fallen})).verdict()

    assert summary.function == "fail"
    assert "SOCKET_FALLBACK" in {one.code for one in summary.findings}


def test_the_same_table_behind_a_rotated_log_is_an_error_and_no_fault_of_the_fabric(run: tuple[Lab, RunRecord]) -> None:
    real, found = run
    assert real.benchmarks
    plan = plan_for(real)
    assert plan.nccl
    rotated = read_nccl(plan.nccl, "guide", nccl("deepops"), replayed=False)
    summary = judge(plan, real.benchmarks, found.model_copy(update={"nccl": rotated})).verdict()

    assert summary.function == "error"
    assert "SOCKET_FALLBACK" not in {one.code for one in summary.findings}
    assert any(states(reason, "nccl_all_reduce error", "containerLogMaxSize") for reason in summary.reasons)

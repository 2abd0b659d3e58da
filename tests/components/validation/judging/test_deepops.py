"""What the program has to say about the tables of the DeepOps RoCE guide."""

import pytest

from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.records import JobResult, NcclResult
from components.validation.repeats import repeats
from components.validation.summary import Summary
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import hardware, plan_for, record, reduced
from tests.components.validation.samples import nccl
from tests.messages import states

ITERATIONS = (199.4, 248.1, 247.6, 246.4, 246.4, 248.3, 186.1, 243.2, 237.1, 244.8)
"""Images a second and GPU of the guide's ResNet-50 run on 16 GPUs."""


@pytest.fixture
def summary(lab: Lab) -> Summary:
    real = hardware(lab)
    assert real.benchmarks
    return judge(plan_for(real), real.benchmarks, record(plan_for(real), gbit_s=92.40, nccl=reduced(22.92))).verdict()


def test_the_bandwidth_is_a_contradiction_shown_with_both_numbers_and_a_warning(summary: Summary) -> None:
    found = next(found for found in summary.findings if found.code == "MTU_FINGERPRINT_1024")

    assert states(found.evidence, "92.40 Gbit/s", "94.3%", 4096, "99.8%", 1024)
    assert (summary.function, summary.performance) == ("pass", "warn")
    assert states(summary.reasons[0], "92.40 Gbit/s", "94.3%", "98.01")


def test_both_explanations_and_the_test_that_decides_are_a_hint_and_not_a_cause(summary: Summary) -> None:
    hint = next(found.hint for found in summary.findings if found.code == "MTU_FINGERPRINT_1024")

    assert states(hint, 1024, "-R", 4096, "PCIe", "ib_write_bw -m 4096")
    assert not any("1024" in reason for reason in summary.reasons), "a hint, never a cause"


def test_nccl_reaches_what_the_verbs_predict(summary: Summary) -> None:
    row = next(row for row in summary.tests if row.test == "nccl_all_reduce")

    assert (f"{row.ratio:.1%}", row.performance, row.ceiling) == ("99.3%", "pass", 23.076)
    assert states(row.basis, "23.10 GB/s", "ib_write_bw", "2 rails", "2 GiB")


def test_the_guide_s_table_gives_22_92_and_its_average_is_recomputed_and_matched() -> None:
    log = parse_nccl(nccl("deepops"))
    values = [value for row in log.rows for value in row.halves]

    assert max(log.rows, key=lambda row: row.size_bytes).out_of_place.busbw_gbyte_s == 22.92
    assert log.average_busbw_gbyte_s == pytest.approx(7.76739, abs=1e-5)
    assert sum(value.busbw_gbyte_s for value in values) / len(values) == pytest.approx(7.7676, abs=1e-3)


def test_the_application_s_two_outliers_are_named_beside_its_mean(lab: Lab) -> None:
    real = hardware(lab)
    assert real.benchmarks
    told = repeats(ITERATIONS)
    job = JobResult(
        program="horovod",
        transport="roce",
        outcome="measured",
        unit="img/s",
        samples=ITERATIONS,
        dropped=told.dropped,
        value=told.median,
    )
    run = record(plan_for(real), gbit_s=97.2, nccl=NcclResult(outcome="measured", busbw_gbyte_s=23.9))
    summary = judge(plan_for(real), real.benchmarks, run.model_copy(update={"jobs": (job,)})).verdict()
    said = next(found.evidence for found in summary.findings if found.code == "OUTLIERS")

    assert states(said, "mean 234.7 img/s", 10, "199.4", "186.1", "median is 246.4")

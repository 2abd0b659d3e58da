"""The page: curves, ceilings, and nothing of a log that acts."""

import re

from components.judge.judge import judge
from components.judge.known import KnownHardware
from components.judge.page import as_html
from components.judge.reader import read_results
from tests.conftest import ROOT

SAMPLES = ROOT / "tests" / "samples"
KNOWN = KnownHardware(nic_gbit_s=100.0, nics_per_node=2, nodes=2, gpus_per_node=8)


def page_of(*texts: str, place: str = "run.log") -> str:
    placed = []
    for number, text in enumerate(texts):
        (result,) = read_results(text)
        placed.append((f"{number}{place}", judge(result, KNOWN)))
    return as_html(placed)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def test_a_table_is_drawn_with_its_ceiling() -> None:
    page = page_of(sample("nccl/deepops.txt"))

    assert page.count("<svg") == 1
    assert "ceiling: 24.5" in page
    assert "0run.log: 22.9" in page
    assert "93.6% of a ring" in page


def test_logs_of_one_unit_share_a_drawing() -> None:
    whole = sample("composed/perftest_all_sizes_mb.txt")
    other = whole.replace("97.58", "97.57")

    assert page_of(whole, other, sample("nccl/deepops.txt")).count("<svg") == 2


def test_a_single_number_is_shown_without_a_curve() -> None:
    page = page_of("ib_write_bw 97 Gb/s\n")

    assert "<svg" not in page
    assert "97" in page


def test_what_a_log_says_cannot_act_in_the_page() -> None:
    page = page_of(
        "# OSU MPI Bandwidth Test v5\n4194304 12010.11\n<script>alert(1)</script> failed\n",
        place="<b>x",
    )

    assert "<script" not in page
    assert "<b>x" not in page


def test_every_row_of_a_curve_has_its_own_ceiling() -> None:
    (result,) = read_results(sample("composed/perftest_all_sizes_mb.txt"))
    assessment = judge(result, KNOWN)

    assert len(assessment.ceilings) == len(assessment.rows) > 10
    assert assessment.ceilings == sorted(assessment.ceilings)
    for row, ceiling in zip(assessment.rows, assessment.ceilings, strict=True):
        assert row.value <= ceiling * 1.01


def test_the_page_fetches_nothing() -> None:
    page = page_of(sample("nccl/deepops.txt"))

    assert not re.search(r"(?:src|href)=[\"']?https?:", page)
    assert "Content-Security-Policy" in page

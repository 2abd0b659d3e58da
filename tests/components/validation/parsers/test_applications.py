"""Training benchmarks: the DeepOps guide's figures and recordings, else text composed from the formats."""

import pytest

from components.validation.benchmarks.training.horovod import parse_training
from components.validation.benchmarks.training.tf_cnn import total_of
from components.validation.parsers import ResultFormatError, lines_of
from tests.components.validation.samples import composed, sample

DEEPOPS = sample("training/deepops.txt")
TF_CNN = composed("tf_cnn_horovod.txt")


@pytest.mark.row("A 329-346")
def test_deepops_s_horovod_run_is_worked_out_again_from_its_iterations() -> None:
    run = parse_training(DEEPOPS)

    assert (len(run.iterations_per_device), min(run.iterations_per_device), run.devices) == (10, 186.1, 16)
    assert (run.mean_per_device, run.spread_per_device) == (pytest.approx(234.74), pytest.approx(42.0, abs=0.01))
    assert (run.printed_mean, run.printed_total, run.total) == (234.8, 3756.0, pytest.approx(3755.84))


def test_the_same_lines_under_a_launcher_s_tag_are_those_of_ddp() -> None:
    run = parse_training(composed("ddp_tagged.txt"))

    assert run.devices == 16
    assert run.mean_per_device == pytest.approx(814.6, abs=0.1)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Iter #3: 246.4 img/sec per GPU\n", "", "missing or doubled"),
        ("248.1", "258.1", "contradict each other"),
        ("3756.0", "3786.0", "total: 3786.0 printed"),
        ("16 GPU", "17 GPU", "total: 3756.0 printed"),
        ("+-42.0", "+-24.0", "spread"),
        ("Total img/sec on 16 GPU(s): 3756.0 +-672.7\n", "", "breaks off after 10 iterations"),
        ("199.4 img", "199.4img", "a damaged line"),
    ],
)
def test_a_training_run_that_contradicts_itself_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(ResultFormatError, match=reason):
        parse_training(DEEPOPS.replace(old, new, 1))


def test_ranks_of_tf_cnn_are_not_added_up_where_the_total_is_all_theirs() -> None:
    assert total_of(TF_CNN, workers=2) == 612.41


def test_totals_of_single_workers_are_added_up() -> None:
    of_one = TF_CNN.replace("612.41", "306.21").replace("612.38", "306.19")

    assert total_of(of_one, workers=2) == pytest.approx(612.42)


@pytest.mark.parametrize(
    ("text", "workers", "reason"),
    [
        (TF_CNN, 3, "cannot be of 3 workers"),
        (TF_CNN.replace("612.38", "662.38"), 2, "two runs, or a damaged one"),
        (TF_CNN.replace("612.4", "62.4").replace("612.3", "62.3"), 2, "neither one nor 2 times"),
        (TF_CNN.replace("[1,1]<stdout>:", "").replace("[1,0]<stdout>:", ""), 2, "two totals of one rank"),
        (TF_CNN.split("total images")[0], 2, "it did not end"),
        (TF_CNN.replace("306.3", "606.3"), 2, "by the steps of some ranks"),
        (TF_CNN.replace("+/-", "+-"), 2, "a damaged line"),
    ],
)
def test_a_tf_cnn_run_that_gives_no_total_is_refused(text: str, workers: int, reason: str) -> None:
    with pytest.raises(ResultFormatError, match=reason):
        total_of(text, workers)


@pytest.mark.parametrize(
    ("raw", "text", "rank"),
    [
        ("[1,0]<stdout>:x", "x", "1,0"),
        ("[3]<stderr>:x", "x", "3"),
        ("[prterun-host-71@1,4]<stdout>: x", "x", "prterun-host-71@1,4"),
        ("Fri Oct  2 11:03:00 2026[1,0]<stdout>:x", "x", "1,0"),
        ("[pod/bench-1-launcher-x/launcher] [1,0]<stdout>:x", "x", "1,0"),
        ("2026-10-02T11:03:00.123456789Z x", "x", None),
        ("\x1b[32mx\x1b[0m", "x", None),
        ("a<b>:x", "a<b>:x", None),
    ],
)
def test_what_launchers_terminals_and_collectors_add_is_taken_away(raw: str, text: str, rank: str | None) -> None:
    assert [(line.text, line.rank) for line in lines_of(raw)] == [(text, rank)]


def test_a_carriage_return_never_joins_two_numbers() -> None:
    assert [line.text for line in lines_of("1\r2\r\n3\r\r\n4")] == ["1", "2", "3", "4"]

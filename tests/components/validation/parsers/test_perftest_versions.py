"""What perftest's versions and options change in its text. Composed from its printf formats, but for the recordings."""

from itertools import pairwise

import pytest

from components.validation.benchmarks.verbs.perftest import cause_of, parse_bandwidth, parse_latency
from components.validation.parsers import ResultFormatError
from tests.components.validation.samples import composed, perftest
from tests.messages import states, stating


@pytest.mark.parametrize("unit", ["mb", "mib"])
def test_all_sizes_are_read_and_both_names_of_the_unit_are_the_same(unit: str) -> None:
    run = parse_bandwidth(composed(f"perftest_all_sizes_{unit}.txt"))

    assert [row.message_bytes for row in run.rows] == [2**i for i in range(1, 24)]
    assert run.rows[-1].value == pytest.approx(97.585, abs=0.01)
    assert all(later.value > earlier.value for earlier, later in pairwise(run.rows))


def test_a_row_that_is_missing_among_all_sizes_is_noticed() -> None:
    text = composed("perftest_all_sizes_mib.txt")
    without = "\n".join(line for line in text.splitlines() if not line.startswith(" 4096 "))

    with pytest.raises(ResultFormatError, check=stating("row", "missing")):
        parse_bandwidth(without)


def test_a_run_by_time_has_no_peak_and_is_as_good() -> None:
    run = parse_bandwidth(composed("perftest_duration.txt"))

    assert (run.rows[0].value, run.rows[0].iterations) == (97.88, 1120364)


def test_the_value_of_both_directions_is_their_sum() -> None:
    run = parse_bandwidth(composed("perftest_bidirectional.txt"))

    assert (run.title, run.rows[0].value) == ("RDMA_Write Bidirectional BW Test", 194.87)


def test_a_damaged_title_does_not_turn_a_sum_into_one_direction() -> None:
    with pytest.raises(ResultFormatError, match="unknown word Bidirxctional"):
        parse_bandwidth(composed("perftest_bidirectional.txt").replace("Bidirectional", "Bidirxctional"))


@pytest.mark.parametrize(
    ("name", "gbit_s"), [("cpu_util", 96.12), ("per_port", 195.44), ("qos", 92.44), ("counters", 91.77)]
)
def test_further_columns_and_lines_do_not_move_the_average(name: str, gbit_s: float) -> None:
    assert parse_bandwidth(composed(f"perftest_{name}.txt")).rows[0].value == gbit_s


def test_two_outputs_in_one_are_refused() -> None:
    with pytest.raises(ResultFormatError, match="2 perftest outputs"):
        parse_bandwidth(perftest("wbw.client") + perftest("wbw.server"))


def test_a_recorded_latency_has_median_and_percentiles() -> None:
    run = parse_latency(perftest("wlat.client"))

    assert (run.title, run.rows[0].value, run.rows[0].tail) == ("RDMA_Write Latency Test", 2132.01, 6823.65)
    assert parse_latency(perftest("slat.client")).rows[0].value == 2209.40


def test_each_end_of_a_latency_test_has_measured_by_itself() -> None:
    assert parse_latency(perftest("wlat.server")).rows[0].value == 2117.12


def test_the_latency_of_reads_is_read_for_all_sizes() -> None:
    run = parse_latency(composed("perftest_read_latency.txt"))

    assert (len(run.rows), run.rows[0].value) == (23, 3.21)


def test_a_latency_by_time_is_a_mean_that_its_rate_confirms() -> None:
    text = composed("perftest_latency_duration.txt")
    row = parse_latency(text).rows[0]

    assert (row.value, row.tail) == (1.68, None)
    with pytest.raises(ResultFormatError, match="contradict each other"):
        parse_latency(text.replace("1.68", "1.78"))


def test_a_latency_of_before_the_percentiles_is_read() -> None:
    row = parse_latency(composed("perftest_latency_before_percentiles.txt")).rows[0]

    assert (row.value, row.tail) == (1.66, None)


@pytest.mark.parametrize(
    ("name", "median_us"), [("v45_no_deviation.client", 10_812.78), ("v45_wrong_deviation.client", 7991.15)]
)
def test_one_time_too_long_for_perftest_s_own_deviation_spoils_no_median(name: str, median_us: float) -> None:
    assert parse_latency(perftest(name)).rows[0].value == median_us


def test_a_deviation_that_perftest_could_work_out_is_a_number_that_fits() -> None:
    text = perftest("v45_no_deviation.client")
    short = text.replace("142719.01", "32719.01")

    with pytest.raises(ResultFormatError, check=stating("-nan")):
        parse_latency(short)
    with pytest.raises(ResultFormatError, match="out of order"):
        parse_latency(short.replace("-nan", "4300.05"))
    assert parse_latency(short.replace("-nan", "9300.05")).rows[0].value == 10_812.78


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (perftest("wbw.client"), "is not a latency test"),
        (perftest("v45_no_deviation.client").replace("10812.78", "nan"), "'nan' is not a number"),
        (perftest("wlat.client").replace("742.88 ", "9742.88"), "out of order"),
        (perftest("wlat.client").replace("2132.01", "213201"), "a damaged row"),
        (perftest("wlat.client").replace("8186.72", ""), "7 values under 9 columns"),
        (perftest("wlat.client").replace("[usec]", "[cycles]"), "columns that no version has|no median"),
        (perftest("wlat.client").rsplit("---\n", 1)[0].rsplit("\n", 1)[0], "cut short"),
    ],
)
def test_an_invalid_latency_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ResultFormatError, match=reason):
        parse_latency(text)


def test_ends_of_different_roce_versions_are_distinguished_from_other_disagreements() -> None:
    assert states(cause_of(" Found Incompatibility issue with GID types.\n"), "RoCE versions")


@pytest.mark.parametrize(
    ("name", "gbit_s"),
    [("both_ways", 0.096434), ("four_queue_pairs", 0.11), ("read_cpu", 0.097407), ("duration", 0.10)],
)
def test_what_4_5_printed_on_real_nodes_is_read(name: str, gbit_s: float) -> None:
    assert parse_bandwidth(perftest(f"v45_{name}.client")).rows[0].value == gbit_s


def test_a_sweep_that_was_killed_gives_no_number() -> None:
    with pytest.raises(ResultFormatError, check=stating("table", "end")):
        parse_bandwidth(perftest("v45_all_sizes_killed.client"))


def test_a_recorded_latency_by_time_agrees_with_its_rate() -> None:
    assert parse_latency(perftest("v45_latency_duration.client")).rows[0].value == 2592.94

"""What is read from recorded nccl-tests logs, and what is refused."""

import pytest
from hypothesis import given, settings

from components.validation.benchmarks.nccl.log import parse_nccl_log
from components.validation.benchmarks.nccl.run import missing_sizes
from components.validation.benchmarks.nccl.table import NcclPlacement, Rounding, parse_nccl, refuse_contradictions
from components.validation.parsers import ResultFormatError
from tests.components.validation.parsers.mutations import with_characters_replaced
from tests.components.validation.samples import composed, nccl
from tests.messages import states, stating


@pytest.mark.row("A 280-325")
def test_deepops_s_old_table_is_read_and_its_average_recomputed() -> None:
    log = parse_nccl(nccl("deepops"))

    assert (len(log.rows), log.rows[-1].size_bytes, log.rows[-1].out_of_place.busbw_gbyte_s) == (29, 2**31, 22.92)
    assert [row.size_bytes for row in log.large] == [2**30, 2**31]
    assert log.busbw_gbyte_s == 22.92
    assert (log.average_busbw_gbyte_s, log.out_of_bounds, log.wrong) == (7.76739, 0, None)


def test_a_new_table_counts_wrong_elements() -> None:
    log = parse_nccl(nccl("nvlink_allreduce"))

    assert (log.wrong, log.busbw_gbyte_s) == (0, 340.38)
    assert parse_nccl_log(nccl("nvlink_allreduce")).transport is None


def test_a_table_without_large_rows_is_judged_by_its_largest() -> None:
    log = parse_nccl(nccl("broadcast"))

    assert ([row.size_bytes for row in log.large], log.busbw_gbyte_s) == ([2**26], 327.28)


def test_a_job_whose_gpus_have_no_memory_for_the_largest_message_ends_before_it_without_a_fault() -> None:
    """The line is that of nccl-tests, src/common.cu; a GPU of 40 GB leaves 11.8 GiB per buffer."""
    text = nccl("deepops")
    reduced = "#\n# Reducing maxBytes to 3221225472 due to memory limitation\n" + text

    assert (parse_nccl(text).memory_bytes, parse_nccl(reduced).memory_bytes) == (None, 3 * 2**30)
    assert list(missing_sizes(parse_nccl(reduced), 2**33)) == []
    [fault] = missing_sizes(parse_nccl(text), 2**33)
    assert states(fault, 2**31, 2**33)
    [fault] = missing_sizes(parse_nccl(reduced.replace("3221225472", "4294967296")), 2**33)
    assert states(fault, 2**31, 2**32)


def test_tags_and_debug_lines_of_all_ranks_are_not_rows_and_show_the_fallback_to_sockets() -> None:
    log = parse_nccl(nccl("tagged_debug"))

    assert log.rows[-1].out_of_place.busbw_gbyte_s == 268.83
    assert parse_nccl_log(nccl("tagged_debug")).transport == "socket"


@pytest.mark.row("A 280-325")
def test_wrong_elements_are_counted_over_both_placements() -> None:
    text = nccl("broadcast").replace("333.48       0", "333.48       3").replace(" 81.95       0", " 81.95       2")
    text = text.replace("values : 0 OK", "values : 2 FAILED")

    assert parse_nccl(text).wrong == 5


DEEPOPS = nccl("deepops")
LAST = next(line for line in DEEPOPS.splitlines() if "22.92" in line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no nccl-tests table"),
        ("bash: all_reduce_perf: command not found\n", "no nccl-tests table"),
        (DEEPOPS.split("           8  ")[0], "has no row"),
        (DEEPOPS.split("# Out of bounds")[0], "footers are missing"),
        (DEEPOPS.replace(LAST + "\n", ""), "rows are missing"),
        (DEEPOPS.replace(LAST, LAST[:60]), "values under 12 columns"),
        (DEEPOPS.replace("12.22   22.92", "12.22   29.92"), "contradict each other"),
        (DEEPOPS.replace("175667", "275667"), "contradict each other"),
        (DEEPOPS + DEEPOPS, "2 nccl-tests tables"),
        (DEEPOPS.replace("algbw", "rate"), "no nccl-tests table|unknown columns"),
    ],
)
def test_what_gives_no_number_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ResultFormatError, match=reason):
        parse_nccl(text)


def refused_factor(factor: float, ranks: int) -> bool:
    """Whether a table is refused whose busbw is always this many times its algbw, here 100 GB/s."""
    row = NcclPlacement(
        size_bytes=10**9,
        time_us=10_000.0,
        algbw_gbyte_s=100.0,
        busbw_gbyte_s=100 * factor,
        rounding=Rounding(0.5, 0.005, 0.005),
    )
    try:
        refuse_contradictions([row], ranks)
    except ResultFormatError:
        return True
    return False


@pytest.mark.parametrize(("ranks", "factors"), [(2, {0.5, 1.0}), (4, {0.75, 1.0, 1.5}), (8, {0.875, 1.0, 1.75})])
def test_busbw_is_algbw_times_a_factor_of_the_number_of_ranks(ranks: int, factors: set[float]) -> None:
    tried = {0.45, 0.5, 0.7, 0.75, 0.8, 0.875, 0.95, 1.0, 1.05, 1.5, 1.75, 1.8}

    assert {factor for factor in tried if not refused_factor(factor, ranks)} == factors


def test_damaged_text_never_gives_another_number() -> None:
    expected = parse_nccl(nccl("deepops")).busbw_gbyte_s
    refused = 0

    @settings(max_examples=200)
    @given(damaged=with_characters_replaced(nccl("deepops")))
    def check(damaged: str) -> None:
        nonlocal refused
        try:
            got = parse_nccl(damaged).busbw_gbyte_s
        except ResultFormatError:
            refused += 1
        else:
            assert got == pytest.approx(expected, rel=0.01)

    check()
    assert 50 < refused < 200, "neither answer is the only one"


@pytest.mark.parametrize(("name", "rows"), [("timestamps", 19), ("per_iteration", 19), ("sendrecv", 19)])
def test_columns_of_newer_versions_do_not_move_the_others(name: str, rows: int) -> None:
    log = parse_nccl(composed(f"nccl_{name}.txt"))

    assert (len(log.rows), log.rows[-1].size_bytes, log.wrong, log.ranks) == (rows, 2**31, 0, 16)


def test_a_log_of_two_collectives_is_refused() -> None:
    with pytest.raises(ResultFormatError, match="2 nccl-tests tables"):
        parse_nccl(composed("nccl_two_collectives.txt"))


@pytest.mark.parametrize("value", ["nan", "inf", "-1.00"])
def test_what_is_no_speed_is_refused(value: str) -> None:
    with pytest.raises(ResultFormatError):
        parse_nccl(nccl("broadcast").replace(" 81.95 ", f" {value} ", 1))


def test_rows_of_two_ranks_do_not_mix() -> None:
    text = nccl("tagged_debug")
    row = next(line for line in text.splitlines() if "67108864" in line and "float" in line)

    with pytest.raises(ResultFormatError, check=stating("2 ranks")):
        parse_nccl(text.replace(row, row.replace("[1,0]", "[1,1]")))

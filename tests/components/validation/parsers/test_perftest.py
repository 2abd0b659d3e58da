"""What is read from perftest's recorded outputs, and what is refused."""

from ipaddress import ip_address

import pytest
from hypothesis import given, settings

from components.validation.benchmarks.verbs.perftest import cause_of, parse_bandwidth
from components.validation.parsers import ResultFormatError
from tests.components.validation.parsers.mutations import with_characters_replaced
from tests.components.validation.samples import perftest


@pytest.mark.row("A 83-108", "A 105")
def test_deepops_is_read_although_stderr_stands_between_header_and_row() -> None:
    run = parse_bandwidth(perftest("deepops.client"))

    assert (run.title, run.device, run.path_mtu_bytes, run.rdma_cm) == ("RDMA_Write BW Test", "mlx5_0", 4096, True)
    assert [(row.message_bytes, row.value) for row in run.rows] == [(65536, 92.40)]


@pytest.mark.row("A 83-108", "C 338-341")
@pytest.mark.parametrize(
    ("name", "title", "gbit_s"),
    [
        ("wbw.client", "RDMA_Write BW Test", 0.066289),
        ("wbw.server", "RDMA_Write BW Test", 0.066289),
        ("wbwR.client", "RDMA_Write BW Test", 0.049761),
        ("vf_wbw.client", "RDMA_Write BW Test", 0.039591),
        ("rbw.client", "RDMA_Read BW Test", 0.15),
        ("sbw_default.server", "Send BW Test", 0.092202),
    ],
)
def test_every_recorded_bandwidth_test_is_read(name: str, title: str, gbit_s: float) -> None:
    run = parse_bandwidth(perftest(name))

    assert (run.title, run.rows[0].value, run.path_mtu_bytes) == (title, gbit_s, 4096)


def test_the_two_ends_name_each_other_by_gid() -> None:
    client, server = parse_bandwidth(perftest("wbw.client")), parse_bandwidth(perftest("wbw.server"))

    assert (client.local_gid, client.remote_gid) == (ip_address("10.10.11.12"), ip_address("10.10.11.11"))
    assert (server.local_gid, server.remote_gid) == (client.remote_gid, client.local_gid)


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec"])
def test_the_header_decides_the_unit(unit: str) -> None:
    # 92.40 Gb/s are 11014.37 MiB/s, whichever name of 2^20 a version prints
    text = perftest("deepops.client").replace("Gb/sec", unit).replace("92.42", "11017.31").replace("92.40", "11014.37")

    assert parse_bandwidth(text).rows[0].value == pytest.approx(92.40, abs=0.005)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no perftest output"),
        (perftest("pp.client"), "no perftest output"),
        (perftest("wlat.client"), "not a bandwidth test"),
        (perftest("wbw.client").split(" 65536")[0], "cut short"),
        (perftest("wbw.client").split(" TX depth")[0], "the header lacks"),
        (perftest("wbw.client").split(" #bytes")[0], "ended before it measured"),
        (perftest("wbw.client").replace("0.000126", ""), "4 values under 5 columns"),
        (perftest("wbw.client").replace("Gb/sec", "GiB/sec"), "bandwidth in GiB/sec"),
        (perftest("deepops.client").replace("92.40", "97.40"), "contradict each other"),
        ("\n".join(line for line in perftest("wbw.client").splitlines() if "65536" not in line), "has no row"),
    ],
)
def test_what_gives_no_number_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ResultFormatError, match=reason):
        parse_bandwidth(text)


@pytest.mark.parametrize(
    "name", ["deepops.client", *(pytest.param(n, marks=pytest.mark.whole) for n in ("wbw.client", "vf_wbw.client"))]
)
def test_damaged_text_never_gives_another_number(name: str) -> None:
    expected = parse_bandwidth(perftest(name)).rows[0].value
    refused = 0

    @settings(max_examples=300)
    @given(damaged=with_characters_replaced(perftest(name)))
    def check(damaged: str) -> None:
        nonlocal refused
        try:
            got = parse_bandwidth(damaged).rows[0].value
        except ResultFormatError:
            refused += 1
        else:
            # the second number of the row cannot tell less than its own rounding
            assert got == pytest.approx(expected, rel=0.02, abs=0.003)

    check()
    assert 15 < refused < 300, "neither answer is the only one"


@pytest.mark.parametrize(
    ("stderr", "cause"),
    [
        ("Unable to find the Infiniband/RoCE device\n", "not there"),
        ("Couldn't connect to 10.10.11.11:18515\n", "did not answer"),
        (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "retries exceeded"),
        (" Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n", "retries exceeded"),
        (" Failed status 5: wr_id 1 syndrom 0x0\n GID: 00:255:255:10:10:11:12\n", "a completion with an error"),
    ],
)
def test_perftest_says_itself_why_it_failed(stderr: str, cause: str) -> None:
    assert cause in (cause_of(stderr) or "")


def test_an_unknown_message_has_no_cause() -> None:
    assert cause_of("hello") is None

"""The physics: ceilings by MTU, and the number that looks like another path MTU."""

import pytest

from components.physics.ceilings import (
    Operation,
    Path,
    bandwidth_ceiling,
    data_share,
    goodput_ratio,
    smaller_mtu_at,
)
from components.validation.benchmarks.verbs.perftest import parse_bandwidth
from tests.components.validation.samples import perftest

MESSAGE_BYTES = 65_536


def path_at(path_mtu_bytes: int) -> Path:
    return Path(line_rate_gbit_s=100, path_mtu_bytes=path_mtu_bytes, message_bytes=MESSAGE_BYTES)


@pytest.mark.row("A 106-109")
@pytest.mark.parametrize(
    ("path_mtu_bytes", "percent"),
    # worked out by hand from the header sizes: 82 B a packet, 16 once a message
    [(256, 75.73), (512, 86.18), (1024, 92.56), (2048, 96.13), (4096, 98.01)],
)
def test_goodput_by_path_mtu(path_mtu_bytes: int, percent: float) -> None:
    assert round(100 * goodput_ratio(path_mtu_bytes, MESSAGE_BYTES), 2) == percent


@pytest.mark.row("A 106-109")
def test_deepops_s_92_40_sits_at_the_ceiling_of_path_mtu_1024() -> None:
    run = parse_bandwidth(perftest("deepops.client"))

    assert (run.rows[0].value, run.path_mtu_bytes) == (92.40, 4096)
    assert smaller_mtu_at(run.rows[0].value, path_at(run.path_mtu_bytes)) == 1024


@pytest.mark.parametrize("measured_gbit_s", [97.5, 90.0, 50.0])
def test_a_good_or_an_oddly_slow_path_looks_like_no_other_mtu(measured_gbit_s: float) -> None:
    assert smaller_mtu_at(measured_gbit_s, path_at(4096)) is None


def test_a_path_configured_for_1024_is_not_accused_of_being_1024() -> None:
    assert smaller_mtu_at(92.40, path_at(1024)) is None


@pytest.mark.parametrize(
    ("line_rate_gbit_s", "at_1024", "at_2048", "at_4096"),
    [
        (10, 9.26, 9.61, 9.80),
        (25, 23.14, 24.03, 24.50),
        (40, 37.03, 38.45, 39.21),
        (50, 46.28, 48.06, 49.01),
        (100, 92.56, 96.13, 98.01),
        (200, 185.13, 192.26, 196.03),
        (400, 370.26, 384.51, 392.06),
        (800, 740.52, 769.02, 784.11),
    ],
)
def test_ceilings_by_line_rate(line_rate_gbit_s: float, at_1024: float, at_2048: float, at_4096: float) -> None:
    found = [
        bandwidth_ceiling(Path(line_rate_gbit_s=line_rate_gbit_s, path_mtu_bytes=mtu)).value
        for mtu in (1024, 2048, 4096)
    ]

    assert found == pytest.approx([at_1024, at_2048, at_4096], abs=0.0051)


@pytest.mark.parametrize(
    ("operation", "per_message_bytes"),
    [
        ("write", 16),  # where it goes
        ("send", 0),
        ("read", 8),  # an AETH in the first and one in the last packet of the answer
    ],
)
def test_the_verbs_differ_by_their_own_headers(operation: Operation, per_message_bytes: int) -> None:
    path = Path(line_rate_gbit_s=100, path_mtu_bytes=4096, operation=operation)

    assert data_share(path) == pytest.approx(65_536 / (65_536 + 16 * 82 + per_message_bytes))


def test_a_small_message_is_mostly_header_and_is_padded_to_four_bytes() -> None:
    assert goodput_ratio(4096, 2) == pytest.approx(2 / (4 + 82 + 16))


def test_both_ways_carry_nearly_twice_as_the_line_is_full_duplex() -> None:
    path = Path(line_rate_gbit_s=100, path_mtu_bytes=4096, both_ways=True)
    ceiling = bandwidth_ceiling(path)

    # 82 + 4 bytes of acknowledgement a message run against the data
    assert ceiling.value == pytest.approx(2 * 100 * 65_536 / (65_536 + 16 * 82 + 16 + 86))
    assert "both directions" in ceiling.basis


def test_a_narrow_pcie_link_is_the_limit_and_is_named() -> None:
    path = Path(line_rate_gbit_s=100, path_mtu_bytes=4096, pcie_gbit_s=57.2)
    ceiling = bandwidth_ceiling(path)

    assert (ceiling.value, ceiling.limited_by) == (57.2, "pcie")
    assert "57.2" in ceiling.basis


def test_both_ports_of_a_gen3_nic_share_its_slot() -> None:
    path = Path(line_rate_gbit_s=100, path_mtu_bytes=4096, pcie_gbit_s=114.4, ports_on_slot=2)

    assert bandwidth_ceiling(path).value == pytest.approx(57.2)
    assert bandwidth_ceiling(path).limited_by == "shared slot"


def test_a_link_that_reports_nothing_limits_nothing() -> None:
    assert bandwidth_ceiling(Path(line_rate_gbit_s=100, path_mtu_bytes=4096)).limited_by == "line"

"""The physics: ceilings by MTU, VLAN and IPv6, and the number that looks like another path MTU."""

import pytest

from components.validation.physics.ceilings import (
    goodput_ratio,
    looks_like_path_mtu,
    nccl_ceiling_gbyte_s,
    verbs_ceiling_gbit_s,
)

MESSAGE_BYTES = 65_536


@pytest.mark.parametrize(
    ("path_mtu_bytes", "plain", "vlan", "ipv6", "both"),
    [
        # per cent, worked out by hand from the header sizes: 82 B a packet, +4 VLAN, +20 IPv6, 16 once a message
        (256, 75.73, 74.84, 71.50, 70.71),
        (512, 86.18, 85.60, 83.37, 82.83),
        (1024, 92.56, 92.23, 90.92, 90.60),
        (2048, 96.13, 95.95, 95.23, 95.06),
        (4096, 98.01, 97.92, 97.55, 97.45),
    ],
)
def test_goodput_by_path_mtu(path_mtu_bytes: int, plain: float, vlan: float, ipv6: float, both: float) -> None:
    ratios = [
        goodput_ratio(path_mtu_bytes, MESSAGE_BYTES, vlan=tagged, ipv6=six)
        for tagged, six in ((False, False), (True, False), (False, True), (True, True))
    ]

    assert [round(100 * ratio, 2) for ratio in ratios] == [plain, vlan, ipv6, both]


def test_two_rails_of_100_gbit_carry_a_busbw_of_24_5() -> None:
    rail = verbs_ceiling_gbit_s(100, 4096, MESSAGE_BYTES)

    assert nccl_ceiling_gbyte_s([rail, rail]) == pytest.approx(24.50, abs=0.005)


def test_seed_a_s_92_40_sits_at_the_ceiling_of_path_mtu_1024() -> None:
    assert looks_like_path_mtu(92.40, 100, 4096, MESSAGE_BYTES) == 1024


@pytest.mark.parametrize("measured_gbit_s", [97.5, 90.0, 50.0])
def test_a_good_or_an_oddly_slow_path_looks_like_no_other_mtu(measured_gbit_s: float) -> None:
    assert looks_like_path_mtu(measured_gbit_s, 100, 4096, MESSAGE_BYTES) is None


def test_a_path_configured_for_1024_is_not_accused_of_being_1024() -> None:
    assert looks_like_path_mtu(92.40, 100, 1024, MESSAGE_BYTES) is None

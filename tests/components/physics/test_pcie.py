"""PCIe: what sysfs says, what it carries, and a link that trained too small."""

import pytest

from components.physics.pcie import PcieLink, pcie_link


@pytest.mark.parametrize(
    ("gtransfers_s", "lanes", "raw", "payload"),
    [
        (8.0, 8, 63, 57),
        (8.0, 16, 126, 114),
        (16.0, 8, 126, 114),
        (16.0, 16, 252, 229),
        (32.0, 8, 252, 229),
        (32.0, 16, 504, 458),
    ],
)
def test_bandwidth_by_generation_and_width(gtransfers_s: float, lanes: int, raw: float, payload: float) -> None:
    link = PcieLink(gtransfers_s=gtransfers_s, lanes=lanes)

    assert link.raw_gbit_s == pytest.approx(raw, abs=0.5)
    assert link.payload_gbit_s() == pytest.approx(payload, abs=0.51)


def test_the_first_two_generations_lose_a_fifth_to_their_encoding() -> None:
    assert PcieLink(gtransfers_s=5.0, lanes=8).raw_gbit_s == 32


def test_gen6_carries_more_than_twice_of_gen5_less_its_flits() -> None:
    six, five = (PcieLink(gtransfers_s=rate, lanes=16).payload_gbit_s() for rate in (64.0, 32.0))

    assert 1.8 * five < six < 2.0 * five


@pytest.mark.parametrize(
    ("speed", "width", "generation", "lanes"),
    [
        ("8.0 GT/s PCIe\n", "16\n", 3, 16),
        ("16.0 GT/s PCIe", "x8", 4, 8),
        ("8 GT/s", "8", 3, 8),  # kernels before 4.20
        ("2.5 GT/s PCIe", "1", 1, 1),
        ("64.0 GT/s PCIe", "16", 6, 16),
    ],
)
def test_what_sysfs_says_is_read(speed: str, width: str, generation: int, lanes: int) -> None:
    link = pcie_link(speed, width)

    assert link
    assert (link.generation, link.lanes) == (generation, lanes)


@pytest.mark.parametrize(
    ("speed", "width"),
    [("Unknown", "0"), ("Unknown speed", "255"), ("", ""), ("8.0 GT/s PCIe", "0"), ("9.0 GT/s PCIe", "16")],
)
def test_a_device_that_reports_no_link_has_none(speed: str, width: str) -> None:
    assert pcie_link(speed, width) is None

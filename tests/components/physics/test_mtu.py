"""MTUs: from the interface to the path, and from a number back to it."""

import pytest

from components.physics.ceilings import Path
from components.physics.mtu import mtu_fingerprint
from tests.messages import states

DEEPOPS = Path(line_rate_gbit_s=100, path_mtu_bytes=4096)


def test_deepops_s_92_40_contradicts_its_own_header() -> None:
    found = mtu_fingerprint(92.40, DEEPOPS, reported_bytes=4096)

    assert found is not None
    assert found.code == "MTU_FINGERPRINT_1024"
    assert found.contradiction
    assert (round(found.ratio_to_configured, 3), round(found.ratio_to_seen, 3)) == (0.943, 0.998)
    assert states(found.evidence, "92.40 Gbit/s", "94.3%", "99.8%", 1024)
    assert found.evidence.count("4096") == 2, "what the lab declares, and what the header says"


def test_a_fingerprint_gives_both_explanations_and_the_test_that_decides() -> None:
    found = mtu_fingerprint(92.40, DEEPOPS, reported_bytes=4096)

    assert found is not None
    assert states(found.hint, 1024, "-R", "PCIe", "ib_write_bw -m 4096", "97.8", "92.4 Gbit/s")
    # 97.8: what a healthy path at 4096 gives when this NIC reaches 99.8 %


def test_a_header_that_admits_the_small_mtu_is_no_contradiction() -> None:
    found = mtu_fingerprint(92.40, DEEPOPS, reported_bytes=1024)

    assert found is not None
    assert not found.contradiction
    assert "header" not in found.evidence


@pytest.mark.parametrize(
    ("measured", "seen"),
    [(97.8, None), (95.2, None), (94.9, 2048), (94.0, None), (92.4, 1024), (86.0, 512), (80.0, None), (12.0, None)],
)
def test_only_numbers_at_another_ceiling_look_like_its_mtu(measured: float, seen: int | None) -> None:
    found = mtu_fingerprint(measured, DEEPOPS)

    assert (found.seen_bytes if found else None) == seen


def test_a_path_that_pcie_limits_is_not_accused_of_its_mtu() -> None:
    narrow = Path(line_rate_gbit_s=100, path_mtu_bytes=4096, pcie_gbit_s=93.0)

    assert mtu_fingerprint(92.4, narrow) is None

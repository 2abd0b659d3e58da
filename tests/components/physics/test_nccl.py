"""NCCL's ceiling: the bandwidth of measured and computed rails, and the latency of the ring's steps."""

import os

import pytest

from components.physics.ceilings import Path, bandwidth_ceiling
from components.physics.nccl import Ring, largest_message_bytes, nccl_ceiling, rails_gbyte_s
from components.validation.summary import rate
from stacks.benchmarks import Nccl, Threshold
from stacks.words import bytes_text
from tests.components.physics.cost_model import all_reduce_s
from tests.conftest import ROOT
from tests.messages import states

GIB = 2**30
PAGE = ROOT / "docs" / "verdict.md"
BEGIN, END = "<!-- all-reduce: begin -->", "<!-- all-reduce: end -->"
NODES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
VENDORS = ("GenuineIntel", "AuthenticAMD")
THRESHOLD: Threshold = Nccl.model_fields["threshold_measured"].default
RING_GBYTE_S = 362.0
"""Of eight H100 in one node, nccl-tests#212: less than eight rails of 400 Gbit/s carry."""


@pytest.mark.parametrize(
    ("nics", "line_rate", "at_1024", "at_4096"),
    [
        (1, 25, 2.89, 3.06),
        (2, 25, 5.79, 6.13),
        (1, 100, 11.57, 12.25),
        (2, 100, 23.14, 24.50),
        (4, 100, 46.28, 49.01),
        (8, 200, 185.1, 196.0),
        (8, 400, 370.3, 392.1),
    ],
)
def test_bandwidth_of_computed_rails(nics: int, line_rate: float, at_1024: float, at_4096: float) -> None:
    paths = [Path(line_rate_gbit_s=line_rate, path_mtu_bytes=mtu) for mtu in (1024, 4096)]
    carried = [rails_gbyte_s([bandwidth_ceiling(path).value] * nics) for path in paths]

    assert carried == pytest.approx([at_1024, at_4096], abs=0.051)


def test_deepops_s_busbw_is_what_its_verbs_predict() -> None:
    ring = Ring(nodes=2, gpus_per_node=8, message_bytes=2 * GIB)
    ceiling = nccl_ceiling([92.40, 92.40], ring, measured=True)

    assert round(22.92 / ceiling.value, 3) == 0.993
    assert states(ceiling.basis, "23.10 GB/s", "ib_write_bw", "2 rails", "0.18 ms", "16 ranks", "2 GiB")
    assert ceiling.limited_by == "measured verbs"


@pytest.mark.parametrize("vendor", ["", *VENDORS])
@pytest.mark.parametrize("gpus", [1, 4, 8])
@pytest.mark.parametrize("nodes", [2, 16, 512])
def test_the_ceiling_takes_the_time_of_nccl_s_cost_model(nodes: int, gpus: int, vendor: str) -> None:
    ring = Ring(nodes=nodes, gpus_per_node=gpus, message_bytes=8 * GIB, cpu_vendor=vendor)
    took_s = all_reduce_s(ring.message_bytes, 100.0, nodes, gpus, vendor)
    busbw = ring.message_bytes / 1e9 / took_s * 2 * (ring.ranks - 1) / ring.ranks

    assert ring.busbw_gbyte_s(100.0) == pytest.approx(busbw)


@pytest.mark.parametrize(
    ("ranks", "rails", "gib"),
    [(2, 0, 2), (16, 1, 2), (16, 2, 2), (64, 4, 4), (64, 8, 8), (65, 8, 16), (72, 1, 2), (72, 3, 8), (4096, 16, 16)],
)
def test_the_largest_message_grows_with_ranks_and_rails(ranks: int, rails: int, gib: int) -> None:
    assert largest_message_bytes(ranks, rails) == gib * GIB


def rated(ring: Ring, share: float) -> tuple[float, str]:
    """How a ring is rated that takes the time of NCCL's model at a share of its bandwidth."""
    bandwidth = share * RING_GBYTE_S
    took_s = all_reduce_s(ring.message_bytes, bandwidth, ring.nodes, ring.gpus_per_node, ring.cpu_vendor)
    busbw = ring.message_bytes / 1e9 / took_s * 2 * (ring.ranks - 1) / ring.ranks
    ratio = busbw / ring.busbw_gbyte_s(RING_GBYTE_S)
    return ratio, rate(ratio, THRESHOLD)


def most_latency(ring: Ring) -> float:
    """By how much the latency of a healthy ring may exceed the model's before it is a warning."""
    expected_s = all_reduce_s(ring.message_bytes, RING_GBYTE_S, ring.nodes, ring.gpus_per_node, ring.cpu_vendor)
    return 1 + expected_s * (1 / THRESHOLD.warn_below - 1) / ring.latency_s


def ring_of(nodes: int, vendor: str) -> Ring:
    size = largest_message_bytes(nodes * 8, 8)
    return Ring(nodes=nodes, gpus_per_node=8, message_bytes=size, cpu_vendor=vendor)


def cells(nodes: int) -> list[str]:
    """One row of the page's table."""
    row = [str(nodes), bytes_text(largest_message_bytes(nodes * 8, 8))]
    for ring in (ring_of(nodes, vendor) for vendor in VENDORS):
        ceiling = ring.busbw_gbyte_s(RING_GBYTE_S)
        row.append(f"{ceiling:.0f} GB/s, {ceiling / RING_GBYTE_S:.0%}")
        healthy, slow = rated(ring, 1.0), rated(ring, 0.85)
        row.append(f"{healthy[0]:.0%} {healthy[1]}, up to {most_latency(ring):.1f} x latency")
        row.append(f"{slow[0]:.1%} {slow[1]}")
    return row


def test_the_page_says_how_rings_of_each_size_are_rated() -> None:
    head = "| nodes | message | ceiling, Intel | healthy | at 85 % | ceiling, AMD | healthy | at 85 % |"
    lines = [head, "|---|---|---|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells(nodes))} |" for nodes in NODES]
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    expected = f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.partition(END)[2]}"
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(expected)
        page = expected

    assert page == expected, "write it again with UPDATE_GOLDEN=1"


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("nodes", NODES)
def test_a_healthy_ring_of_any_size_passes_with_a_margin_and_one_at_85_percent_does_not(
    nodes: int, vendor: str
) -> None:
    """The bound is 95 %, so noise of 1 % reaches it from neither side."""
    ring = ring_of(nodes, vendor)
    healthy, slow = rated(ring, 1.0), rated(ring, 0.85)

    assert healthy[0] == pytest.approx(1.0)
    assert healthy[1] == "pass"
    assert slow[0] < 0.92
    assert slow[1] in ("warn", "fail")

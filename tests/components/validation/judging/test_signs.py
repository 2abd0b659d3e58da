"""Signs of single transfers among many: what noise does is told of nobody."""

import random

import pytest

from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.transfer_findings import mtu_findings
from components.validation.records import TransferResult
from stacks.lab import Lab
from tests.components.validation.labs import first_rounds, hardware, measured, paired, plan_for, record, with_nodes

CEILING = 0.9801
AT_1024 = 0.924
"""Of a line of 100 Gbit/s, where a path MTU of 1024 bytes ends."""


def noisy(plan: Plan, cv: float, small: str = "") -> list[TransferResult]:
    """Every pair at 98 % of its ceiling with that coefficient of variation; one node with a smaller MTU."""
    draw = random.Random(7)  # noqa: S311  # noise, the same at each run
    return [
        measured(t.rail, t.client, t.server, min(100 * CEILING, 98 * draw.gauss(CEILING, CEILING * cv)), 100.0)
        if small not in (t.client, t.server)
        else measured(t.rail, t.client, t.server, 100 * AT_1024 * draw.uniform(0.995, 1.0), 100.0)
        for transfers in first_rounds(plan)
        for t in transfers
    ]


@pytest.mark.whole
def test_noise_among_thousands_of_transfers_is_no_mtu(lab: Lab) -> None:
    plan = plan_for(paired(with_nodes(hardware(lab), 64)))

    assert list(mtu_findings(plan, record(plan, also=noisy(plan, 0.01)))) == []


@pytest.mark.whole
def test_one_node_with_a_smaller_mtu_among_noisy_ones_is_found_with_all_its_transfers_and_no_other(lab: Lab) -> None:
    plan = plan_for(paired(with_nodes(hardware(lab), 64)))
    transfers = noisy(plan, 0.004, small="gpu17")

    (found,) = mtu_findings(plan, record(plan, also=transfers))

    of_the_node = sum("gpu17" in (t.client, t.server) for t in transfers)
    assert found.code == "MTU_FINGERPRINT_1024"
    assert found.where.endswith(f" and {of_the_node - 1} more")
    assert "gpu17" in found.where

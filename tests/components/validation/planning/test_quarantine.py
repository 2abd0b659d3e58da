"""Who takes no part in a measurement, and what that does to plan and gate."""

import pytest

from components.validation.gate import closed
from components.validation.planning.quarantine import quarantined, without
from stacks.lab import Lab
from tests.components.validation.labs import plan_for, with_nodes


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"status": "ready"}, {}),
        ({"status": "drained"}, {}),
        ({"status": "unreachable", "reason": "no answer"}, {"gpu01": "unreachable: no answer"}),
        (
            {"status": "needs_reboot", "reason": "vfs", "hint": "reboot it"},
            {"gpu01": "needs_reboot: vfs; reboot it"},
        ),
    ],
)
def test_a_host_that_is_not_ready_is_named_with_all_that_is_known(
    lab: Lab, result: dict[str, str], expected: dict[str, str]
) -> None:
    assert quarantined(plan_for(lab), {"gpu01": result, "gpu02": {"status": "ready"}}) == expected


def test_a_host_that_is_in_no_plan_holds_nothing_up(lab: Lab) -> None:
    assert quarantined(plan_for(lab), {"login01": {"status": "failed"}}) == {}


def test_the_rest_keeps_its_rails_and_its_job(lab: Lab) -> None:
    plan = plan_for(with_nodes(lab, 4))

    rest = without(plan, {"gpu03"})

    assert {end.node for rail in rest.rails for end in rail.ends} == {"gpu01", "gpu02", "gpu04"}
    assert rest.nccl
    assert rest.nccl.nodes == ("gpu01", "gpu02", "gpu04")
    assert without(plan, ()) == plan


def test_a_single_host_that_is_left_runs_no_job(lab: Lab) -> None:
    assert without(plan_for(lab), {"gpu02"}).nccl is None


@pytest.mark.parametrize(("mode", "expected"), [("enforce", True), ("warn", False)])
def test_a_partial_verdict_fails_a_run_that_enforces(mode: str, expected: bool) -> None:
    assert closed(mode, "partial", "not rated") is expected

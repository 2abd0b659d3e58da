"""Hints from NCCL's own log."""

import pytest

from components.validation.benchmarks.nccl.judge import network_findings
from components.validation.records import JobResult, NcclResult
from stacks.lab import Lab
from stacks.transports import Comparison
from tests.components.validation.labs import changed, hardware, plan_for, record, reduced


def codes(lab: Lab, nccl: NcclResult | None) -> list[str]:
    plan = plan_for(hardware(lab))
    return [finding.code for finding in network_findings(plan, record(plan, nccl=nccl))]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"network": {"gpu_direct": "all", "algorithm": "Ring"}}, []),
        ({"network": {"gpu_direct": "none"}}, ["GPUDIRECT_OFF"]),
        ({"network": {"gpu_direct": "some"}}, ["GPUDIRECT_OFF"]),
        ({"network": {"algorithm": "Tree"}}, ["ALGORITHM_NOT_PINNED"]),
        ({"off_rail": ("rank 1 uses mlx5_9, which is on no rail",)}, ["WRONG_RAIL"]),
        ({"unchecked": ("job-worker-0",)}, ["RAILS_UNCHECKED"]),
    ],
)
def test_what_the_log_reports_becomes_a_hint(lab: Lab, fields: dict[str, object], expected: list[str]) -> None:
    assert codes(lab, reduced().model_copy(update=fields)) == expected


@pytest.mark.parametrize(
    ("transport", "fields", "expected"),
    [
        ("roce", {"off_rail": ("rank 1 uses mlx5_9, which is on no rail",)}, ["WRONG_RAIL"]),
        ("roce", {"details": {"gpu_direct": "none"}}, ["GPUDIRECT_OFF"]),
        ("roce", {"details": {"gpu_direct": "all"}}, []),
        ("tcp", {}, []),
        ("roce", {"details": {"gpu_direct": "none"}, "replayed": True}, []),
    ],
)
def test_jobs_of_a_comparison_get_the_same_hints_and_each_once(
    lab: Lab, transport: str, fields: dict[str, object], expected: list[str]
) -> None:
    plan = plan_for(changed(hardware(lab), comparison=Comparison(), budget_s=86_400))
    known = {"program": "nccl_all_reduce", "transport": transport, "outcome": "measured", "unit": "GB/s"}
    twice = (JobResult.model_validate({**known, **fields}),) * 2
    found = list(network_findings(plan, record(plan).model_copy(update={"jobs": twice})))

    assert [(one.code, one.where) for one in found] == [(code, f"nccl_all_reduce {transport}") for code in expected]


def test_a_recorded_log_proves_nothing_about_this_lab(lab: Lab) -> None:
    assert codes(lab, reduced(replayed=True).model_copy(update={"network": {"gpu_direct": "none"}})) == []
    assert codes(lab, None) == []

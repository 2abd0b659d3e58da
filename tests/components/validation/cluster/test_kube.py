"""Which pods keep a run from the rails."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from components.jobs.mpijob import RUN_LABEL
from components.validation.cluster import holders

RESOURCES = {"intel.com/sriov_111", "intel.com/sriov_112"}


def pod(
    node: str = "gpu01", phase: str = "Running", labels: dict[str, str] | None = None, **limits: str
) -> dict[str, Any]:
    named = {name.replace("__", "/").replace("intel", "intel.com"): count for name, count in limits.items()}
    return {
        "metadata": {"name": "x", "namespace": "team", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": [{"name": "a", "resources": {"limits": named}}]},
        "status": {"phase": phase},
    }


def cases() -> Iterator[tuple[dict[str, Any], list[str]]]:
    on = {"intel__sriov_112": "1"}
    yield pod(**on), ["gpu01: pod team/x holds intel.com/sriov_112"]
    yield pod(phase="Pending", **on), ["gpu01: pod team/x holds intel.com/sriov_112"]
    yield pod(phase="Succeeded", **on), []
    yield pod(node="gpu09", **on), []
    yield pod(labels={RUN_LABEL: "old"}, **on), []
    yield pod(cpu="2"), []


@pytest.mark.parametrize(("found", "expected"), list(cases()))
def test_a_pod_counts_when_it_lives_on_a_node_of_the_plan_and_holds_a_rail(
    found: dict[str, Any], expected: list[str]
) -> None:
    api: Any = SimpleNamespace(items=lambda _path, _query: [found])

    assert holders(api, RESOURCES, {"gpu01", "gpu02"}) == expected

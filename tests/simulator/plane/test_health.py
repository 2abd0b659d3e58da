"""What is seen of a cluster that was stopped for a while."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulator.plane.health import lost_nodes, unready_pods

NOW = datetime(2026, 11, 22, 12, 0, 0, tzinfo=UTC)


def event(node: str, age: timedelta) -> dict[str, Any]:
    return {"involvedObject": {"name": node}, "lastTimestamp": (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")}


def pod(name: str, deleted: bool = False, **conditions: str) -> dict[str, Any]:
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    metadata = {"namespace": "rdma", "name": name, **({"deletionTimestamp": "2026-11-22T11:59:00Z"} if deleted else {})}
    return {"metadata": metadata, "status": {"phase": "Running", "conditions": found}}


def test_a_node_was_lost_when_an_event_says_so_after_the_last_up() -> None:
    events = [event("gpu01", timedelta(minutes=5)), event("gpu02", timedelta(minutes=1))]

    assert list(lost_nodes(events, NOW - timedelta(minutes=2))) == ["gpu02"]


@pytest.mark.parametrize(
    ("conditions", "unready"),
    [
        ({"Ready": "False", "ContainersReady": "True"}, True),
        ({"Ready": "True", "ContainersReady": "True"}, False),
        ({"Ready": "False", "ContainersReady": "False"}, False),
        ({}, False),
    ],
)
def test_a_pod_has_to_become_ready_again_when_its_containers_are(conditions: dict[str, str], unready: bool) -> None:
    assert list(unready_pods([pod("multus-x", **conditions)])) == (["rdma/multus-x"] if unready else [])


def test_a_pod_that_is_being_deleted_is_not_waited_for() -> None:
    assert list(unready_pods([pod("multus-x", deleted=True, Ready="False", ContainersReady="True")])) == []

"""What is kept of a job that failed: enough to see why, and no secret of it."""

import json

import pytest

from components.validation import cluster
from components.validation.benchmarks.nccl.run import run_nccl
from components.validation.cluster import evidence_of
from components.validation.redact import needles, redacted
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.validation.fake_api import FakeApi, cluster_run, serving
from tests.components.validation.labs import plan_for

CANARY = "c4n4ry-in-a-coal-mine"
STATUS = '[{"name": "sriov111", "interface": "net1", "ips": ["10.20.111.10"]}]'
POD = {
    "metadata": {
        "name": "job-worker-0",
        "annotations": {cluster.NETWORK_STATUS: STATUS, "kubectl.kubernetes.io/last-applied-configuration": CANARY},
        "managedFields": [{"x": CANARY}],
    },
    "spec": {"containers": [{"env": [{"name": "DB", "value": CANARY}, {"name": "NCCL_DEBUG", "value": "INFO"}]}]},
}


class Answers:
    """As much of an API server as evidence asks for."""

    def text(self, path: str, _query: object) -> str:
        if path.endswith("/log"):
            return f"NCCL INFO NET/IB : No device found.\nREGISTRY_TOKEN={CANARY}\n"
        if path.endswith("/nodes"):
            raise LabError("nodes is forbidden")
        return json.dumps({"items": [POD]} if path.endswith("/pods") else {"items": [{"reason": "FailedScheduling"}]})


@pytest.fixture
def gathered() -> dict[str, str]:
    return evidence_of(Answers(), "rocelab-bench", "job")  # type: ignore[arg-type]  # only text() is asked


def test_pods_events_logs_networks_and_nodes_are_there(gathered: dict[str, str]) -> None:
    assert {name.removeprefix("evidence/job/") for name in gathered} == {
        "job.json",
        "pods.json",
        "events.json",
        "nodes.json",
        "network-status.json",
        "logs/job-worker-0.log",
    }
    assert "FailedScheduling" in gathered["evidence/job/events.json"]
    assert json.loads(gathered["evidence/job/network-status.json"]) == {"job-worker-0": STATUS}


def test_what_cannot_be_read_is_reported_and_hides_nothing_else(gathered: dict[str, str]) -> None:
    assert gathered["evidence/job/nodes.json"] == "could not be read: nodes is forbidden"


def test_no_canary_is_left_in_it_and_what_steers_the_transport_is(gathered: dict[str, str]) -> None:
    kept = {name: redacted(text, needles([])) for name, text in gathered.items()}

    assert [name for name, text in kept.items() if CANARY in text] == []
    assert '"INFO"' in kept["evidence/job/pods.json"]
    assert "NET/IB : No device found" in kept["evidence/job/logs/job-worker-0.log"]


def test_a_failed_job_leaves_evidence_before_it_is_taken_away(lab: Lab) -> None:
    answers = FakeApi(statuses=[{"conditions": [{"type": "Failed", "status": "True", "message": "BackoffLimit"}]}])
    with serving(answers) as api:
        plan = plan_for(lab)
        assert plan.nccl
        run = cluster_run(plan, api.kubeconfig)
        result, raw = run_nccl(plan.nccl, run), run.raw

    assert result.outcome == "failed"
    assert [name for name in raw if name.startswith(f"evidence/{result.job}/")]
    assert answers.deleted == [result.job]

"""The gate on the nodes of a real API server, beside a kubelet's own conditions and other taints."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from components.cli.app import main
from components.gate.decision import GatedNode, LabGate
from components.gate.measured import GateReason
from components.gate.publish import CONDITION, TAINT, publish
from components.kubernetes.client import KubernetesApi
from simulator.plane.api import Api
from simulator.plane.layout import Layout

pytestmark = pytest.mark.sim

READ_AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
DOWN = GatedNode(name="gpu02", reasons=(GateReason(code="link-down", text="enp5s0: no carrier"),))
GATE = LabGate(lab="lab", read_at=READ_AT, verdict="run x", nodes=(GatedNode(name="gpu01"), DOWN))
FOREIGN = {"key": "example.com/other", "value": "x", "effect": "NoSchedule"}


def conditions(api: KubernetesApi, node: str) -> dict[str, Any]:
    found: Any = api.get(f"/api/v1/nodes/{node}")
    return {condition["type"]: condition for condition in found["status"]["conditions"]}


def taints(api: KubernetesApi, node: str) -> list[str]:
    found: Any = api.get(f"/api/v1/nodes/{node}")
    return [taint["key"] for taint in found["spec"].get("taints", [])]


def test_conditions_and_taints_come_and_go_beside_those_of_others(api: Api, layout: Layout) -> None:
    assert api.items("/api/v1/nodes")
    with KubernetesApi(layout.kubeconfig.read_text()) as nodes:
        nodes.merge("/api/v1/nodes/gpu02", {"spec": {"taints": [FOREIGN]}})
        before = conditions(nodes, "gpu02")

        publish(nodes, GATE, {}, taint=False)
        assert taints(nodes, "gpu02") == [FOREIGN["key"]], "a taint is set only if the lab file says so"
        publish(nodes, GATE, {}, taint=True)

        after = conditions(nodes, "gpu02")
        assert before.keys() <= after.keys()
        assert (after[CONDITION]["status"], after[CONDITION]["message"]) == ("False", "link-down enp5s0: no carrier")
        assert conditions(nodes, "gpu01")[CONDITION]["status"] == "True"
        assert taints(nodes, "gpu02") == [FOREIGN["key"], TAINT]
        assert TAINT not in taints(nodes, "gpu01")

        opened = replace(GATE, nodes=(GatedNode(name="gpu01"), replace(DOWN, reasons=())))
        publish(nodes, opened, {}, taint=True)
        assert conditions(nodes, "gpu02")[CONDITION]["status"] == "True"
        assert taints(nodes, "gpu02") == [FOREIGN["key"]]
        nodes.merge("/api/v1/nodes/gpu02", {"spec": {"taints": []}})


def test_the_printed_job_is_taken_by_the_server(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--format", "job"]) == 0

    for manifest in yaml.safe_load_all(capsys.readouterr().out):
        group, _, _ = manifest["apiVersion"].rpartition("/")
        base = f"/apis/{manifest['apiVersion']}" if group else "/api/v1"
        where = "" if manifest["kind"].startswith("Cluster") else "/namespaces/default"
        plural = f"{manifest['kind'].lower()}s"
        api.create(f"{base}{where}/{plural}?dryRun=All&fieldValidation=Strict", manifest)

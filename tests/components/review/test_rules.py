"""`rocelab check`: each rule with what breaks it and with what keeps it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.cli.app import main
from components.review.effects import review_of
from components.review.preview import read_preview
from components.review.rules import broken_rules
from tests.components.hosts.fleet_hosts import record
from tests.components.review.previews import SAMPLES, SWITCH, hosts, preview, seen, step, switch_properties
from tests.components.switches.labs import switch_entry, with_switches

PASS = {"function": "pass", "performance": "pass", "stale": []}
BUSY = {"vfs_in_use": {"enp5s0": "3 in use"}, "vfs_offered": {"enp5s0": 8}, "seen": "2026-11-22T05:50Z"}
IDLE = {**BUSY, "vfs_in_use": {}}
DAEMONSET = "rocelab:cluster:RdmaCluster$kubernetes:apps/v1:DaemonSet::cluster-multus-daemonset"
PLAN = "rocelab:validation:Validation$kubernetes:core/v1:ConfigMap::validation-plan"
DIGEST = f"registry.example/multus@sha256:{'0' * 64}"


def codes(text: str, *reviewed: str) -> list[str]:
    read = read_preview(text)
    return [finding.code for finding in broken_rules(read, review_of(read), reviewed)]


def mtu_change(facts: Mapping[str, Any] | None, verdict: Mapping[str, Any] | None) -> str:
    """A host's MTU changes in a stack with this verdict; the host said this of its VFs."""
    host = record("gpu01", 1)
    known = {"gpu01": facts} if facts else {}
    content = json.loads(preview(hosts({"gpu01": seen(host, **{"enp5s0.mtu_bytes": 1500})}, {"gpu01": host}, known)))
    if verdict:
        content["steps"][0]["oldState"] = {"outputs": {"validation": verdict}}
    return json.dumps(content)


@pytest.mark.parametrize(
    ("facts", "verdict", "broken"),
    [
        (BUSY, PASS, []),
        (BUSY, {**PASS, "performance": "not rated"}, []),
        (BUSY, {**PASS, "performance": "fail"}, ["NO_FRESH_PASS"]),
        (BUSY, {**PASS, "function": "partial"}, ["NO_FRESH_PASS"]),
        (BUSY, {**PASS, "stale": ["gpu01 was repaired"]}, ["NO_FRESH_PASS"]),
        (BUSY, None, ["NO_FRESH_PASS"]),
        (None, None, ["NO_FRESH_PASS"]),
        (IDLE, None, []),
    ],
)
def test_a_host_in_use_is_interrupted_only_after_a_fresh_pass(
    facts: Mapping[str, Any] | None, verdict: Mapping[str, Any] | None, broken: list[str]
) -> None:
    """What is in use is unknown where the host said nothing, and then it counts as in use."""
    assert codes(mtu_change(facts, verdict)) == broken


@pytest.mark.parametrize(
    ("allowed", "reviewed", "broken"),
    [(True, (), ["SWITCH_WIDE"]), (True, ("sw1",), []), (True, ("sw2",), ["SWITCH_WIDE"]), (False, (), [])],
)
def test_a_switch_with_allow_global_changes_only_after_a_review(
    allowed: bool, reviewed: tuple[str, ...], broken: list[str]
) -> None:
    entry = switch_entry("sonic", allow_global=allowed)
    lab = with_switches(entry, qos={"mode": "lossy", "priority": 3})
    change = step("update", SWITCH.format("sw1"), switch_properties(lab, mtu_bytes=1500), switch_properties(lab))

    assert codes(preview(change), *reviewed) == broken
    assert codes(preview({**change, "op": "same"})) == []


@pytest.mark.parametrize(("image", "broken"), [("registry.example/multus:v4", ["IMAGE_BY_TAG"]), (DIGEST, [])])
def test_an_image_has_a_digest(image: str, broken: list[str]) -> None:
    pods = {"spec": {"template": {"spec": {"initContainers": [{"image": image}], "containers": [{"image": image}]}}}}
    job = {"data": {"nccl.yaml": f"kind: MPIJob\nspec:\n  - image: {image}\n    name: image: no\n"}}

    assert codes(preview(step("same", DAEMONSET, None, pods))) == broken
    assert codes(preview(step("create", PLAN, None, job))) == broken


def test_a_preview_that_failed_proves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(SAMPLES / "broken.json")]) == 1
    assert capsys.readouterr().out.startswith("PREVIEW_FAILED: ")


def test_it_ends_with_zero_where_all_rules_hold_and_its_findings_are_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "preview.json"
    file.write_text(mtu_change(BUSY, PASS))
    assert main(["check", str(file)]) == 0
    assert capsys.readouterr().out == "all rules hold\n"

    file.write_text(mtu_change(BUSY, None))
    assert main(["check", str(file), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [finding["where"] for finding in document["findings"]] == ["gpu01"]
    assert document["unread"] is False

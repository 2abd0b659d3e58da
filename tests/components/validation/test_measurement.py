"""Measurement and Gate as providers: when they act, what they keep, and that they keep no secret."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.dynamic import Config, ConfigureRequest

from components.validation import gate, measurement
from components.validation.fingerprint import fingerprint_of, host_state
from components.validation.gate import GateProvider, VerdictError, closed
from components.validation.measurement import LARGEST_RECORD_BYTES, MeasurementProvider
from components.validation.planning.plan import Plan
from components.validation.records import RunRecord, TransferResult
from components.validation.running.runner import Run
from stacks.lab import Lab
from tests.components.validation.labs import hardware, paired, plan_for, record, reduced, with_nodes


def provider(lab: Lab, **config: str) -> MeasurementProvider:
    made = MeasurementProvider()
    raw = {"rocelab:lab": lab.model_dump_json(), **{f"rocelab:{name}": value for name, value in config.items()}}
    made.configure(ConfigureRequest(Config(raw, "rocelab")))
    return made


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the keys that the reference lab names, as the simulator writes them."""
    nodes = tmp_path / ".sim" / "nodes"
    nodes.mkdir(parents=True)
    (nodes / "id_ed25519").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nCANARY\n")
    line = "[127.0.12.{}]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEk0\n"
    (nodes / "known_hosts").write_text(line.format(1) + line.format(2))
    (tmp_path / ".sim" / "kubeconfig").write_text("CANARY")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pulumi.log, "info", lambda *_: None)
    return tmp_path


def props(plan: Plan, fingerprint: str = "f1") -> dict[str, Any]:
    return {"plan": plan.model_dump_json(), "fingerprint": fingerprint, "record": None, "settled": None}


def answering(monkeypatch: pytest.MonkeyPatch, result: RunRecord) -> None:
    async def measure(_plan: object, _access: object, _say: object, fingerprint: str) -> Run:
        done = result.model_copy(update={"fingerprint": fingerprint})
        return Run(record=done, raw={"a": "text"})

    monkeypatch.setattr(measurement, "measure", measure)


def test_what_was_measured_is_kept_small_and_without_raw_text(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = paired(with_nodes(hardware(lab), 64))
    answering(monkeypatch, record(plan_for(big), nccl=reduced()))
    outs = provider(lab).create(props(plan_for(big))).outs

    assert outs
    assert len(outs["record"]) <= LARGEST_RECORD_BYTES
    assert (outs["settled"], outs["fingerprint"]) == (True, "f1")
    kept = RunRecord.model_validate_json(outs["record"])
    assert kept.left_out > 7000
    assert (checkout / ".sim" / "runs" / "lab" / f"{kept.run_id}.json.gz").exists()
    assert "CANARY" not in json.dumps(outs)


def test_a_run_that_did_not_pass_is_not_settled(lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    down = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("down",))
    answering(monkeypatch, record(plan_for(lab), also=[down], nccl=reduced(replayed=True)))
    outs = provider(lab).update("measurement", {}, props(plan_for(lab))).outs

    assert outs
    assert outs["settled"] is False


def test_a_missing_key_is_a_failed_result_and_no_exception(lab: Lab, checkout: Path) -> None:
    (checkout / ".sim" / "nodes" / "id_ed25519").unlink()
    outs = provider(lab).create(props(plan_for(lab))).outs

    assert outs
    kept = RunRecord.model_validate_json(outs["record"])
    assert "access.key_file: .sim/nodes/id_ed25519 cannot be read" in kept.transfers[0].reasons[0]
    assert outs["settled"] is False


@pytest.mark.parametrize(
    ("olds", "news", "changes"),
    [
        ({"fingerprint": "f1", "settled": True}, {"fingerprint": "f1"}, False),
        ({"fingerprint": "f1", "settled": True}, {"fingerprint": "f2"}, True),
        ({"fingerprint": "f1", "settled": True}, {}, True),  # not known yet: a host will change
        ({"fingerprint": "f1", "settled": False}, {"fingerprint": "f1"}, True),
        ({"fingerprint": "f1", "settled": True, "plan": "a"}, {"fingerprint": "f1", "plan": "b"}, False),
    ],
)
def test_only_the_fingerprint_and_an_unsettled_result_ask_for_another_run(
    lab: Lab, olds: dict[str, Any], news: dict[str, Any], changes: bool
) -> None:
    result = provider(lab).diff("measurement", olds, news)

    assert (result.changes, result.replaces) == (changes, None)


def test_what_a_host_tells_differently_each_time_is_no_part_of_the_fingerprint() -> None:
    facts = {"machine_id": "m", "boot_id": "b", "kernel": "6.1", "carrier": {"enp5s0": True}}
    first = host_state({"gpu01": {"status": "ready", "reason": "x"}}, {"gpu01": facts})
    second = host_state({"gpu01": {"status": "ready"}}, {"gpu01": {**facts, "carrier": {}}})

    assert first == second


@pytest.mark.parametrize("fact", ["machine_id", "boot_id", "kernel"])
def test_another_machine_boot_or_kernel_asks_for_another_run(lab: Lab, fact: str) -> None:
    plan = plan_for(lab)
    one, two = (host_state({}, {"gpu01": {fact: value}}) for value in "ab")

    assert fingerprint_of(plan, one) != fingerprint_of(plan, two)


def test_a_host_that_became_ready_asks_for_another_run(lab: Lab) -> None:
    states = [host_state({"gpu01": {"status": status}}, {}) for status in ("ready", "unreachable")]

    assert len({fingerprint_of(plan_for(lab), state) for state in states}) == 2


def test_the_order_of_hosts_does_not_count() -> None:
    ready, other = {"status": "ready"}, {"status": "failed"}

    assert host_state({"a": ready, "b": other}, {}) == host_state({"b": other, "a": ready}, {})


@pytest.mark.parametrize(
    ("mode", "function", "performance", "fails"),
    [
        ("enforce", "pass", "pass", False),
        ("enforce", "pass", "not rated", False),
        ("enforce", "pass", "warn", False),
        ("enforce", "skip", "not rated", False),
        ("enforce", "fail", "not rated", True),
        ("enforce", "pass", "fail", True),
        ("warn", "fail", "fail", False),
    ],
)
def test_the_gate_fails_in_enforce_and_for_a_fail_only(
    monkeypatch: pytest.MonkeyPatch, mode: str, function: str, performance: str, fails: bool
) -> None:
    monkeypatch.setattr(gate, "SETTLE_S", 0)
    inputs = {"mode": mode, "function": function, "performance": performance, "reasons": "  gpu01 is down"}

    assert closed(mode, function, performance) is fails
    for act in (lambda: GateProvider().create(inputs), lambda: GateProvider().update("gate", {}, inputs)):
        if fails:
            with pytest.raises(VerdictError, match="gpu01 is down"):
                act()
        else:
            act()


def test_the_gate_looks_again_when_a_verdict_changed_and_not_for_another_text() -> None:
    olds = {"mode": "enforce", "function": "pass", "performance": "pass", "reasons": ""}

    assert GateProvider().diff("gate", olds, {**olds, "reasons": "other"}).changes is False
    assert GateProvider().diff("gate", olds, {**olds, "function": "fail"}).changes is True
    assert GateProvider().diff("gate", olds, {**olds, "mode": "warn"}).changes is True

"""The gate's behavior; the real engine runs it in test_gate_engine.py."""

import asyncio

import pytest

from components.provider.base import ProviderConfig
from components.validation import gate
from components.validation.gate import Gate, GateInputs, VerdictError
from components.validation.summary import closed
from tests.messages import stating

GATE = Gate(ProviderConfig({}))
PASSED = GateInputs(mode="enforce", function="pass", performance="pass")


@pytest.mark.parametrize(
    ("mode", "function", "performance", "fails"),
    [
        ("enforce", "pass", "pass", False),
        ("enforce", "pass", "not rated", False),
        ("enforce", "pass", "warn", False),
        ("enforce", "skip", "not rated", False),
        ("enforce", "fail", "not rated", True),
        ("enforce", "pass", "fail", True),
        ("enforce", "error", "not rated", True),
        ("enforce", "partial", "not rated", True),
        ("enforce", "pass", "unstable", False),
        ("warn", "fail", "fail", False),
    ],
)
def test_the_gate_fails_in_enforce_and_for_a_fail_only(
    monkeypatch: pytest.MonkeyPatch, mode: str, function: str, performance: str, fails: bool
) -> None:
    monkeypatch.setattr(gate, "SETTLE_S", 0)
    inputs = GateInputs(mode=mode, function=function, performance=performance, reasons=("gpu01 is down",))

    assert closed(mode, function, performance) is fails
    if not fails:
        assert asyncio.run(GATE.create(inputs)) == asyncio.run(GATE.update(PASSED, inputs)) == inputs
        return
    for act in (GATE.create(inputs), GATE.update(PASSED, inputs)):
        with pytest.raises(VerdictError, check=stating("gpu01 is down", "benchmarks.mode: warn")):
            asyncio.run(act)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"reasons": ("another text",)}, set()),
        ({"function": "fail"}, {"function"}),
        ({"mode": "warn"}, {"mode"}),
    ],
)
def test_the_gate_looks_again_when_a_verdict_changed_and_not_for_another_text(
    change: dict[str, object], differs: set[str]
) -> None:
    assert asyncio.run(GATE.diff(PASSED, PASSED.model_copy(update=change))) == differs

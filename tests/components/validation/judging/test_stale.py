"""Stale verdicts: each change is named, and nothing that is stale is green."""

import pytest

from components.validation.stale import HostStates, changed_since, host_states, made_stale
from components.validation.verdict import judge
from stacks.lab import Lab
from tests.components.validation.labs import hardware, plan_for, record, reduced
from tests.messages import states

FACTS = {
    "machine_id": "m1",
    "boot_id": "b1",
    "kernel": "6.1.0-28",
    "driver": {"igb": "6.1"},
    "nics": {"p": {"firmware": "1"}},
}


def state(status: str = "ready", names: tuple[str, ...] = ("gpu01", "gpu02"), **changed: object) -> HostStates:
    facts = {name: {**FACTS, **(changed if name == "gpu01" else {})} for name in names}
    return host_states({name: {"status": status if name == "gpu01" else "ready"} for name in names}, facts)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (state(), ()),
        (state(driver={"igb": "6.2"}), ("gpu01: driver igb 6.1 is now 6.2",)),
        (state(gpu={"driver": "570"}), ('gpu01: gpu untold is now {"driver": "570"}',)),
        (state(nics={"p": {"firmware": "2"}}), ("gpu01: nics p firmware 1 is now 2",)),
        (state(boot_id="b2"), ("gpu01: boot changed",)),
        (state(machine_id="m2", boot_id="b2"), ("gpu01: boot changed, machine changed",)),
        (state(kernel="6.1.0-29"), ("gpu01: kernel 6.1.0-28 is now 6.1.0-29",)),
        (state("unreachable"), ("gpu01: status ready is now unreachable",)),
        (state(names=("gpu01",)), ("gpu02 is gone",)),
        (state(names=("gpu01", "gpu02", "gpu03")), ("gpu03 was not in the last measurement",)),
    ],
)
def test_what_changed_since_it_was_measured_is_named(now: HostStates, said: tuple[str, ...]) -> None:
    assert changed_since(state(), now) == said


def test_another_plan_is_a_change() -> None:
    [said] = changed_since(state(), state(), plan_changed=True)
    assert states(said, "plan", "lab file")


def test_many_changes_are_counted() -> None:
    names = tuple(f"gpu{n:03}" for n in range(256))
    said = changed_since(state(), state(names=names))

    assert len(said) == 7
    assert said[-1] == "and 252 more"


def test_a_stale_pass_is_no_pass_and_a_stale_fail_stays_one(lab: Lab) -> None:
    real = hardware(lab)
    assert real.benchmarks
    good, bad = (
        judge(plan_for(real), real.benchmarks, record(plan_for(real), value, nccl=reduced(value / 4 * 0.99))).verdict()
        for value in (97.9, 60.0)
    )
    stale = made_stale(good, ("gpu01: boot changed",))

    assert (good.function, good.performance) == ("pass", "pass")
    assert (stale.function, stale.performance, stale.performance_because) == ("skip", "not rated", "stale")
    assert stale.stale == ("gpu01: boot changed",)
    assert states(stale.reasons[0], "stale", "gpu01: boot changed")
    assert any(states(hint, "ROCELAB_VALIDATE=again pulumi up --refresh") for hint in stale.hints)
    simulated = made_stale(good.model_copy(update={"simulated": True}), ("x",))
    assert any(states(hint, "make validate") for hint in simulated.hints)
    assert made_stale(good, ()) == good
    assert made_stale(bad, ("gpu01: boot changed",)).performance == "fail"

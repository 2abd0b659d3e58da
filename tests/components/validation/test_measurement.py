"""The measurement as a provider: when it acts, what it keeps, and that it keeps no secret."""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from components.hosts.records import KEPT_FACTS
from components.provider.base import UNKNOWN, ProviderConfig, UnknownValueError
from components.validation import measurement, measuring
from components.validation import verdict as verdict_of
from components.validation.benchmarks.plan import Plan
from components.validation.history import history_in
from components.validation.measurement import Measurement, MeasurementInputs, MeasurementState
from components.validation.measuring import Run
from components.validation.records import MeasuredHost, RunRecord, TransferResult
from components.validation.stale import FACTS, fingerprint_of, host_states
from components.validation.store import RunDocument, declared_rails, read_document
from components.validation.summary import Summary
from components.validation.verdict import verdict_by, verdict_on
from stacks.benchmarks import Threshold, Verbs
from stacks.lab import Lab
from stacks.report import ReportStore
from tests.components.validation.labs import changed, hardware, paired, plan_for, record, reduced, with_nodes
from tests.messages import states


class Configuration(ProviderConfig):
    """Of a lab that no lab file could describe, such as one of 64 equal nodes."""

    def __init__(self, lab: Lab, secrets: dict[str, str]) -> None:
        super().__init__(secrets)
        self.__dict__["lab"] = lab


def create(lab: Lab, inputs: MeasurementInputs, **secrets: str) -> MeasurementState:
    return asyncio.run(Measurement(Configuration(lab, secrets)).create(inputs))


def update(lab: Lab, state: MeasurementState, inputs: MeasurementInputs) -> MeasurementState:
    return asyncio.run(Measurement(Configuration(lab, {})).update(state, inputs))


def differs(lab: Lab, state: MeasurementState, inputs: MeasurementInputs) -> bool:
    return asyncio.run(Measurement(Configuration(lab, {})).diff(state, inputs)) != []


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
    return tmp_path


def inputs_of(plan: Plan, **changes: object) -> MeasurementInputs:
    inputs: dict[str, object] = {
        "plan_digest": plan.digest,
        "fingerprint": "f1",
        "hosts": {"gpu01": {"status": "ready", "kernel": "6.1", "nics": {"enp5s0": {"driver": "igb"}}}},
        "rerun": "on_change",
    }
    return MeasurementInputs.model_validate(inputs | changes)


def stored(folder: Path, state: MeasurementState) -> RunDocument:
    """The run document that the state's verdict names."""
    verdict = Summary.model_validate(state.verdict)
    document = read_document(folder / ".sim" / "runs" / "lab", verdict.run_id, verdict.document_sha256)
    assert document
    return document


def answering(monkeypatch: pytest.MonkeyPatch, *results: RunRecord, raw: str = "text") -> list[Plan]:
    """Lets each measurement end with the next result; returns the plans that are carried out."""
    plans: list[Plan] = []

    async def measure(plan: Plan, _access: object, _say: object, fingerprint: str, *_: object) -> Run:
        done = results[min(len(plans), len(results) - 1)].model_copy(update={"fingerprint": fingerprint})
        plans.append(plan)
        return Run(record=done, raw={"a": raw})

    monkeypatch.setattr(measuring, "measure", measure)
    return plans


@pytest.mark.whole
def test_the_state_of_a_large_lab_has_the_verdict_and_the_store_every_transfer(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = paired(with_nodes(lab, 64))
    answering(monkeypatch, record(plan_for(big), nccl=reduced(replayed=True)))
    state = create(big, inputs_of(plan_for(big)))

    assert len(json.dumps(state.plain())) <= 12_000
    assert (state.settled, state.fingerprint, state.verdict["function"]) == (True, "f1", "pass")
    assert len(stored(checkout, state).record.transfers) == 2 * 64 * 63 * 2 + 4, "two tests, and their curves"
    assert "CANARY" not in json.dumps(state.plain())


def test_the_document_has_what_the_lab_declared_and_what_the_hosts_printed(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = {"gpu01": MeasuredHost(perftest="6.29", mtu_bytes={"enp5s0": 9000})}
    answering(monkeypatch, record(plan_for(lab)).model_copy(update={"hosts": looked}))
    state = create(lab, inputs_of(plan_for(lab)))

    document = stored(checkout, state)
    assert document.plan == plan_for(lab)
    assert document.rails == declared_rails(lab)
    host = document.record.hosts["gpu01"]
    assert (host.driver, host.kernel, host.perftest, host.mtu_bytes) == ("igb", "6.1", "6.29", {"enp5s0": 9000})
    assert [entry.run_id for entry in document.history] == [document.record.run_id]


def test_a_host_that_is_not_ready_is_no_part_of_the_plan_that_is_carried_out(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = with_nodes(lab, 4)
    plans = answering(monkeypatch, record(plan_for(lab)))
    hosts = {f"gpu0{n}": {"status": "failed" if n == 3 else "ready"} for n in range(1, 5)}
    create(four, inputs_of(plan_for(four), hosts=hosts))

    assert [{end.node for end in rail.ends} for rail in plans[0].rails] == [{"gpu01", "gpu02", "gpu04"}] * 2


def test_a_run_that_did_not_pass_is_not_settled(lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    down = TransferResult(rail="rail-a", client="gpu01", server="gpu02", outcome="failed", reasons=("down",))
    answering(monkeypatch, record(plan_for(lab), also=[down], nccl=reduced(replayed=True)))
    state = create(lab, inputs_of(plan_for(lab)))

    assert state.settled is False


def test_a_missing_key_is_a_failed_result_and_no_exception(lab: Lab, checkout: Path) -> None:
    (checkout / ".sim" / "nodes" / "id_ed25519").unlink()
    state = create(lab, inputs_of(plan_for(lab)))

    reasons = stored(checkout, state).record.transfers[0].reasons
    assert states(reasons[0], "access.key_file", ".sim/nodes/id_ed25519")
    assert state.settled is False


def kept(lab: Lab, **changes: object) -> MeasurementState:
    """What the state has of a run."""
    plan = plan_for(lab)
    document = RunDocument(plan=plan, rails=(), record=record(plan, nccl=reduced(replayed=True)))
    assert lab.benchmarks
    verdict = verdict_on(document, lab.benchmarks).model_dump(mode="json", exclude_defaults=True)
    outputs = {"verdict": verdict, "settled": True, "history": {}}
    return MeasurementState.model_validate(dict(inputs_of(plan)) | outputs | changes)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        ({"settled": True}, {"fingerprint": "f1"}, False),
        ({"settled": True}, {"fingerprint": "f2"}, True),
        ({"settled": False}, {"fingerprint": "f1"}, True),
        ({"settled": True}, {"fingerprint": "f1", "plan_digest": "another", "hosts": {}}, False),
        ({"settled": True}, {"fingerprint": "f2", "rerun": "asked"}, False),
        ({"settled": False}, {"fingerprint": "f1", "rerun": "asked"}, False),
        # of another version of this program, which nobody can read any more
        ({"settled": True, "verdict": {"schema_version": 1, "run": "x"}}, {"fingerprint": "f1"}, True),
        ({"settled": True, "verdict": {}}, {"fingerprint": "f1", "rerun": "asked"}, True),
    ],
)
def test_only_the_fingerprint_and_a_result_that_is_not_whole_or_readable_ask_for_another_run(
    lab: Lab, checkout: Path, before: dict[str, Any], after: dict[str, Any], changes: bool
) -> None:
    plan = plan_for(lab)

    assert differs(lab, kept(lab, **before), inputs_of(plan, **after)) == changes


def test_a_fingerprint_that_a_preview_does_not_know_is_another_one_unless_a_run_must_be_requested(
    lab: Lab, checkout: Path
) -> None:
    plan = plan_for(lab)

    with pytest.raises(UnknownValueError, match="fingerprint"):
        differs(lab, kept(lab), inputs_of(plan, fingerprint=UNKNOWN))
    assert not differs(lab, kept(lab), inputs_of(plan, fingerprint=UNKNOWN, rerun="asked"))


@pytest.mark.parametrize("rerun", ["on_change", "asked"])
@pytest.mark.parametrize("asked", ["again", "rebaseline"])
def test_a_request_always_gets_another_run(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch, rerun: str, asked: str
) -> None:
    inputs = inputs_of(plan_for(lab), rerun=rerun)

    assert not differs(lab, kept(lab), inputs)
    monkeypatch.setenv(measurement.ASKED, asked)
    assert differs(lab, kept(lab), inputs)


BOUNDS = {
    "strict": Threshold(fail_below=0.99, warn_below=0.999),
    "usual": Verbs().threshold,
    "loose": Threshold(fail_below=0.5, warn_below=0.55),
}


@pytest.mark.parametrize(
    ("gbit_s", "mode", "then", "now", "again"),
    [
        (60.0, "enforce", "usual", "usual", True),
        (60.0, "warn", "usual", "usual", False),  # it fails no up, and would be measured at each one
        (97.9, "enforce", "usual", "usual", False),
        (60.0, "enforce", "usual", "loose", False),  # judging anew is enough
        (97.0, "enforce", "usual", "strict", False),
    ],
)
def test_what_was_too_slow_is_measured_again_as_long_as_it_fails_an_up(  # noqa: PLR0917  # one table, one row a case
    lab: Lab,
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    gbit_s: float,
    mode: str,
    then: str,
    now: str,
    again: bool,
) -> None:
    first, second = (bounded(changed(on_hardware(lab), mode=mode), BOUNDS[name]) for name in (then, now))
    plan = plan_for(first)
    answering(monkeypatch, record(plan, gbit_s, nccl=reduced(gbit_s / 4 * 0.99)))
    state = create(first, inputs_of(plan))
    assert state.settled is True, "it works, whatever its speed"

    assert differs(second, state, inputs_of(plan)) is again
    assert not differs(second, state, inputs_of(plan, rerun="asked"))


def on_hardware(lab: Lab) -> Lab:
    """The lab on real machines, with its store in the checkout."""
    return hardware(lab).model_copy(update={"report": ReportStore(store=".sim/runs")})


def bounded(lab: Lab, threshold: Threshold) -> Lab:
    """The lab with these bounds of a bandwidth."""
    assert lab.benchmarks
    return changed(lab, verbs=lab.benchmarks.verbs.model_copy(update={"threshold": threshold}))


def named(run: RunRecord, number: int) -> RunRecord:
    return run.model_copy(update={"run_id": f"run-{number}", "started_at": f"2026-11-21T06:00:{number:02}Z"})


def test_the_history_goes_from_run_to_run_and_outlives_a_destroyed_stack(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(lab)
    nccl = reduced(replayed=True)
    answering(monkeypatch, *(named(record(plan, nccl=nccl), n) for n in range(3)))
    first = create(lab, inputs_of(plan))
    second = update(lab, first, inputs_of(plan))
    third = create(lab, inputs_of(plan))  # a replacement, or the first up after a destroy

    histories = [history_in(state.history) for state in (first, second, third)]
    assert [len(history.entries) for history in histories] == [1, 2, 3]
    assert [entry.run_id for entry in histories[2].entries] == ["run-0", "run-1", "run-2"]
    assert histories[2].baseline is not None
    assert histories[2].baseline.run_id == "run-2"


def test_a_store_that_was_emptied_gets_no_older_runs_but_the_state_still_has_them(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(lab)
    answering(monkeypatch, *(named(record(plan), n) for n in range(2)))
    first = create(lab, inputs_of(plan))
    (checkout / ".sim" / "runs" / "lab" / "history.jsonl").unlink()
    second = update(lab, first, inputs_of(plan))

    assert [entry.run_id for entry in history_in(second.history).entries] == ["run-0", "run-1"]


def slower(plan: Plan, number: int, gbit_s: float) -> RunRecord:
    return named(record(plan, gbit_s, nccl=reduced(23.5)), number)


def test_what_got_worse_is_measured_once_more_and_nothing_else_is(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = on_hardware(lab)
    plan = plan_for(lab)
    runs = [slower(plan, 0, 97.9), slower(plan, 1, 91.0), slower(plan, 1, 90.9)]
    plans = answering(monkeypatch, *runs)
    first = create(lab, inputs_of(plan))
    second = update(lab, first, inputs_of(plan))

    assert [[stage.name for stage in part.stages] for part in plans[2:]] == [["ib_write_bw"]]
    assert plans[2].nccl is None
    last = history_in(second.history).entries[-1]
    assert {name: value.again for name, value in last.values.items() if value.again} == {
        "ib_write_bw one_way rail-a": 90.9,
        "ib_write_bw one_way rail-b": 90.9,
    }
    assert (last.performance, last.passed) == ("fail", False)


def test_a_measured_up_judges_once_and_its_stored_run_gives_the_same_verdict(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = on_hardware(lab)
    plan, looks = plan_for(lab), Mock(wraps=verdict_of._findings)
    monkeypatch.setattr(verdict_of, "_findings", looks)
    answering(monkeypatch, slower(plan, 0, 97.9), slower(plan, 1, 91.0), slower(plan, 1, 90.9))
    first = create(lab, inputs_of(plan))
    second = update(lab, first, inputs_of(plan))

    verdict = Summary.model_validate(second.verdict)
    assert (verdict.performance, looks.call_count) == ("fail", 2), "the second up has measured twice"
    assert verdict_by(lab, verdict, checkout) == verdict
    assert looks.call_count == 2, "the bounds are the same"
    assert verdict_by(lab, verdict.model_copy(update={"bounds": ""}), checkout) == verdict


def test_a_rebaseline_permanently_restarts_comparisons(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = on_hardware(lab)
    plan = plan_for(lab)
    plans = answering(monkeypatch, *(slower(plan, n, value) for n, value in enumerate((97.9, 91.0, 91.1))))
    first = create(lab, inputs_of(plan))
    monkeypatch.setenv(measurement.ASKED, "rebaseline")
    second = update(lab, first, inputs_of(plan))
    monkeypatch.delenv(measurement.ASKED)
    third = update(lab, second, inputs_of(plan))

    assert len(plans) == 3, "nothing had to be confirmed"
    history = history_in(third.history)
    assert [entry.passed for entry in history.entries] == [True, True, True]
    assert history.before("run-2").baseline_for(history.entries[-1].config) == history.entries[1]


def test_no_secret_of_the_stack_comes_into_state_or_store(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_for(lab)
    answering(monkeypatch, record(plan, nccl=reduced(replayed=True)), raw="the vCenter said canary-password: no")
    state = create(lab, inputs_of(plan), vcenterPassword="canary-password")

    assert "canary-password" not in json.dumps(state.plain())
    folder = checkout / ".sim" / "runs" / "lab"
    texts = [gzip.decompress(path.read_bytes()) for path in folder.glob("*.gz")]
    assert any(b"the vCenter said [redacted]" in text for text in texts)
    assert not any(b"canary" in text for text in [*texts, (folder / "history.jsonl").read_bytes()])


def test_raw_outputs_go_where_the_lab_says(lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = lab.model_copy(update={"report": ReportStore(store="kept")})
    answering(monkeypatch, record(plan_for(lab)))
    create(stored, inputs_of(plan_for(lab)))

    assert sorted(path.name for path in (checkout / "kept" / "lab").iterdir()) == [
        "20261121-060000-abcd.json.gz",
        "20261121-060000-abcd.run.json.gz",
        "history.jsonl",
    ]


def test_edited_bounds_judge_the_stored_run_again_and_where_it_is_missing_the_verdict_is_old(
    lab: Lab, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = on_hardware(lab)
    plan = plan_for(real)
    plans = answering(monkeypatch, record(plan, 92.0, nccl=reduced(22.5)))
    state = create(real, inputs_of(plan))
    then = Summary.model_validate(state.verdict)
    strict, warned = bounded(real, BOUNDS["strict"]), changed(real, mode="warn")

    assert verdict_by(real, then, checkout) == then
    assert verdict_by(warned, then, checkout) == then.model_copy(update={"mode": "warn"})
    judged = verdict_by(strict, then, checkout)
    assert (then.performance, judged.performance, judged.stale, len(plans)) == ("warn", "fail", (), 1)
    assert judged.document_sha256 == then.document_sha256
    next((checkout / ".sim" / "runs" / "lab").glob("*.run.json.gz")).unlink()
    old = verdict_by(strict, then, checkout)
    assert (old.function, old.performance) == ("skip", "not rated")
    assert states(old.stale[0], "benchmarks", then.run_id)


def test_what_a_host_reports_differently_each_time_is_not_part_of_the_fingerprint() -> None:
    facts = {"machine_id": "m", "boot_id": "b", "kernel": "6.1", "carrier": {"enp5s0": True}}
    first = host_states({"gpu01": {"status": "ready", "reason": "x"}}, {"gpu01": facts})
    second = host_states({"gpu01": {"status": "ready"}}, {"gpu01": {**facts, "carrier": {}}})

    assert first == second


def test_every_fact_of_the_fingerprint_is_one_that_the_state_keeps() -> None:
    counted_here = {"repairs"}

    assert set(FACTS) - counted_here <= set(KEPT_FACTS)


@pytest.mark.parametrize("fact", ["machine_id", "boot_id", "kernel", "driver", "gpu", "gpudirect"])
def test_another_machine_boot_kernel_or_driver_asks_for_another_run(lab: Lab, fact: str) -> None:
    plan = plan_for(lab)
    one, two = (host_states({}, {"gpu01": {fact: value}}) for value in "ab")

    assert fingerprint_of(plan, one) != fingerprint_of(plan, two)


def test_a_host_that_became_ready_asks_for_another_run(lab: Lab) -> None:
    states = [host_states({"gpu01": {"status": status}}, {}) for status in ("ready", "unreachable")]

    assert len({fingerprint_of(plan_for(lab), state) for state in states}) == 2


def test_the_order_of_hosts_does_not_count() -> None:
    ready, other = {"status": "ready"}, {"status": "failed"}

    assert host_states({"a": ready, "b": other}, {}) == host_states({"b": other, "a": ready}, {})

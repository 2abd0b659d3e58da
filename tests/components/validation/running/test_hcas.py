"""What is seen below PVRDMA machines while they are measured, by a vCenter that says what a test wants it to."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from components.fabric.hcas import HcaCounters
from components.ssh.credentials import LabAccess
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.hca_proof import hcas_of, proven_round
from components.validation.benchmarks.verbs.plan import Stage, Transfer
from components.validation.benchmarks.verbs.pvrdma_path import proof_of_hardware
from components.validation.benchmarks.verbs.run import Bench
from components.validation.measuring import RunContext, measure
from components.validation.records import RunRecord, TransferResult
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.validation.fakes import running
from tests.components.validation.labs import changed, function_of, hardware, measured, plan_for, with_nodes
from tests.components.validation.running.recorded_hosts import two_hosts, without_nccl
from tests.messages import states

GBIT_S = 90.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HcaState(HcaCounters):
    device: str = "vmrdma0"
    sent_bytes: int | None = 1_000
    received_bytes: int | None = 2_000


@dataclass
class Vcenter:
    """Machines on hosts whose HCAs count what is carried, as far as it does not go another way."""

    places: dict[str, str]
    seen: dict[str, HcaState] = field(default_factory=dict)
    looks: int = 0
    between: Callable[["Vcenter"], None] = lambda _: None
    """Happens after the first look."""

    def look(self, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], HcaState]:
        self.looks += 1
        found = {(rail, node): self.below(node) for rail, node in wanted}
        if self.looks == 1:
            self.between(self)
        return found

    def below(self, node: str) -> HcaState:
        if node not in self.places:
            return HcaState(device="", sent_bytes=None, received_bytes=None, why=f"no VM named {node}")
        host = self.places[node]
        return self.seen.setdefault(host, HcaState(host=host))

    def carry(self, sender: str, receiver: str, count: int) -> None:
        for node, sent, received in ((sender, count, 0), (receiver, 0, count)):
            seen = self.below(node)
            if seen.host and seen.sent_bytes is not None and seen.received_bytes is not None:
                self.seen[seen.host] = replace(
                    seen, sent_bytes=seen.sent_bytes + sent, received_bytes=seen.received_bytes + received
                )


class Carrying(Bench):
    """A bench whose transfers all work, and are counted by the HCAs unless they fall back to TCP."""

    fallen: tuple[str, ...] = ()
    ran: list[tuple[str, str, str]]

    async def transfer(self, stage: Stage, transfer: Transfer, _at_once: int = 1, _tag: str = "") -> TransferResult:
        self.ran.append(transfer.flow)
        samples = (GBIT_S,) * stage.repeats
        sender, receiver = transfer.client, transfer.server
        if stage.test == "ib_read_bw":
            sender, receiver = receiver, sender
        count = stage.message_bytes * stage.iterations * stage.repeats
        if isinstance(self.hcas, Vcenter) and transfer.rail == "rail-a" and sender not in self.fallen:
            self.hcas.carry(sender, receiver, round(count * 1.02))
        return measured(
            transfer.rail,
            *transfer.flow[1:],
            GBIT_S,
            test=stage.test,
            shape=stage.shape,
            samples=samples,
            queue_pairs=1,
        )


def bench_of(plan: Plan, vcenter: Vcenter | None, fallen: tuple[str, ...] = ()) -> Carrying:
    bench = Carrying(plan=plan, connections={}, ports={}, unreachable={}, hcas=vcenter)
    bench.ran, bench.fallen = [], fallen
    return bench


def pvrdma(lab: Lab, nodes: int = 2, **verbs: object) -> Plan:
    """One rail over PVRDMA, and one that is none."""
    assert lab.benchmarks
    real = with_nodes(hardware(changed(lab, verbs=lab.benchmarks.verbs.model_copy(update=verbs))), nodes)
    plan = plan_for(real)
    first, *others = plan.rails
    return plan.model_copy(update={"rails": (first.model_copy(update={"pvrdma": True}), *others)})


def ran(bench: Bench, stage: Stage | None = None) -> list[TransferResult]:
    stage = stage or bench.plan.stages[0]
    return asyncio.run(proven_round(bench, stage, bench.plan.rounds_of(stage)[0]))


def outcomes(results: list[TransferResult]) -> list[str]:
    return [proof_of_hardware(one.hcas).outcome for one in results if one.hcas]


APART = {"gpu01": "esx1", "gpu02": "esx2"}


def test_the_hcas_counters_are_beside_each_transfer_over_pvrdma_and_no_other(lab: Lab) -> None:
    results = ran(bench_of(pvrdma(lab), Vcenter(dict(APART))))

    assert outcomes(results) == ["pass"]
    (over,) = (one for one in results if one.hcas)
    assert over.rail == "rail-a"
    assert [(end.machine, end.way, end.hca) for end in over.hcas] == [
        (over.client, "sent", f"{APART[over.client]} vmrdma0"),
        (over.server, "received", f"{APART[over.server]} vmrdma0"),
    ]


def test_a_transfer_that_no_hca_counted_is_a_fallback(lab: Lab) -> None:
    assert outcomes(ran(bench_of(pvrdma(lab), Vcenter(dict(APART)), fallen=("gpu01", "gpu02")))) == ["fail"]


def test_of_a_read_the_server_sends(lab: Lab) -> None:
    plan = pvrdma(lab, tests=("ib_read_bw",), sizes=())
    (over,) = (one for one in ran(bench_of(plan, Vcenter(dict(APART)))) if one.hcas)

    assert [(end.machine, end.way) for end in over.hcas] == [(over.server, "sent"), (over.client, "received")]
    assert proof_of_hardware(over.hcas).outcome == "pass"


def test_a_test_over_a_time_counts_what_its_bandwidth_carries_in_it(lab: Lab) -> None:
    plan = pvrdma(lab, duration_s=10, timeout_s=60)
    (over,) = (one for one in ran(bench_of(plan, Vcenter(dict(APART)))) if one.hcas)

    repeats = plan.stages[0].repeats
    assert {end.written_bytes for end in over.hcas} == {repeats * 10 * 11_250_000_000}


def test_two_machines_on_one_host_are_left_out_with_the_host_and_run_nothing(lab: Lab) -> None:
    bench = bench_of(pvrdma(lab), Vcenter({"gpu01": "esx1", "gpu02": "esx1"}))
    first = ran(bench)[0]

    assert (first.outcome, first.same_host, first.hcas) == ("skipped", "esx1", ())
    assert states(first.reasons[0], "esx1")
    assert [key[0] for key in bench.ran] == ["rail-b"], "the other rail is no PVRDMA"


@pytest.mark.parametrize("test", ["ib_write_lat", "ib_write_bw-sizes"])
def test_neither_latencies_nor_curves_are_taken_on_one_host(lab: Lab, test: str) -> None:
    plan = pvrdma(lab)
    stage = next(stage for stage in plan.stages if stage.name == test)

    assert ran(bench_of(plan, Vcenter({"gpu01": "esx1", "gpu02": "esx1"})), stage)[0].same_host == "esx1"


def test_what_shares_an_hca_is_counted_together_so_that_one_hides_no_other(lab: Lab) -> None:
    places = {"gpu01": "esx1", "gpu02": "esx2", "gpu03": "esx1", "gpu04": "esx2"}
    plan = pvrdma(lab, nodes=4)
    transfers = [Transfer("rail-a", "gpu01", "gpu02", 18515), Transfer("rail-a", "gpu03", "gpu04", 18515)]

    def proofs(fallen: tuple[str, ...]) -> list[str]:
        bench = bench_of(plan, Vcenter(places), fallen)
        return outcomes(asyncio.run(proven_round(bench, plan.stages[0], transfers)))

    assert proofs(()) == ["pass", "pass"]
    assert proofs(("gpu03",)) == ["fail", "fail"]


def test_a_machine_that_moved_meanwhile_proves_nothing(lab: Lab) -> None:
    vcenter = Vcenter(dict(APART), between=lambda seen: seen.places.update(gpu02="esx3"))
    (over,) = (one for one in ran(bench_of(pvrdma(lab), vcenter)) if one.hcas)

    assert proof_of_hardware(over.hcas).outcome == "unknown"
    assert any(states(end.why, "esx3") for end in over.hcas)


def test_a_host_that_reports_no_counters_leaves_them_unknown_with_its_reason(lab: Lab) -> None:
    blind = HcaState(host="esx2", sent_bytes=None, received_bytes=None, why="esx2: no such command")
    (over,) = (one for one in ran(bench_of(pvrdma(lab), Vcenter(dict(APART), {"esx2": blind}))) if one.hcas)

    assert proof_of_hardware(over.hcas).outcome == "unknown"
    assert blind.why in {end.why for end in over.hcas}


def test_a_machine_that_the_vcenter_does_not_have_is_measured_and_not_proven(lab: Lab) -> None:
    (over,) = (one for one in ran(bench_of(pvrdma(lab), Vcenter({"gpu01": "esx1"}))) if one.hcas)

    assert (over.outcome, proof_of_hardware(over.hcas).outcome) == ("measured", "unknown")
    assert any(states(end.why, "gpu02") for end in over.hcas)


def test_without_a_vcenter_everything_is_measured_and_nothing_proven(lab: Lab) -> None:
    (over,) = (one for one in ran(bench_of(pvrdma(lab), None)) if one.hcas)

    assert proof_of_hardware(over.hcas).outcome == "unknown"
    assert all(states(end.why, "vCenter", "fabric") for end in over.hcas)


def test_a_vcenter_that_breaks_off_is_a_reason_and_no_end_of_the_run(lab: Lab) -> None:
    class Broken(Vcenter):
        def look(self, wanted: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], HcaState]:
            if self.looks:
                raise LabError("vCenter broke off")
            return super().look(wanted)

    (over,) = (one for one in ran(bench_of(pvrdma(lab), Broken(dict(APART)))) if one.hcas)

    assert {end.why for end in over.hcas} == {"vCenter broke off"}


def test_a_lab_without_pvrdma_opens_no_vcenter(lab: Lab) -> None:
    with hcas_of(lab, plan_for(lab), lambda _: None, Path()) as hcas:
        assert hcas is None


def test_a_whole_run_carries_the_counts_into_its_record_and_its_verdict(lab: Lab) -> None:
    plan = without_nccl(lab)
    first, *others = plan.rails
    plan = plan.model_copy(update={"rails": (first.model_copy(update={"pvrdma": True}), *others)})

    async def whole() -> RunRecord:
        async with running(two_hosts()) as login:
            access, around = LabAccess(login=login, kubeconfig=None), RunContext(hcas=Vcenter(dict(APART)))
            return (await measure(plan, access, lambda _: None, around=around)).record

    record = asyncio.run(whole())

    assert outcomes(list(record.transfers)) == ["fail", "fail"], "nothing was really sent, and the counters stood"
    assert function_of(plan, record) == "fail"
    assert RunRecord.model_validate_json(record.model_dump_json()).transfers == record.transfers

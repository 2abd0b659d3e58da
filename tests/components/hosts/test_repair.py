"""What the fleet does to hosts that answer, do not answer, have drifted, were renamed or have left."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from components.hosts.calls import Report, StuckError
from components.hosts.repair import converge, leave, observe, undo_all
from components.hosts.roll import Roll, batches, rail_peers
from components.ssh.connection import Endpoint, NoAnswerError
from stacks.hosts import HostPolicy
from tests.components.hosts.fleet_hosts import TOO_OLD, FakeHosts, converged, crew, record
from tests.messages import states


@pytest.fixture
def hosts() -> FakeHosts:
    return FakeHosts()


@pytest.fixture
def said() -> list[str]:
    return []


def test_a_conforming_host_is_confirmed_and_not_touched(hosts, said):
    one = record("gpu01", 1)
    hosts.knows(one)

    outcome = converged(crew(hosts, said), {"gpu01": one}, {"gpu01": one})

    assert outcome.results == {"gpu01": {"status": "ready"}}
    assert hosts.verbs(2201) == ["confirm"]
    assert outcome.records["gpu01"] == one
    assert outcome.facts == {"gpu01": {"machine_id": "machine-2201", "boot_id": "0"}}, (
        "what changes between reboots must not stand in the state"
    )
    assert outcome.repaired == set()


def test_drift_is_put_back_on_the_host_concerned_alone(hosts, said):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two, **{"enp5s0.mtu_bytes": 1500})

    outcome = converged(crew(hosts, said), {"gpu01": one, "gpu02": two}, {"gpu01": one, "gpu02": two})

    assert hosts.verbs(2201) == ["confirm"]
    assert hosts.verbs(2202) == ["confirm", "apply", "confirm"], "a repair is confirmed over a new connection too"
    assert outcome.results["gpu02"] == {"status": "ready"}
    assert said == ["gpu02: repairs enp5s0.mtu_bytes"]
    assert outcome.repaired == {"gpu02"}


def test_drift_beyond_the_policy_is_reported_and_kept_for_the_next_run(hosts, said):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.mtu_bytes": 1500})

    outcome = converged(crew(hosts, said, repair="none"), {"gpu01": one}, {"gpu01": one})

    assert hosts.verbs(2201) == ["confirm"]
    assert outcome.results["gpu01"]["status"] == "failed"
    assert states(outcome.results["gpu01"]["reason"], "enp5s0.mtu_bytes", "1500", "9000")
    assert states(outcome.results["gpu01"]["hint"], "hosts.repair")
    assert outcome.records["gpu01"].fields["enp5s0.mtu_bytes"] == 1500


def test_a_changed_lab_file_is_applied_whatever_the_repair_policy(hosts, said):
    old, new = record("gpu01", 1), record("gpu01", 1, mtu_bytes=4200)
    hosts.knows(old)

    outcome = converged(crew(hosts, said, repair="none"), {"gpu01": old}, {"gpu01": new})

    assert outcome.results == {"gpu01": {"status": "ready"}}


def test_a_host_that_does_not_answer_is_data_with_a_remedy_and_seen_again(hosts, said):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.silent = {2202}

    outcome = converged(crew(hosts, said), {}, {"gpu01": one, "gpu02": two})

    assert outcome.results["gpu01"] == {"status": "ready"}
    assert outcome.results["gpu02"]["status"] == "unreachable"
    assert "nodes.gpu02.state: drained" in outcome.results["gpu02"]["hint"]
    assert outcome.records["gpu02"].trouble, "or the next run would see nothing to do"


def test_a_failed_step_is_the_result_of_its_host(hosts, said):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.vfs": 0})
    hosts.stubborn[2201] = {"step": "vfs", "reason": "VF 1 is in use", "hint": "drain"}

    outcome = converged(crew(hosts, said), {"gpu01": one}, {"gpu01": one})

    assert outcome.results["gpu01"] == {"status": "failed", **hosts.stubborn[2201]}


def test_what_a_run_did_not_finish_is_carried_out_by_the_next_whatever_the_repair_policy(hosts, said):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.vfs": 0})
    hosts.stubborn[2201] = {"step": "vfs", "reason": "VF 1 is in use", "hint": "drain"}
    first = converged(crew(hosts, said, repair="none"), {}, {"gpu01": one})
    hosts.stubborn.clear()

    second = converged(crew(hosts, said, repair="none"), first.records, {"gpu01": one})

    assert first.records["gpu01"].unfinished
    assert second.results == {"gpu01": {"status": "ready"}}
    assert second.records == {"gpu01": one}


def test_a_needed_reboot_is_no_failure(hosts, said):
    old, new = record("gpu01", 1), record("gpu01", 1, rdma_namespaces="exclusive")
    hosts.knows(old)
    hosts.pending_reboot.add(2201)

    outcome = converged(crew(hosts, said), {"gpu01": old}, {"gpu01": new})

    assert outcome.results["gpu01"]["status"] == "needs_reboot"
    assert "hosts.reboot: stage" in outcome.results["gpu01"]["hint"]


@pytest.mark.parametrize("reboot", ["stage", "roll"])
def test_the_hint_of_a_host_that_waits_names_who_reboots_it(hosts, said, reboot):
    old, new = record("gpu01", 1), record("gpu01", 1, rdma_namespaces="exclusive")
    hosts.knows(old)
    hosts.pending_reboot.add(2201)

    outcome = converged(crew(hosts, said, reboot=reboot), {"gpu01": old}, {"gpu01": new})

    result = outcome.results["gpu01"]
    assert result["status"] == "needs_reboot"
    expected = {"stage": ["drain and reboot it", "--refresh"], "roll": ["rolling reboot"]}
    assert states(result["hint"], *expected[reboot])


def test_a_host_whose_command_left_only_a_reboot_to_do_is_not_configured_twice(hosts, said):
    one = record("gpu01", 1, rdma_namespaces="exclusive")
    hosts.knows(one, rdma_namespaces="shared")
    hosts.pending_reboot.add(2201)
    report = asyncio.run(hosts.call(one.endpoint, "confirm", one.document))
    hosts.calls.clear()

    outcome = asyncio.run(converge(crew(hosts, said), {}, {"gpu01": one}, {}, {"gpu01": report}))

    assert outcome.results["gpu01"]["status"] == "needs_reboot"
    assert (hosts.calls, said) == ([], [])


def test_a_drained_host_is_left_alone(hosts, said):
    outcome = converged(crew(hosts, said), {"gpu01": record("gpu01", 1)}, {"gpu01": record("gpu01", 1, "drained")})

    assert hosts.calls == []
    assert outcome.results == {"gpu01": {"status": "drained"}}


def test_a_host_that_left_is_undone(hosts, said):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.knows(two)

    outcome = converged(crew(hosts, said), {"gpu01": one, "gpu02": two}, {"gpu01": one})

    assert hosts.verbs(2202) == ["probe", "undo"]
    assert outcome.results["gpu02"] == {"status": "undone"}
    assert "gpu02" not in outcome.records


@pytest.mark.parametrize("formerly", ["gpu02", None])
def test_a_renamed_host_is_not_undone_with_or_without_its_former_name(hosts, said, formerly):
    two, nine = record("gpu02", 2), record("gpu09", 2, formerly=formerly)
    hosts.knows(nine)

    outcome = converged(crew(hosts, said), {"gpu02": two}, {"gpu09": nine}, {"gpu02": {"machine_id": "machine-2202"}})

    assert "undo" not in hosts.verbs(2202)
    assert outcome.results["gpu09"] == {"status": "ready"}


def test_another_machine_at_the_address_of_one_that_left_is_not_undone(hosts, said):
    two = record("gpu02", 2)
    hosts.knows(two)
    hosts.machine[2202] = "new board"

    outcome = converged(crew(hosts, said), {"gpu02": two}, {}, {"gpu02": {"machine_id": "machine-2202"}})

    assert "undo" not in hosts.verbs(2202)
    assert "another machine" in outcome.results["gpu02"]["reason"]


def test_a_machine_without_an_id_is_not_undone(hosts, said):
    two = record("gpu02", 2)
    hosts.machine[2202] = ""

    outcome = converged(crew(hosts, said), {"gpu02": two}, {}, {"gpu02": {"machine_id": "machine-2202"}})

    assert "undo" not in hosts.verbs(2202)
    assert outcome.results["gpu02"]["status"] == "failed"


def test_an_absent_host_is_undone_once_and_tried_again_when_it_was_silent(hosts, said):
    gone = record("gpu02", 2, "absent")
    hosts.silent = {2202}
    first = converged(crew(hosts, said), {"gpu02": record("gpu02", 2)}, {"gpu02": gone})
    hosts.silent, hosts.machine[2202] = set(), "machine-2202"
    second = converged(crew(hosts, said), {"gpu02": first.records["gpu02"]}, {"gpu02": gone})

    assert first.records["gpu02"].trouble
    assert "stay on it" in first.results["gpu02"]["reason"]
    assert second.results["gpu02"] == {"status": "undone"}
    assert second.records["gpu02"] == gone


def test_a_host_whose_python_is_too_old_gets_nothing_and_is_reported(hosts, said):
    one = record("gpu01", 1)
    hosts.too_old = {2201}

    first = converged(crew(hosts, said), {}, {"gpu01": one})
    second = converged(crew(hosts, said), first.records, {"gpu01": one})

    assert first.results["gpu01"] == second.results["gpu01"] == {"status": "failed", **TOO_OLD}
    assert first.records["gpu01"].unfinished, "a run after python3 was mended carries it out"
    assert (hosts.verbs(2201), said, second.repaired) == (["confirm", "confirm"], [], set())


def test_a_host_whose_python_is_too_old_does_not_keep_a_stack_from_its_end(hosts, said):
    one, two = record("gpu01", 1), record("gpu02", 2)
    hosts.knows(one)
    hosts.too_old = {2202}

    results = asyncio.run(undo_all(crew(hosts, said), {"gpu01": one, "gpu02": two}, {}))
    absent = converged(crew(hosts, said), {"gpu02": two}, {"gpu02": record("gpu02", 2, "absent")})

    left = {"status": "left", "reason": "python3 is 3.6 here, and this program needs 3.8: nothing can be undone there"}
    assert results == {"gpu01": {"status": "undone"}, "gpu02": left}
    assert absent.results == {"gpu02": left}
    assert "undo" not in hosts.verbs(2202)


@pytest.mark.parametrize("verb", ["probe", "undo"])
def test_the_undo_of_a_host_that_hangs_ends_and_fails(hosts, said, monkeypatch, verb):
    monkeypatch.setattr("components.hosts.repair.UNDO_S", 0.05)
    hosts.knows(record("gpu01", 1))
    answer = hosts.call

    async def hang(endpoint: Endpoint, called: str, document: dict[str, Any]) -> Report:
        if called == verb:
            await asyncio.sleep(60)
        return await answer(endpoint, called, document)

    monkeypatch.setattr(hosts, "call", hang)
    result = asyncio.run(leave(crew(hosts, said), "gpu01", record("gpu01", 1), "", set()))

    assert result["status"] == "failed"
    assert "stay on it" in result["reason"]


def test_a_host_that_answers_but_never_ends_a_command_differs_from_one_that_is_off(hosts, said, monkeypatch):
    errors = {2201: StuckError("127.0.0.1:2201 gave no answer within 180 s"), 2202: NoAnswerError("refused")}

    async def silent(endpoint: Endpoint, *_: object) -> Report:
        raise errors[endpoint.port]

    monkeypatch.setattr(hosts, "call", silent)
    both = {"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2)}
    results = asyncio.run(undo_all(crew(hosts, said), both, {}))

    assert {name: result["status"] for name, result in results.items()} == {"gpu01": "failed", "gpu02": "unreachable"}


def test_a_change_that_was_reverted_is_reported_as_such(hosts, said):
    one = record("gpu01", 1)
    hosts.knows(one, **{"enp5s0.mtu_bytes": 1500})
    hosts.facts[2201] = {"reverted": ["enp5s0"]}

    outcome = converged(crew(hosts, said, repair="none"), {"gpu01": one}, {"gpu01": one})

    told = outcome.results["gpu01"]["reason"]
    assert states(told, "enp5s0.mtu_bytes", 1500, 9000, "reverted")
    assert any(states(line, "gpu01", "enp5s0", "reverted") for line in said)


def test_what_a_nic_cannot_report_is_mentioned_once_for_all_hosts(hosts, said):
    records = {name: record(name, number) for number, name in enumerate(("gpu01", "gpu02", "gpu03"), 1)}
    for one in records.values():
        hosts.knows(one)
        hosts.facts[one.endpoint.port] = {"qos": {"enp5s0": "dcb; not shown here: ecn"}}
    hosts.facts[2203] = {"qos": {"enp5s0": "mlnx_qos"}}

    converged(crew(hosts, said), records, records)

    assert len(said) == 1
    assert states(said[0], "qos", "dcb", "ecn", "gpu01 enp5s0", "1 more")


def test_undoing_all_leaves_drained_hosts_alone_and_says_so(hosts, said):
    records = {"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2, "drained")}
    hosts.knows(records["gpu01"])

    results = asyncio.run(undo_all(crew(hosts, said), records, {}))

    assert results["gpu01"] == {"status": "undone"}
    assert results["gpu02"]["status"] == "left"
    assert hosts.verbs(2202) == []


def test_a_look_puts_what_is_in_the_place_of_what_was(hosts):
    records = {"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2), "gpu03": record("gpu03", 3, "drained")}
    hosts.knows(records["gpu01"], **{"enp5s0.mtu_bytes": 1500})
    hosts.silent = {2202}

    facts: dict[str, Any] = {}
    seen = asyncio.run(observe(hosts, records, facts))  # type: ignore[arg-type]

    assert facts == {"gpu01": {"machine_id": "machine-2201", "boot_id": "0"}}
    assert seen["gpu01"].fields["enp5s0.mtu_bytes"] == 1500
    assert states(seen["gpu02"].trouble, "no answer")
    assert seen["gpu03"] == records["gpu03"]


# -- the roll


class FakeCluster:
    def __init__(self) -> None:
        self.did: list[str] = []

    def cordon(self, node: str) -> bool:
        self.did.append(f"cordon {node}")
        return True

    def empty(self, node: str) -> None:
        self.did.append(f"empty {node}")

    def uncordon(self, node: str) -> None:
        self.did.append(f"uncordon {node}")


def rolled(hosts: FakeHosts, said: list[str], monkeypatch: pytest.MonkeyPatch, names: int = 3, **policy: Any) -> Any:
    monkeypatch.setattr("components.hosts.roll.PAUSE_S", 0.001)
    records = {f"gpu0{i}": record(f"gpu0{i}", i, rdma_namespaces="exclusive") for i in range(1, names + 1)}
    for one in records.values():
        hosts.knows(one, rdma_namespaces="shared")
        hosts.pending_reboot.add(one.endpoint.port)
    workers = crew(hosts, said, reboot="roll", **policy)
    outcome = converged(workers, {}, records)
    assert {result["status"] for result in outcome.results.values()} == {"needs_reboot"}
    cluster = FakeCluster()
    asyncio.run(Roll(crew=workers, records=records, drainer=cluster).run(sorted(records), outcome))
    return outcome, cluster


def test_hosts_reboot_one_after_the_other_each_emptied_before_and_opened_after(hosts, said, monkeypatch):
    outcome, cluster = rolled(hosts, said, monkeypatch, names=2)

    assert {result["status"] for result in outcome.results.values()} == {"ready"}
    assert cluster.did == [f"{what} {name}" for name in ("gpu01", "gpu02") for what in ("cordon", "empty", "uncordon")]
    assert hosts.boots == {2201: 1, 2202: 1}
    assert hosts.verbs(2201).count("probe") == 2, "before its reboot and after it"


def test_a_host_whose_peers_do_not_answer_stops_the_roll_and_stays_closed(hosts, said, monkeypatch):
    hosts.peers_answer = False
    outcome, cluster = rolled(hosts, said, monkeypatch)

    assert outcome.results["gpu01"]["status"] == "failed"
    assert "it stays cordoned" in outcome.results["gpu01"]["reason"]
    waits = outcome.results["gpu02"]
    assert (waits["status"], waits["reason"]) == ("needs_reboot", "rdma_namespaces shared => exclusive")
    assert states(waits["hint"], "gpu01")
    assert hosts.boots == {2201: 1, 2202: 0, 2203: 0}
    assert cluster.did == ["cordon gpu01", "empty gpu01"]


def test_a_used_up_budget_leaves_the_rest_for_the_next_run(hosts, said, monkeypatch):
    clock = iter(range(0, 10_000, 40))
    # the module's own name: other threads of this process ask the real clock
    monkeypatch.setattr("components.hosts.roll.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    outcome, _ = rolled(hosts, said, monkeypatch, reboot_budget_s=100)

    assert outcome.results["gpu01"]["status"] == "ready"
    assert outcome.results["gpu03"]["hint"].startswith("partial: ")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({}, [["a"], ["b"], ["c"], ["d"]]),
        ({"max_unavailable": 2}, [["a"], ["b", "c"], ["d"]]),
        ({"max_unavailable": 8}, [["a"], ["b", "c", "d"]]),
    ],
)
def test_a_canary_goes_first_and_then_batches(policy, expected):
    assert list(batches(["a", "b", "c", "d"], HostPolicy(**policy))) == expected


def test_peers_are_those_on_the_same_rail():
    records = {"gpu01": record("gpu01", 1), "gpu02": record("gpu02", 2), "gpu03": record("gpu03", 3, "drained")}

    assert list(rail_peers("gpu01", records)) == [("enp5s0", ["10.10.11.2"])]

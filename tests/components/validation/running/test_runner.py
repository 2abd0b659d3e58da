"""The runner against hosts that misbehave: whatever they do is a result, in time, and nothing is left running."""

import asyncio
import contextlib
import json
import time
from contextlib import AsyncExitStack

import pytest

from components.ssh import connection
from components.ssh.credentials import LabAccess, Login
from components.ssh.session import LARGEST_OUTPUT, session
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.pods import run as pods
from components.validation.benchmarks.verbs import course
from components.validation.benchmarks.verbs import run as verbs
from components.validation.benchmarks.verbs.commands import TAKEN, bounded
from components.validation.benchmarks.verbs.course import fewest, no_longer_gains
from components.validation.benchmarks.verbs.hosts import taken
from components.validation.benchmarks.verbs.ports import parse_ports
from components.validation.measuring import Run, all_failed, measure
from components.validation.mpijobs import ClusterRun
from components.validation.records import PodFault, PodRails, RunRecord
from components.validation.verdict import judge
from stacks.benchmarks import Benchmarks
from stacks.lab import Lab
from tests.components.validation.fakes import (
    Process,
    Program,
    answering,
    listening_for_ever,
    reset,
    running,
    stalled,
)
from tests.components.validation.labs import changed, function_of, plan_for
from tests.components.validation.labs import record as whole_record
from tests.components.validation.running.bench_facts import with_values
from tests.components.validation.running.recorded_hosts import (
    PORTS,
    ports_of,
    run,
    said,
    two_hosts,
    with_stderr,
    without_nccl,
)
from tests.messages import states


def test_recorded_answers_of_two_hosts_make_a_whole_record(lab: Lab) -> None:
    plan = without_nccl(lab)
    record, lines = run(plan, two_hosts())

    assert [(t.rail, t.client, t.outcome, t.reasons) for t in record.transfers] == [
        ("rail-a", "gpu01", "measured", ()),
        ("rail-b", "gpu01", "measured", ()),
        ("rail-a", "gpu02", "measured", ()),
        ("rail-b", "gpu02", "measured", ()),
    ]
    assert function_of(plan, record) == "pass"
    assert [line.split(":")[0] for line in lines] == [
        f"run {record.run_id}",
        "reach",
        "ib_write_bw round 1/2",
        "ib_write_bw round 2/2",
    ]


def test_pods_are_checked_before_the_job_and_a_job_over_rails_that_pods_lack_is_left_out(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would only wait for pods that never start."""
    whole, only_verbs = plan_for(lab), without_nccl(lab)
    plan = only_verbs.model_copy(update={"pods": whole.pods, "nccl": whole.nccl})
    fault = PodFault(code="MULTUS_DOWN", node="gpu02", what="Multus does not answer")
    found = PodRails(outcome="failed", faults=(fault,))

    def checked(_plan: Plan, cluster: ClusterRun) -> PodRails:
        cluster.raw["pods/gpu01"] = "rocelab reported"
        return found

    monkeypatch.setattr(pods, "run_pods", checked)
    lines: list[str] = []

    async def measured() -> Run:
        async with running(two_hosts()) as login:
            return await measure(plan, LabAccess(login=login, kubeconfig="{}"), lines.append)

    done = asyncio.run(measured())
    assert done.record.pods == found
    assert done.raw["pods/gpu01"] == "rocelab reported"
    assert done.record.nccl is not None
    assert done.record.nccl.outcome == "skipped"
    assert "MULTUS_DOWN" in done.record.nccl.reasons[0]
    assert [line for line in lines if line.startswith("pod_rails") and "MULTUS_DOWN" in line]
    assert function_of(plan, done.record) == "fail"


def test_what_each_host_reported_of_its_ports_is_kept_with_the_verb_that_read_it(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[1].programs["facts"] = answering(with_values(PORTS, {"programs": ["ib_read_bw"]}))

    async def whole() -> Run:
        async with running(hosts) as login:
            return await measure(without_nccl(lab), LabAccess(login=login, kubeconfig=None), lambda _: None)

    done = asyncio.run(whole())

    assert done.raw["hosts/gpu01"].startswith("$ host.pyz bench ib_write_bw rxe0 enp5s0 rxe1 enp132s0\nexit 0\n")
    said = done.raw["hosts/gpu01"].split("exit 0\n", 1)[1].partition("\n[stderr]\n")[0]
    assert parse_ports(said).facts == done.record.hosts["gpu01"]
    assert "is not installed" in done.record.transfers[0].reasons[0]
    assert "hosts/gpu02" in done.raw, "most of all of a host that lacks something"


def test_a_host_that_is_too_slow_to_report_its_ports_is_unmeasured_and_no_fault_of_the_fabric(lab: Lab) -> None:
    hosts = two_hosts()
    answer = json.loads(PORTS)
    answer["ports"][1]["leaves"]["gids"] = {"unknown": "not read within 80 s", "source": "/sys/class/infiniband/rxe1"}
    hosts[1].programs["facts"] = answering(json.dumps(answer))

    record, _ = run(without_nccl(lab), hosts)

    assert record.unmeasured.keys() == {hosts[1].name}
    assert "not read within 80 s" in record.unmeasured[hosts[1].name]
    assert {t.outcome for t in record.transfers} == {"error"}


@pytest.mark.parametrize(
    ("second", "rails", "ports"), [("0000:3b:00.1", 2, 2), ("0000:af:00.0", 2, 1), ("0000:3b:00.1", 1, 1)]
)
def test_rails_behind_one_slot_share_its_link_as_long_as_they_run_at_once(
    lab: Lab, second: str, rails: int, ports: int
) -> None:
    hosts, plan = two_hosts(), without_nccl(lab)
    for host in hosts:
        places = {"rxe0": {"pci": "0000:3b:00.0"}, "rxe1": {"pci": second}}
        host.programs["facts"] = answering(with_values(ports_of(host.name), **places))
    record, _ = run(plan.model_copy(update={"rails": plan.rails[:rails]}), hosts)

    assert {(t.outcome, t.ports_on_slot) for t in record.transfers} == {("measured", ports)}
    assert len({t.pcie_gbit_s for t in record.transfers}) == 1, "what the link carries stays as it is told"


def test_all_is_measured_on_hosts_whose_sshd_allows_one_session_per_connection(lab: Lab) -> None:
    hosts = two_hosts()
    record, _ = run(without_nccl(lab), hosts, most_sessions=1)

    assert {(t.outcome, t.reasons) for t in record.transfers} == {("measured", ())}
    assert all(host.connections > 1 for host in hosts), "the lease holds the first"


def test_sixteen_rails_and_the_lease_take_two_connections_of_sshd_s_default(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["client"] = stalled

    async def started_at_once() -> int:
        async with AsyncExitStack() as stack:
            login = await stack.enter_async_context(running(hosts))
            access = LabAccess(login=login, kubeconfig=None)
            bench = await stack.enter_async_context(taken(without_nccl(lab), access, "run", []))
            command = bounded(["ib_write_bw"], 60)
            programs = [session(bench.connections["gpu01"], command) for _ in range(16)]
            return len(await asyncio.gather(*map(stack.enter_async_context, programs)))

    assert asyncio.run(started_at_once()) == 16
    assert [host.connections for host in hosts] == [2, 1]


def test_a_wrong_host_key_sends_nothing_and_is_a_result(lab: Lab) -> None:
    hosts = two_hosts()
    record, _ = run(without_nccl(lab), hosts, wrong_key_on="gpu02")

    assert hosts[1].asked == []
    assert {t.outcome for t in record.transfers} == {"error"}, "nothing is known of the fabric"
    assert all("access.known_hosts_file" in t.reasons[0] for t in record.transfers)


def test_a_node_that_could_not_be_measured_is_named_and_no_path_is_blamed(lab: Lab) -> None:
    plan = without_nccl(lab)
    record, _ = run(plan, two_hosts(), wrong_key_on="gpu02")
    summary = judge(plan, Benchmarks(), record).verdict()

    assert summary.function == "error"
    [found] = summary.findings
    assert (found.code, found.where) == ("NODE_UNMEASURED", "gpu02")
    assert "access.known_hosts_file" in found.evidence


def test_many_nodes_that_could_not_be_measured_are_one_finding(lab: Lab) -> None:
    plan = plan_for(lab)
    run = whole_record(plan).replace(unmeasured={f"gpu{n:02}": f"gpu{n:02}: gone" for n in range(1, 21)})
    found = judge(plan, Benchmarks(), run).verdict().findings[0]

    assert (found.where, found.evidence) == ("gpu[01-20]", "gpu01: gone; and 19 more")


def test_a_server_that_never_sees_a_packet_is_ended_with_its_client(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "GRACE_S", 0.1)
    monkeypatch.setattr(course, "WARM_UP_S", 0.5)
    hosts = two_hosts()
    hosts[1].programs["server"] = listening_for_ever
    hosts[0].programs["client"] = stalled
    begun = time.monotonic()
    record, _ = run(without_nccl(lab, timeout_s=1), hosts)

    assert [t.outcome for t in record.transfers] == ["failed", "failed", "measured", "measured"]
    assert "did not end within" in record.transfers[0].reasons[0]
    assert time.monotonic() - begun < 60, "they would listen for ever"
    # both rails in the warm-up, in the round, and once more with less beside them
    assert hosts[1].ended_by_us.count("server") == 6
    assert hosts[0].ended_by_us.count("client") == 6


def without_a_clock(program: Program, wrong: list[int]) -> Program:
    """A test that cannot measure its CPU's clock as often as the first number says, and prints zeros then."""

    async def said_so(process: Process, words: list[str]) -> None:
        if wrong[0] > 0:
            wrong[0] -= 1
            process.stderr.write("Correlation coefficient r^2: 0.544078 < 0.9\n")
        await program(process, words)

    return said_so


@pytest.mark.parametrize(("wrong", "runs"), [(0, 2), (1, 3), (2, 4), (9, 6)])
def test_a_run_without_a_clock_is_made_again_a_few_times(lab: Lab, wrong: int, runs: int) -> None:
    hosts, plan = two_hosts(), without_nccl(lab)
    plan = plan.model_copy(update={"rails": plan.rails[:1]})
    hosts[0].programs["client"] = without_a_clock(hosts[0].programs["client"], [wrong])
    record, _ = run(plan, hosts)

    assert [t.outcome for t in record.transfers] == ["measured", "measured"]
    # the warm-up, the run itself
    assert hosts[0].asked.count("client") == runs


def test_a_connection_reset_in_the_middle_is_a_result(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["client"] = reset
    record, _ = run(without_nccl(lab), hosts)

    assert {t.outcome for t in record.transfers} == {"error"}, "nothing is known of the fabric"
    assert all(t.reasons for t in record.transfers)
    assert hosts[0].connections == 1, "the lease went with its connection"


def test_a_host_that_accepts_and_never_answers_is_left_in_time(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "LOGIN_S", 1)

    async def whole() -> RunRecord:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while await reader.read(1024):  # takes what comes, and says nothing
                    pass
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with running(two_hosts()) as login:
            port = server.sockets[0].getsockname()[1]
            endpoints = {**login.endpoints, "gpu02": login.endpoints["gpu02"].model_copy(update={"port": port})}
            stalled_login = Login(private_key=login.private_key, endpoints=endpoints)
            done = await measure(without_nccl(lab), LabAccess(login=stalled_login, kubeconfig=None), lambda _: None)
        server.close()
        await asyncio.sleep(0.1)
        return done.record

    begun = time.monotonic()
    record = asyncio.run(whole())

    assert time.monotonic() - begun < 8
    assert all("gpu02" in t.reasons[0] and "does not answer" in t.reasons[0] for t in record.transfers)


def test_a_lease_held_by_another_run_loads_nothing(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["lease"] = answering("20261121-0500-beef\n", 75)
    plan = without_nccl(lab)
    record, _ = run(plan, hosts)

    assert {t.outcome for t in record.transfers} == {"skipped"}
    assert "20261121-0500-beef" in record.transfers[0].reasons[0]
    assert not {"client", "server"} & {role for host in hosts for role in host.asked}
    assert function_of(plan, record) == "skip"


def test_open_queue_pairs_of_another_program_prevent_any_load(lab: Lab) -> None:
    hosts = two_hosts()
    pairs = [{"device": "rxe0", "program": "python3", "pid": "42"}]
    hosts[1].programs["facts"] = answering(with_values(PORTS, {"queue_pairs": pairs}))
    record, _ = run(without_nccl(lab), hosts)

    assert record.transfers[0].outcome == "skipped"
    assert "gpu02: python3 (42) on rxe0" in record.transfers[0].reasons[0]
    assert not {"client", "server"} & {role for host in hosts for role in host.asked}


def test_a_taken_port_skips_that_rail_only(lab: Lab) -> None:
    hosts = two_hosts()
    fine = hosts[1].programs["server"]

    async def server(process: Process, words: list[str]) -> None:
        if "18516" in words:
            process.exit(TAKEN)
        else:
            await fine(process, words)

    hosts[1].programs["server"] = server
    record, _ = run(without_nccl(lab), hosts)

    assert [t.outcome for t in record.transfers] == ["measured", "skipped", "measured", "measured"]
    assert "18516" in record.transfers[1].reasons[0]


def test_a_server_whose_port_is_down_says_so(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[1].programs["server"] = with_stderr(" Port number 1 state is Down\n Couldn't set the link layer\n", 1)
    record, _ = run(without_nccl(lab), hosts)

    assert record.transfers[0].outcome != "measured"
    assert record.transfers[0].reasons[0].startswith("gpu02: ")
    assert "port" in record.transfers[0].reasons[0]


def test_truncated_output_gives_no_number(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["client"] = answering(said("rail-a", "gpu01", "gpu02", "client").split(" 65536")[0])
    record, _ = run(without_nccl(lab), hosts)

    assert record.transfers[0].samples == ()
    assert "cut short" in record.transfers[0].reasons[0]


def test_a_host_without_perftest_is_told_apart(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["facts"] = answering(with_values(PORTS, {"programs": ["ib_read_bw"]}))
    record, _ = run(without_nccl(lab), hosts)

    (reason,) = {t.reasons[0] for t in record.transfers}
    assert reason.startswith("gpu01: ib_write_bw ")
    assert "perftest" in reason


def test_two_versions_of_perftest_are_reported_before_anything_is_measured(lab: Lab) -> None:
    hosts = two_hosts()
    old = ports_of("gpu02").replace("Version: 6.06", "Version: 5.60")
    hosts[1].programs["facts"] = answering(old)

    record, lines = run(without_nccl(lab), hosts)

    told = "perftest versions differ and may be incompatible: 5.60 on gpu02, 6.06 on gpu01;"
    assert [line for line in lines[:2] if line.startswith(f"warning: {told}")], "while it can still be stopped"
    assert [note for note in record.notes if note.startswith(told)]


@pytest.mark.parametrize(
    ("memlock_bytes", "limited"),
    [(65536, True), (None, False)],
)
def test_a_low_limit_of_locked_memory_is_reported_before_anything_is_measured(
    lab: Lab, memlock_bytes: int | None, *, limited: bool
) -> None:
    hosts = two_hosts()
    hosts[1].programs["facts"] = answering(with_values(ports_of("gpu02"), {"memlock_bytes": memlock_bytes}))
    record, lines = run(without_nccl(lab), hosts)

    warnings = [line for line in lines[:2] if line.startswith("warning")]
    assert [states(line, "gpu02", "ulimit -l", "runtime.memlock") for line in warnings] == [True] * limited
    assert any("runtime.memlock" in note for note in record.notes) is limited


def test_one_version_everywhere_is_no_word_worth(lab: Lab) -> None:
    _, lines = run(without_nccl(lab), two_hosts())

    assert [line for line in lines if "versions differ" in line] == []


def test_a_flood_of_output_fills_no_memory(lab: Lab) -> None:
    async def flood(process: Process, _words: list[str]) -> None:
        for _ in range(2 * LARGEST_OUTPUT // 10_000):
            process.stdout.write("x" * 10_000)
            await process.stdout.drain()
        process.exit(0)

    hosts = two_hosts()
    hosts[0].programs["client"] = flood
    record, _ = run(without_nccl(lab), hosts)

    assert "no perftest output" in record.transfers[0].reasons[0]


def test_cancelling_a_run_ends_both_ends_and_gives_the_lease_back(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[1].programs["server"] = listening_for_ever
    hosts[0].programs["client"] = stalled

    async def whole() -> None:
        async with running(hosts) as login:
            work = asyncio.ensure_future(measure(without_nccl(lab), LabAccess(login=login, kubeconfig=None), print))
            while hosts[0].asked.count("client") < 2:
                await asyncio.sleep(0.02)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            async with asyncio.timeout(60):
                while hosts[0].ended_by_us.count("client") < 2 or hosts[1].ended_by_us.count("server") < 2:
                    await asyncio.sleep(0.02)

    asyncio.run(whole())

    assert hosts[1].ended_by_us.count("server") == 2
    assert hosts[0].ended_by_us.count("client") == 2


def test_nccl_waits_for_working_rails(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[1].programs["server"] = with_stderr("Couldn't listen to port 18515\n", 1)
    plan = plan_for(lab)

    async def whole() -> RunRecord:
        async with running(hosts) as login:
            return (await measure(plan, LabAccess(login=login, kubeconfig="never read"), lambda _: None)).record

    record = asyncio.run(whole())
    assert record.nccl
    assert record.nccl.outcome == "skipped"
    assert "ib_write_bw" in record.nccl.reasons[0]


def test_no_secret_shows_in_a_login_or_an_access() -> None:
    login = Login(private_key="CANARY", endpoints={})

    assert "CANARY" not in f"{login!r} {login} {LabAccess(login=login, kubeconfig='CANARY')!r}"


def test_a_run_that_cannot_begin_is_a_result_too(lab: Lab) -> None:
    plan = plan_for(lab)
    record = all_failed(plan, "no key", "f").record

    assert (function_of(plan, record), record.fingerprint) == ("error", "f")


def test_what_no_ping_answers_is_failed_at_once_and_loads_nothing(lab: Lab) -> None:
    hosts = two_hosts()
    asked = "reached enp5s0 10.10.11.12 none\nreached enp132s0 10.10.12.12 large\n"
    hosts[0].programs["reach"] = answering(asked)
    record, lines = run(without_nccl(lab), hosts)

    assert [(t.rail, t.client, t.outcome) for t in record.transfers] == [
        ("rail-a", "gpu01", "failed"),
        ("rail-b", "gpu01", "measured"),
        ("rail-a", "gpu02", "measured"),
        ("rail-b", "gpu02", "measured"),
    ]
    assert "10.10.11.12 over enp5s0" in record.transfers[0].reasons[0]
    assert any(states(line, "reach", 4, 1) for line in lines)


def test_frames_that_do_not_pass_are_named_beside_the_failure_that_they_explain(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["reach"] = answering("reached enp5s0 10.10.11.12 small\n")
    hosts[0].programs["client"] = with_stderr(" Failed status 12: wr_id 0 syndrom 0x81\n", 1)
    record, _ = run(without_nccl(lab), hosts)

    assert "9000 bytes" in record.transfers[0].reasons[0]
    assert "frames" not in record.transfers[1].reasons[0]


def test_a_later_test_leaves_out_what_an_earlier_one_found_broken(lab: Lab) -> None:
    hosts = two_hosts()
    fine = hosts[0].programs["client"]

    async def client(process: Process, words: list[str]) -> None:
        await (with_stderr("broken\n", 1) if "rxe1" in words else fine)(process, words)

    hosts[0].programs["client"] = client
    plan = without_nccl(lab)
    both = plan.model_copy(update={"verbs": plan.verbs.model_copy(update={"tests": ("ib_write_bw", "ib_write_lat")})})
    for host in hosts:
        host.programs["facts"] = answering(ports_of(host.name))
    record, _ = run(both, hosts)

    skipped = [(t.rail, t.reasons) for t in record.transfers if t.test == "ib_write_lat" and t.outcome == "skipped"]
    assert [rail for rail, _ in skipped] == ["rail-b"] * 2
    assert all("ib_write_bw" in reasons[0] for _, reasons in skipped)


def test_other_traffic_prevents_any_load(lab: Lab) -> None:
    hosts = two_hosts()
    hosts[0].programs["facts"] = answering(with_values(PORTS, rxe1={"moved_bytes": 98_999_660}))
    record, _ = run(without_nccl(lab), hosts)

    assert record.transfers[0].outcome == "skipped"
    assert states(record.transfers[0].reasons[0], "gpu01", "rxe1", "0.79 Gbit/s")
    assert not {"client", "server"} & {role for host in hosts for role in host.asked}


def test_without_a_cluster_to_ask_a_vf_in_another_namespace_is_a_rail_in_use(lab: Lab) -> None:
    hosts = two_hosts()
    vf = {"pci": "0000:05:10.0", "devices": [], "away": True}
    hosts[0].programs["facts"] = answering(with_values(PORTS, rxe0={"vfs": [vf]}))
    record, _ = run(without_nccl(lab), hosts)

    said = "busy: a VF is in another network namespace or under vfio: gpu01: rxe0 0000:05:10.0"
    assert record.transfers[0].reasons == (said,)


@pytest.mark.row("A 349c")
def test_each_transfer_is_measured_as_often_as_the_lab_asks(lab: Lab) -> None:
    record, _ = run(without_nccl(changed(lab, repeats=2)), two_hosts())

    assert [len(transfer.samples) for transfer in record.transfers] == [2] * 4


@pytest.mark.parametrize(
    ("gbit_s", "tried", "chosen"),
    [
        ([378.0, 387.7, 388.0, 388.1], 8, 2),  # 96.4 and 98.9 % of 392: two pairs gain 2.6 %
        ([368.0, 380.0, 395.0, 395.0, 395.0], 16, 4),  # nccl#1464: 368 with one pair, 395 with four
        ([97.0, 97.2, 97.1], 4, 1),
        ([90.0, 90.1, 97.5, 97.6, 97.4], 16, 4),  # gains only from the second doubling on
        ([97.0, 60.0, 40.0], 4, 1),
    ],
)
def test_the_fewest_queue_pairs_within_one_percent_of_the_best_are_taken(
    gbit_s: list[float], tried: int, chosen: int
) -> None:
    reached: dict[int, float] = {}
    for doublings, value in enumerate(gbit_s):
        assert not no_longer_gains(reached)
        reached[2**doublings] = value

    assert no_longer_gains(reached)
    assert (max(reached), fewest(reached)) == (tried, chosen)

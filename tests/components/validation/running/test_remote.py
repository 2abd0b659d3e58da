"""What is asked of a host, and what is read from its answer."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.hosts.pack import copied
from components.jobs.mpijob import nccl_variables
from components.validation import by_hand
from components.validation.benchmarks.plan import Plan
from components.validation.benchmarks.verbs.commands import (
    LEASE,
    TAKEN,
    Side,
    bounded,
    facts_words,
    grown,
    perftest,
)
from components.validation.benchmarks.verbs.plan import Stage
from stacks.lab import Lab
from stacks.qos import Qos
from tests.components.validation.labs import plan_for


def side(plan: Plan, node: str, peer: str = "", **more: object) -> Side:
    rail = plan.rails[1]
    given = {"gid_index": 1, "port": 18516, "queue_pairs": 1, "message_bytes": 65536, "path_mtu_bytes": 4096, **more}
    other = rail.end(peer or "gpu02")
    return Side(end=rail.end(node), peer=other, connects=bool(peer), **given)  # type: ignore[arg-type]  # any field


def words_of(lab: Lab, stage: Stage, duration_s: int | None = None, **more: object) -> str:
    plan = plan_for(lab)
    verbs = plan.verbs.model_copy(update={"duration_s": duration_s})
    return " ".join(perftest(stage, side(plan, "gpu02", "gpu01", **more), verbs))


WRITE = Stage(test="ib_write_bw", message_bytes=65536, iterations=200)
LATENCY = Stage(test="ib_read_lat", message_bytes=2, iterations=100)


def test_the_test_takes_the_port_s_own_mtu_so_that_its_header_proves_it(lab: Lab) -> None:
    words = words_of(lab, WRITE)

    assert words == "ib_write_bw -d rxe1 -x 1 -p 18516 -s 65536 -F -q 1 --report_gbits -n 200 10.10.12.11"


def test_only_emulated_machines_are_given_half_a_second_to_answer_a_packet(lab: Lab) -> None:
    plan = plan_for(lab)
    rail_end = side(plan, "gpu02", "gpu01")

    assert "-u" not in perftest(WRITE, rail_end, plan.verbs)
    for stage in (WRITE, LATENCY):
        words = perftest(stage, rail_end, plan.verbs, simulated=True)
        assert words[words.index("-u") + 1] == "17"


def test_latency_tests_take_neither_queue_pairs_nor_a_unit(lab: Lab) -> None:
    words = words_of(lab, LATENCY, 10, message_bytes=2)

    assert words == "ib_read_lat -d rxe1 -x 1 -p 18516 -s 2 -F -n 100 10.10.12.11"


def test_a_duration_replaces_the_count_but_not_in_a_curve(lab: Lab) -> None:
    curve = WRITE.model_copy(update={"shape": "sizes"})

    assert "-D 10" in words_of(lab, WRITE, 10)
    assert "-n" not in words_of(lab, WRITE, 10)
    assert "-D" not in words_of(lab, curve, 10)


def test_both_ways_is_an_option_of_both_ends(lab: Lab) -> None:
    both = WRITE.model_copy(update={"shape": "both_ways"})

    plan = plan_for(lab)
    assert "-b" in perftest(both, side(plan, "gpu01"), plan.verbs)
    assert "-b" in perftest(both, side(plan, "gpu02", "gpu01"), plan.verbs)


@pytest.mark.parametrize("stage", [WRITE, LATENCY])
def test_both_ends_send_in_the_class_of_the_lab_s_roce_traffic(lab: Lab, stage: Stage) -> None:
    """perftest's own default is traffic class 0; --tclass is what it writes into the GRH, and so into the TOS byte
    (linux-rdma/perftest, src/perftest_parameters.c and src/perftest_resources.c: ah_attr.grh.traffic_class).
    """
    plan = plan_for(lab.model_copy(update={"qos": Qos()}))
    nccl = plan.nccl

    for rail_end in (side(plan, "gpu01"), side(plan, "gpu02", "gpu01")):
        assert "--tclass=106" in perftest(stage, rail_end, plan.verbs)
    assert nccl
    assert nccl_variables(nccl)["NCCL_IB_TC"] == "106", "NCCL and perftest are sorted into the same class"
    assert "tclass" not in words_of(lab, stage), "without quality of service in the lab there is no class to be in"


def test_a_pinned_test_begins_with_what_pins_it(lab: Lab) -> None:
    assert words_of(lab, WRITE, pinned=("taskset", "-c", "0-7")).startswith("taskset -c 0-7 ib_write_bw")


@pytest.mark.row("A 72-82")
@pytest.mark.parametrize("stage", [WRITE, LATENCY])
def test_the_connection_manager_takes_the_class_by_an_option_of_its_own(lab: Lab, stage: Stage) -> None:
    """perftest refuses --tos without -R ("TOS only valid for rdma_cm based QP"), and with -R it makes no address vector
    that --tclass could be in (src/perftest_parameters.c). The DeepOps guide has `ib_write_bw -R -d mlx5_0 -x 3`.
    """
    verbs = plan_for(lab.model_copy(update={"qos": Qos()})).verbs.model_copy(update={"rdma_cm": True})
    words = perftest(stage, side(plan_for(lab), "gpu02", "gpu01"), verbs)

    assert {"-R", "--tos=106"} <= set(words)
    assert not any(word.startswith("--tclass") for word in words)
    assert "-R" not in words_of(lab, stage)


def test_a_server_of_the_connection_manager_is_seen_where_it_listens(tmp_path: Path) -> None:
    """The lines are those of `rdma res show cm_id` in the kernel's commit about its "Protocol not available"."""
    listed = tmp_path / "cm_id"
    listed.write_text("link mlx5_0/- cm-idn 0 state LISTEN ps TCP pid 26395 comm rping src-addr 0.0.0.0:7174\n")

    def at(port: int, *option: str) -> tuple[str, str, int]:
        command = bounded(["sh", "-c", "sleep 0.2", "sh", *option], 5, port)
        assert "rdma resource show cm_id" in command
        return ended(remote(command.replace("rdma resource show cm_id", f"cat {listed}")))

    assert at(7174, "-R")[2] == TAKEN
    assert at(7175, "-R")[1:] == ("", 0)
    assert at(7174)[1:] == ("", 0), "another port space: without -R the port is one of TCP"


def test_counters_that_grew_are_read_and_nothing_else() -> None:
    said = "@listening\n@grew out_of_sequence 12\n@grew np_cnp_sent x\nout_of_sequence 99\n@grew link_downed 1\n"

    assert grown(said) == {"out_of_sequence": 12, "link_downed": 1}


def test_values_are_words_and_never_shell(lab: Lab) -> None:
    end = plan_for(lab).rails[0].end("gpu01").model_copy(update={"device": "$(touch x); rm -rf /"})

    assert "'$(touch x); rm -rf /'" in copied(facts_words(["ib_write_bw"], [end]))
    assert "'$(touch x); rm -rf /'" in bounded(["ib_write_bw"], 5, 0, end)


def remote(command: str, **more: int | None) -> subprocess.Popen[str]:
    """The command as sshd would start it: by a shell, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def eventually(holds: Callable[[], bool], within_s: float = 30) -> bool:
    """What follows from a death takes the kernel a moment."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def ended(process: subprocess.Popen[str]) -> tuple[str, str, int]:
    """Output and exit code of a program whose session stays open."""
    process.stdin, held_open = None, process.stdin
    out, err = process.communicate(timeout=40)
    assert held_open
    held_open.close()
    return out, err, process.returncode


def test_a_program_ends_when_its_session_s_input_closes() -> None:
    process = remote(bounded(["sh", "-c", "echo $$; exec sleep 60"], 60))
    assert process.stdin
    assert process.stdout
    pid = int(process.stdout.readline())
    process.stdin.close()

    process.wait(timeout=30)
    assert eventually(lambda: not Path(f"/proc/{pid}/exe").exists()), "an orphan may stay a zombie, which runs nothing"
    process.stdout.close()
    process.stderr.close()  # type: ignore[union-attr]  # a pipe


def test_a_program_that_runs_on_ends_with_its_time() -> None:
    begun = time.monotonic()

    assert ended(remote(bounded(["sleep", "60"], 1)))[2] == 124
    assert time.monotonic() - begun < 40, "of the sixty that it would take"


def test_the_program_s_own_exit_code_and_output_come_through() -> None:
    process = remote(bounded(["sh", "-c", "echo said; echo warned >&2; exit 7"], 60))

    assert ended(process) == ("said\n", "warned\n", 7)


SERVER = "import socket,sys; s=socket.create_server(('127.0.0.1',int(sys.argv[1]))); s.accept(); print('served')"


def a_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def test_a_server_is_announced_when_it_listens_and_is_never_probed() -> None:
    port = a_free_port()
    process = remote(bounded(["python3", "-c", SERVER, str(port)], 20, port))
    assert process.stderr
    assert process.stderr.readline() == "@listening\n"
    # the one connection that it takes is still free
    socket.create_connection(("127.0.0.1", port)).close()

    assert ended(process)[0] == "served\n"


def test_a_server_that_dies_at_once_is_not_announced() -> None:
    process = remote(bounded(["sh", "-c", "echo 'port is down' >&2; exit 3"], 5, a_free_port()))

    assert ended(process)[1:] == ("port is down\n", 3)


def test_a_port_that_is_taken_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        process = remote(bounded(["sh", "-c", "echo started"], 5, other.getsockname()[1]))

        assert ended(process) == ("", "", TAKEN)


def test_a_lease_is_held_by_one_run_and_falls_with_its_session(tmp_path: Path) -> None:
    file = str(tmp_path / "lease")

    def take(run_id: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(["sh", "-c", LEASE, "sh", run_id, file], stdin=pipe, stdout=pipe, text=True)

    first = take("one")
    assert first.stdout
    assert first.stdout.readline() == "held\n"
    second = take("two")
    assert second.communicate(timeout=5)[0] == "one\n", "the second is told who holds it"
    assert second.returncode == 75

    os.kill(first.pid, signal.SIGKILL)
    assert first.stdin
    first.stdin.close()
    first.wait()
    first.stdout.close()
    assert eventually(lambda: take("three").communicate(timeout=5)[0] == "held\n")


def test_while_alive_cancels_the_work_when_the_parent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        monkeypatch.setattr(os, "getppid", lambda: 1)  # who takes over an orphan
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append("both ends")

    with pytest.raises(by_hand.OrphanedError):
        asyncio.run(by_hand.while_alive(work()))
    assert cleaned == ["both ends"]

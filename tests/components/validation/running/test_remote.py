"""What is asked of a host, and what is read from its answer."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from components.validation.running import parent
from components.validation.running.remote import LEASE, TAKEN, bounded, inspect, parse_ports, perftest
from stacks.base import LabError
from stacks.lab import Lab
from tests.components.validation.labs import plan_for
from tests.conftest import ROOT

PORTS = (ROOT / "tests" / "samples" / "lab" / "ports_gpu01.txt").read_text()


def test_the_gid_index_is_the_roce_v2_entry_of_the_pf_s_own_address(lab: Lab) -> None:
    ports = parse_ports(PORTS)
    ends = [rail.end("gpu01") for rail in plan_for(lab).rails]

    assert [ports.gid_index(end) for end in ends] == [1, 1]
    assert (ports.version, ports.line_rate_gbit_s, ports.users) == ("Version: 6.06", {"rxe0": 1.0, "rxe1": 1.0}, ())


@pytest.mark.parametrize(
    ("recorded", "changed", "reason"),
    [
        ("type rxe0 1 RoCE v2", "type rxe0 1 IB/RoCE v1", "no RoCE v2 GID for 10.10.11.11 on enp5s0"),
        ("ffff:0a0a:0b0b", "ffff:0a0a:0b0c", "no RoCE v2 GID for 10.10.11.11 on enp5s0"),
        ("ndev rxe0 1 enp5s0", "ndev rxe0 1 enp5s0v0", "no RoCE v2 GID for 10.10.11.11 on enp5s0"),
        (" rxe0 ", " rxe9 ", "there is no RDMA device rxe0"),
    ],
)
def test_another_gid_is_never_taken_instead(lab: Lab, recorded: str, changed: str, reason: str) -> None:
    with pytest.raises(LabError, match=reason):
        parse_ports(PORTS.replace(recorded, changed)).gid_index(plan_for(lab).rails[0].end("gpu01"))


def test_an_mlx5_port_has_its_gid_elsewhere_and_is_found_too(lab: Lab) -> None:
    text = PORTS.replace("rxe0 1 ", "rxe0 3 ")

    assert parse_ports(text).gid_index(plan_for(lab).rails[0].end("gpu01")) == 3


def test_queue_pairs_of_a_process_on_the_port_or_its_vfs_are_seen_and_those_of_others_are_not() -> None:
    qps = [
        {"ifname": "rxe0", "comm": "ib_core", "type": "GSI"},
        {"ifname": "rxe0", "comm": "ib_write_bw", "pid": 669, "type": "RC"},
        {"ifname": "mlx5_7", "comm": "python3", "pid": 7, "type": "RC"},
        {"ifname": "mlx5_0", "comm": "storage", "pid": 8, "type": "RC"},
    ]
    text = PORTS.split("qps ")[0] + "vf rxe0 mlx5_7\nqps " + json.dumps(qps)

    assert parse_ports(text).users == ("ib_write_bw (669) on rxe0", "python3 (7) on mlx5_7")


def test_a_port_without_a_speed_has_no_line_rate() -> None:
    assert parse_ports(PORTS.replace("speed rxe0 1000", "speed rxe0 -1")).line_rate_gbit_s == {"rxe1": 1.0}


def test_the_test_takes_the_port_s_own_mtu_so_that_its_header_proves_it(lab: Lab) -> None:
    plan = plan_for(lab)
    rail = plan.rails[1]
    words = perftest(plan.verbs, rail.end("gpu02"), 1, 18516, rail.end("gpu01").address)

    assert {"-m", "-R"} & set(words) == set()
    assert words[-1] == "10.10.12.11"
    assert "-d rxe1 -x 1 -p 18516" in " ".join(words)


def test_values_are_words_and_never_shell(lab: Lab) -> None:
    end = plan_for(lab).rails[0].end("gpu01").model_copy(update={"device": "$(touch x); rm -rf /"})

    assert "'$(touch x); rm -rf /'" in inspect("ib_write_bw", [end])


def remote(command: str, **more: int | None) -> subprocess.Popen[str]:
    """The command as sshd would start it: by a shell, with pipes."""
    pipe = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", command], stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def eventually(holds: Callable[[], bool], within_s: float = 5) -> bool:
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
    out, err = process.communicate(timeout=10)
    assert held_open
    held_open.close()
    return out, err, process.returncode


def test_a_program_ends_when_its_session_s_input_closes() -> None:
    process = remote(bounded(["sh", "-c", "echo $$; exec sleep 60"], 60))
    assert process.stdin
    assert process.stdout
    pid = int(process.stdout.readline())
    process.stdin.close()

    process.wait(timeout=5)
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())
    process.stdout.close()
    process.stderr.close()  # type: ignore[union-attr]  # a pipe


def test_a_program_that_runs_on_ends_with_its_time() -> None:
    begun = time.monotonic()

    assert ended(remote(bounded(["sleep", "60"], 1)))[2] == 124
    assert time.monotonic() - begun < 5


def test_the_program_s_own_exit_code_and_output_come_through() -> None:
    process = remote(bounded(["sh", "-c", "echo said; echo warned >&2; exit 7"], 5))

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


def test_while_alive_cancels_the_work_when_an_ancestor_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned: list[str] = []
    starter = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(parent, "ancestors", lambda _levels: {starter.pid: parent._born(starter.pid)})

    async def work() -> None:
        starter.kill()
        starter.wait()
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append("both ends")

    with pytest.raises(parent.OrphanedError):
        asyncio.run(parent.while_alive(work(), 1))
    assert cleaned == ["both ends"]


def test_the_ancestors_are_those_of_this_process() -> None:
    assert next(iter(parent.ancestors(2))) == os.getppid()

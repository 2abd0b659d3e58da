"""What is read from a host's answer about its ports."""

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest

from components.hosts.pack import on_stdin, started
from components.hosts.program.look.bench import bench_facts, moved_bytes, pinnable_bytes
from components.hosts.program.look.leaves import UnknownError
from components.hosts.program.look.read_only import ReadOnly
from components.validation.benchmarks.verbs.commands import facts_words
from components.validation.benchmarks.verbs.ports import low_memlock, parse_ports
from stacks.base import LabError
from stacks.benchmarks import Verbs
from stacks.lab import Lab
from tests.components.inventory.tree import Tree
from tests.components.validation.labs import changed, hardware, plan_for
from tests.components.validation.running.bench_facts import answer_of, with_gid, with_values
from tests.components.validation.running.recorded_hosts import PORTS
from tests.messages import states, stating


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_the_gid_index_is_the_roce_v2_entry_of_the_pf_s_own_address(lab: Lab) -> None:
    ports = parse_ports(PORTS)
    ends = [rail.end("gpu01") for rail in plan_for(lab).rails]

    assert [ports.gid_index(end) for end in ends] == [1, 1]
    assert (ports.version, ports.line_rate_gbit_s, ports.users) == ("Version: 6.06", {"rxe0": 1.0, "rxe1": 1.0}, ())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (with_gid(PORTS, "rxe0", 1, type="IB/RoCE v1"), ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        (PORTS.replace("ffff:0a0a:0b0b", "ffff:0a0a:0b0c"), ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        (with_gid(PORTS, "rxe0", 1, interface="enp5s0v0"), ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        (PORTS.replace('"rxe0"', '"rxe9"'), ["RDMA device", "rxe0"]),
        (with_values(PORTS, rxe0={"gids": None}), ["GIDs", "rxe0", "Input/output error"]),
    ],
)
def test_another_gid_is_never_taken_instead(lab: Lab, answer: str, reason: list[str]) -> None:
    with pytest.raises(LabError, check=stating(*reason)):
        parse_ports(answer).gid_index(plan_for(lab).rails[0].end("gpu01"))


def test_an_mlx5_port_has_its_gid_elsewhere_and_is_found_too(lab: Lab) -> None:
    text = with_gid(PORTS, "rxe0", 1, index=3)

    assert parse_ports(text).gid_index(plan_for(lab).rails[0].end("gpu01")) == 3


QUEUE_PAIRS = """\
link rxe0/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core]
link rxe0/1 lqpn 17 rqpn 17 type RC state RTS rq-psn 1 sq-psn 2 path-mig-state MIGRATED pdn 3 pid 669 comm ib_write_bw
link mlx5_7/1 lqpn 18 type RC state RTS rq-psn 1 sq-psn 2 path-mig-state MIGRATED pdn 3 pid 7 comm python3
link mlx5_0/1 lqpn 19 type RC state RTS rq-psn 1 sq-psn 2 path-mig-state MIGRATED pdn 3 pid 8 comm storage
"""
"""In the form of `rdma resource show qp`; test_carriers.py has a published one."""


def test_queue_pairs_of_a_process_on_the_port_or_its_vfs_are_seen_and_those_of_others_are_not(tree: Tree) -> None:
    tree.program("rdma", {"resource show qp": QUEUE_PAIRS})
    tree.file("/sys/module/ib_core/refcnt", "1")
    machine = ReadOnly(str(tree.root), str(tree.programs))
    pairs = bench_facts(machine, ["ib_write_bw"], [])["host"]["queue_pairs"]["value"]
    vf = {"pci": "0000:05:10.0", "devices": ["mlx5_7"], "away": False}
    ports = parse_ports(with_values(PORTS, {"queue_pairs": pairs}, rxe0={"vfs": [vf]}))

    assert ports.users == ("ib_write_bw (669) on rxe0", "python3 (7) on mlx5_7")


def test_a_port_without_a_speed_has_no_line_rate() -> None:
    assert parse_ports(with_values(PORTS, rxe0={"speed_mbit_s": None})).line_rate_gbit_s == {"rxe1": 1.0}


MLX5 = answer_of(
    {
        "programs": ["ib_write_bw", "numactl"],
        "version": "Version: 6.29",
        "cpus_of_numa_node": {"0": "0-31,64-95", "1": "32-63,96-127"},
    },
    mlx5_0={
        "speed_mbit_s": 100000,
        "mtu_bytes": 9000,
        "numa_node": 1,
        "pcie_speed_gt_s": 8.0,
        "pcie_width": 16,
        "pci": "0000:3b:00.0",
        "vfs": [{"pci": "0000:3b:00.4", "devices": [], "away": True}],
        "moved_bytes": 2_000_000,
    },
)
"""Composed; no machine with this NIC is at hand."""


def test_the_facts_of_a_port_are_read_with_their_units() -> None:
    ports = parse_ports(MLX5)

    assert ports.facts.model_dump(exclude_defaults=True) == {
        "perftest": "6.29",
        "mtu_bytes": {"net-mlx5_0": 9000},
        "line_rate_gbit_s": {"mlx5_0": 100.0},
        "pcie": {"mlx5_0": "8.0 GT/s x16"},
        "numa_node": {"mlx5_0": 1},
        "slot": {"mlx5_0": "0000:3b:00"},
    }
    assert ports.away == ("mlx5_0 0000:3b:00.4",)
    assert ports.pcie_gbit_s("mlx5_0") == pytest.approx(114, rel=0.01)


@pytest.mark.parametrize("name", ["virtio0", "device", ""])
def test_a_device_without_a_pci_address_has_no_slot(name: str) -> None:
    assert parse_ports(with_values(MLX5, mlx5_0={"pci": name})).facts.slot == {}


def test_a_test_is_kept_on_its_nic_s_numa_node_where_there_are_several() -> None:
    without_numactl = with_values(MLX5, {"programs": ["ib_write_bw"]})
    one_node = with_values(without_numactl, {"cpus_of_numa_node": {"0": "0-31,64-95"}}, mlx5_0={"numa_node": 0})

    assert parse_ports(MLX5).pinned("mlx5_0") == ("numactl", "--cpunodebind=1", "--membind=1")
    assert parse_ports(without_numactl).pinned("mlx5_0") == ("taskset", "-c", "32-63,96-127")
    assert parse_ports(one_node).pinned("mlx5_0") == ()
    assert parse_ports(PORTS).pinned("rxe0") == ()


@pytest.mark.parametrize(
    ("grown", "gbit_s"),
    [
        # ports count words of four bytes, and one per cent of 100 Gbit/s is 31 250 000 of them a second
        ({"infiniband/mlx5_0/ports/1/counters/port_rcv_data": 31_248_000}, ""),
        ({"infiniband/mlx5_0/ports/1/counters/port_xmit_data": 250_000_000}, "8.00 Gbit/s"),
        ({"net/ens1f0np0/statistics/rx_bytes": 1_000_000_000}, "8.00 Gbit/s"),
        ({}, ""),
    ],
)
def test_traffic_of_others_shows_even_where_only_the_rdma_counters_see_it(
    tree: Tree, grown: dict[str, int], gbit_s: str
) -> None:
    counters = ("infiniband/mlx5_0/ports/1/counters/port_rcv_data", "infiniband/mlx5_0/ports/1/counters/port_xmit_data")
    for name in (*counters, "net/ens1f0np0/statistics/rx_bytes"):
        tree.file(f"/sys/class/{name}", "2000")

    class Second(ReadOnly):
        def pause(self, seconds: float) -> None:
            for name, growth in grown.items():
                tree.file(f"/sys/class/{name}", str(2000 + int(growth * seconds)))

    moved = moved_bytes(Second(str(tree.root)), "mlx5_0", "ens1f0np0")
    busy = parse_ports(with_values(MLX5, mlx5_0={"moved_bytes": moved})).busy()

    assert [states(line, "mlx5_0", gbit_s) for line in busy] == [True] * bool(gbit_s)
    assert parse_ports(PORTS).busy() == []


def test_a_port_without_counters_has_unknown_traffic_and_the_others_are_read(tree: Tree) -> None:
    ports = parse_ports(with_values(PORTS, rxe0={"moved_bytes": None}))

    assert ports.moved_bytes == {"rxe1": 0}
    with pytest.raises(UnknownError):
        moved_bytes(ReadOnly(str(tree.root)), "mlx5_9", "ens9")


@pytest.mark.parametrize(
    ("answer", "memlock_bytes"),
    [
        ("1000 65536                65536                bytes", 64 << 10),  # Linux before 5.16
        (
            "1000 8388608              8388608              bytes",
            8 << 20,
        ),  # Linux from 5.16 on (9dcc38e2813e) and systemd from 250 on (852b62507b22)
        ("1000 unlimited            unlimited            bytes", None),
        (
            "0 65536                65536                bytes",
            None,
        ),  # ib_umem_get does not limit a process with CAP_IPC_LOCK
    ],
)
def test_what_the_ssh_user_may_pin_is_compared_with_what_the_plan_needs(
    lab: Lab, answer: str, memlock_bytes: int | None
) -> None:
    user, limits = answer.split(maxsplit=1)
    pinnable = pinnable_bytes(f"Limit  Soft Limit  Hard Limit  Units\nMax locked memory         {limits}\n", int(user))
    ports = parse_ports(with_values(PORTS, {"memlock_bytes": pinnable}))
    needed_bytes = plan_for(changed(hardware(lab), verbs=Verbs())).verbs.pinned_bytes

    assert ports.memlock_bytes == memlock_bytes
    assert bool(low_memlock({"gpu01": ports}, needed_bytes)) is (memlock_bytes is not None)
    assert low_memlock({"gpu01": parse_ports(PORTS)}, needed_bytes) == "", "an unknown limit is not reported as low"


def test_the_limit_of_locked_memory_is_that_of_the_session_s_programs(lab: Lab) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    command = started(facts_words(["ib_write_bw"], plan_for(lab).rails[0].ends))
    done = subprocess.run(["sh", "-c", command], input=on_stdin(), capture_output=True, check=True)

    limited = soft != resource.RLIM_INFINITY and os.getuid() != 0
    assert parse_ports(done.stdout.decode()).memlock_bytes == (soft if limited else None)
    assert pinnable_bytes(Path("/proc/self/limits").read_text(), 1000) == (
        None if soft == resource.RLIM_INFINITY else soft
    )


def test_a_vf_with_a_driver_and_without_a_netdev_is_in_use_and_an_idle_one_is_not(tmp_path: Path) -> None:
    """So it looks from the host when a pod has the netdev, and under vfio; one without driver serves nobody."""
    device = tmp_path / "sys/class/net/enp5s0/device"
    for number, (driver, netdev) in enumerate([("mlx5_core", True), ("mlx5_core", False), ("", False)]):
        vf = tmp_path / f"sys/devices/0000:05:10.{number}"
        (vf / "net" / ("eth7" if netdev else "")).mkdir(parents=True)
        if driver:
            (vf / "driver").symlink_to(driver)
            (vf / driver).mkdir()
        device.mkdir(parents=True, exist_ok=True)
        (device / f"virtfn{number}").symlink_to(vf)

    answer = bench_facts(ReadOnly(str(tmp_path)), ["ib_write_bw"], [("mlx5_0", "enp5s0")])

    assert parse_ports(json.dumps(answer)).away == ("mlx5_0 0000:05:10.1",)


@pytest.mark.parametrize("answer", ["", "Password:", '{"schema": 1}', "[]", '{"host": {}, "ports": [{}]}'])
def test_what_is_no_answer_is_refused_with_its_text(answer: str) -> None:
    with pytest.raises(LabError, check=stating(answer)):
        parse_ports(answer)


def test_a_host_whose_python_is_too_old_says_so(lab: Lab) -> None:
    failed = {"failed": {"step": "program", "reason": "python3 is 3.6 here", "hint": "install 3.8"}}
    with pytest.raises(LabError, check=stating("python3 is 3.6 here", "install 3.8")):
        parse_ports(json.dumps(failed))


def test_a_program_that_hangs_costs_only_its_own_value(tree: Tree) -> None:
    tree.script("ib_write_bw", "exec sleep 60")
    machine = ReadOnly(str(tree.root), str(tree.programs))

    ports = parse_ports(json.dumps(bench_facts(machine, ["ib_write_bw"], [], deadline_s=0.5)))

    assert ports.tests == {"ib_write_bw"}
    assert "not read within" in ports.unread["version"]

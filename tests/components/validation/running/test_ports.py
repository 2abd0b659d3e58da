"""What is read from a host's answer about its ports."""

import json
import os
import re
import resource
import subprocess

import pytest

from components.validation.benchmarks.verbs.commands import inspect
from components.validation.benchmarks.verbs.ports import low_memlock, parse_ports
from stacks.base import LabError
from stacks.benchmarks import Verbs
from stacks.lab import Lab
from tests.components.validation.labs import changed, hardware, plan_for
from tests.conftest import ROOT
from tests.messages import states, stating

PORTS = (ROOT / "tests" / "samples" / "lab" / "ports_gpu01.txt").read_text()


def test_the_gid_index_is_the_roce_v2_entry_of_the_pf_s_own_address(lab: Lab) -> None:
    ports = parse_ports(PORTS)
    ends = [rail.end("gpu01") for rail in plan_for(lab).rails]

    assert [ports.gid_index(end) for end in ends] == [1, 1]
    assert (ports.version, ports.line_rate_gbit_s, ports.users) == ("Version: 6.06", {"rxe0": 1.0, "rxe1": 1.0}, ())


@pytest.mark.parametrize(
    ("recorded", "changed", "reason"),
    [
        ("type rxe0 1 RoCE v2", "type rxe0 1 IB/RoCE v1", ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        ("ffff:0a0a:0b0b", "ffff:0a0a:0b0c", ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        ("ndev rxe0 1 enp5s0", "ndev rxe0 1 enp5s0v0", ["RoCE v2 GID", "10.10.11.11", "enp5s0"]),
        (" rxe0 ", " rxe9 ", ["RDMA device", "rxe0"]),
    ],
)
def test_another_gid_is_never_taken_instead(lab: Lab, recorded: str, changed: str, reason: list[str]) -> None:
    with pytest.raises(LabError, check=stating(*reason)):
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
    text = "vf rxe0 mlx5_7\n" + re.sub("qps .*", lambda _: f"qps {json.dumps(qps)}", PORTS)

    assert parse_ports(text).users == ("ib_write_bw (669) on rxe0", "python3 (7) on mlx5_7")


PUBLISHED = """[ {
        "ifindex": 4,
        "ifname": "rxe0",
        "port": 1,
        "lqpn": 41,
        "rqpn": 40,
        "type": "RC",
        "state": "RTR",
        "rq-psn": 12474738,
        "sq-psn": 0,
        "path-mig-state": "ARMED",
        "pdn": 9,
        "pid": 1523,
        "comm": "ib_send_bw"
    },
    "drv_sq_wqe_cnt": 128,
    "drv_ext_sge_sge_cnt": 0
}"""
"""`rdma res show qp … -jp -dd` of hns_0 on the linux-rdma list ("RDMA/hns: Support QP's restrack attributes"), with
another device name: no JSON parser takes it."""


def test_queue_pairs_are_seen_in_output_that_is_no_json() -> None:
    for text in (PUBLISHED, PUBLISHED.replace(": ", ":")):
        on_one_line = " ".join(text.split())

        assert parse_ports(re.sub("qps .*", lambda _, qps=on_one_line: f"qps {qps}", PORTS)).users == (
            "ib_send_bw (1523) on rxe0",
        )  # type: ignore[misc]  # a default


def test_a_port_without_a_speed_has_no_line_rate() -> None:
    assert parse_ports(PORTS.replace("speed rxe0 1000", "speed rxe0 -1")).line_rate_gbit_s == {"rxe1": 1.0}


MLX5 = """\
before mlx5_0 net 1000
before mlx5_0 rdma 2000
has ib_write_bw
has numactl
version Version: 6.29
away mlx5_0 0000:3b:00.4
cpus 0 0-31,64-95
cpus 1 32-63,96-127
speed mlx5_0 100000
mtu mlx5_0 ens1f0np0 9000
numa mlx5_0 1
pcie mlx5_0 16 8.0 GT/s PCIe
slot mlx5_0 0000:3b:00.0
qps []
after mlx5_0 net 1500
after mlx5_0 rdma 502000
"""
"""Composed in the form that the look has; no machine with this NIC is at hand."""


def test_the_facts_of_a_port_are_read_with_their_units() -> None:
    ports = parse_ports(MLX5)

    assert ports.facts.model_dump(exclude_defaults=True) == {
        "perftest": "6.29",
        "mtu_bytes": {"ens1f0np0": 9000},
        "line_rate_gbit_s": {"mlx5_0": 100.0},
        "pcie": {"mlx5_0": "8.0 GT/s x16"},
        "numa_node": {"mlx5_0": 1},
        "slot": {"mlx5_0": "0000:3b:00"},
    }
    assert ports.away == ("mlx5_0 0000:3b:00.4",)
    assert ports.pcie_gbit_s("mlx5_0") == pytest.approx(114, rel=0.01)


@pytest.mark.parametrize("name", ["virtio0", "device", ""])
def test_a_device_without_a_pci_address_has_no_slot(name: str) -> None:
    assert parse_ports(MLX5.replace("0000:3b:00.0", name)).facts.slot == {}


def test_a_test_is_kept_on_its_nic_s_numa_node_where_there_are_several() -> None:
    without_numactl = MLX5.replace("has numactl\n", "")
    one_node = without_numactl.replace("cpus 1 32-63,96-127\n", "").replace("numa mlx5_0 1", "numa mlx5_0 0")

    assert parse_ports(MLX5).pinned("mlx5_0") == ("numactl", "--cpunodebind=1", "--membind=1")
    assert parse_ports(without_numactl).pinned("mlx5_0") == ("taskset", "-c", "32-63,96-127")
    assert parse_ports(one_node).pinned("mlx5_0") == ()
    assert parse_ports(PORTS).pinned("rxe0") == ()


def test_traffic_of_others_shows_even_where_only_the_rdma_counters_see_it() -> None:
    # ports count words of four bytes, and one per cent of 100 Gbit/s is 31 250 000 of them a second
    assert parse_ports(MLX5.replace("rdma 502000", "rdma 31250000")).busy() == []
    [busy] = parse_ports(MLX5.replace("rdma 502000", "rdma 250002000")).busy()
    assert states(busy, "mlx5_0", "8.00 Gbit/s")
    [busy] = parse_ports(MLX5.replace("net 1500", "net 1000001000")).busy()
    assert states(busy, "mlx5_0", "8.00 Gbit/s")
    assert parse_ports(PORTS).busy() == []


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
    ports = parse_ports(f"memlock {answer}\n{PORTS}")
    needed_bytes = plan_for(changed(hardware(lab), verbs=Verbs())).verbs.pinned_bytes

    assert ports.memlock_bytes == memlock_bytes
    assert bool(low_memlock({"gpu01": ports}, needed_bytes)) is (memlock_bytes is not None)
    assert low_memlock({"gpu01": parse_ports(PORTS)}, needed_bytes) == "", "an unknown limit is not reported as low"


def test_the_limit_of_locked_memory_is_that_of_the_session_s_programs(lab: Lab) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    command = inspect(["ib_write_bw"], plan_for(lab).rails[0].ends)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    [answer] = [line for line in done.stdout.splitlines() if line.startswith("memlock ")]

    expected = None if soft == resource.RLIM_INFINITY else soft
    assert parse_ports(answer.replace(f"memlock {os.getuid()} ", "memlock 1000 ")).memlock_bytes == expected

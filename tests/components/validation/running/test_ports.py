"""What is read from a host's answer about its ports."""

import json

import pytest

from components.validation.running.ports import parse_ports
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

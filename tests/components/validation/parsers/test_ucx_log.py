"""What UCX logs of its connections."""

import pytest

from components.validation.benchmarks.jobs.run import devices_left_out, faults_of_mpi, lanes_between_nodes
from components.validation.benchmarks.nccl.table import parse_nccl
from tests.components.validation.samples import sample
from tests.messages import states

TCP, ROCE = sample("mpi/tcp_two_namespaces.txt"), sample("mpi/roce_two_nodes.txt")


def test_the_lanes_between_nodes_are_those_that_leave_a_node():
    assert "self/memory0" in TCP
    assert lanes_between_nodes(TCP) == ("tcp/eth0",)
    assert lanes_between_nodes(ROCE) == ("rc_verbs/rxe0:1", "rc_verbs/rxe1:1")


@pytest.mark.parametrize(
    "line",
    [
        # composed: of UCX 1.13 with several devices, and of later versions, whose lines say where the peer is
        "[1645203303.75] [host2:43:0] ucp_worker.c:1877 UCX  INFO  ep_cfg[2]: tag(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1)",
        "[1645203303.75] [h:43:0] ucp_worker.c:1887 UCX  INFO  inter-node cfg#2 tag(rc_mlx5/mlx5_0:1 rc_mlx5/mlx5_1:1)",
    ],
)
def test_each_device_of_a_connection_is_a_lane(line: str):
    assert lanes_between_nodes(f"{line}\n{line}\n") == ("rc_mlx5/mlx5_0:1", "rc_mlx5/mlx5_1:1")


def test_a_log_without_ucx_has_no_lanes():
    assert lanes_between_nodes(sample("nccl/tagged_debug.txt")) == ()


def test_the_table_is_read_like_that_of_nccl_tests():
    tables = [parse_nccl(log) for log in (TCP, ROCE)]

    assert [(one.ranks, one.wrong, one.rows[-1].size_bytes) for one in tables] == [(2, 0, 65_536), (2, 0, 4096)]


def test_a_device_that_a_rank_could_not_use_fails_the_job_although_all_sums_are_right():
    log = sample("mpi/roce_pods_one_vf_down.txt")

    assert devices_left_out(log) == ("rxe_05_10_4:1 on bench-20261123-032618-a780-2-worker-0",)
    [fault] = faults_of_mpi(parse_nccl(log), log, "roce", 262_144)
    assert states(fault, "UCX", *devices_left_out(log))
    assert devices_left_out(ROCE) == ()


def test_all_devices_that_a_rank_could_not_use_are_read():
    """Composed after UCX 1.13's `ucp_report_unavailable`, which lists several in one line."""
    line = (
        "[1645203303.75] [h:43:0] ucp_context.c:1014 UCX  WARN  network devices 'a:1','b:1' are not available, please"
    )

    assert devices_left_out(f"{line} use one or more of: 'eth0'(tcp)\n") == ("a:1 on h", "b:1 on h")

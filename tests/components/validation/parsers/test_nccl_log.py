"""What NCCL's own lines tell, in old and new wording. Composed from its formats, but for the recording."""

import re

import pytest

from components.validation.benchmarks.nccl.log import parse_nccl_log, rail_faults, rails_by_order, unnamed_adapters
from tests.components.validation.samples import composed, nccl
from tests.messages import states

OLD, NEW = composed("nccl_log_2_5.txt"), composed("nccl_log_2_28.txt")


def test_the_wording_of_2_5_shows_transport_adapters_and_gpu_direct() -> None:
    network = parse_nccl_log(OLD)

    assert (network.transport, network.gpu_direct, network.version) == ("ib", "all", "2.5.6+cuda10.1")
    assert network.used_devices == {"worker-0": ("mlx5_3", "mlx5_9"), "worker-1": ("mlx5_3", "mlx5_9")}


def test_the_wording_of_2_28_has_settings_and_driver_as_well() -> None:
    network = parse_nccl_log(NEW)

    assert (network.transport, network.algorithm, network.pinned_net) == ("ib", "Ring", "IB")
    assert (network.version, network.cuda_driver) == ("2.28.3+cuda13.0", "13.0")
    assert network.wanted_adapters["job-worker-1"] == ("mlx5_5", "mlx5_3")


def test_gpu_direct_on_some_channels_only_is_reported() -> None:
    assert parse_nccl_log(NEW).gpu_direct == "some"
    assert parse_nccl_log(NEW.replace("/GDRDMA", "")).gpu_direct == "none"
    assert parse_nccl_log("").gpu_direct is None


def test_a_recorded_fallback_to_sockets_is_reported_although_net_ib_is_in_the_log() -> None:
    network = parse_nccl_log(nccl("tagged_debug"))

    assert (network.transport, network.used_devices, network.version) == ("socket", {}, "2.28.3+cuda13.0")


def test_a_recorded_ring_over_two_nodes_names_both_ends_of_its_channels() -> None:
    network = parse_nccl_log(nccl("two_nodes_sockets_2xH100"))

    assert (network.transport, network.version) == ("socket", "2.28.9+cuda13.0")
    assert {(end.host, end.direction, end.source, end.target, end.net, end.device) for end in network.channels} == {
        ("gpu01", "send", 0, 1, "Socket", None),
        ("gpu01", "receive", 1, 0, "Socket", None),
        ("gpu02", "send", 1, 0, "Socket", None),
        ("gpu02", "receive", 0, 1, "Socket", None),
    }


NET_ALONE = re.compile(
    "New proxy|Connected to proxy|dlvsym failed|Could not get speed|Topology detection|GPU Direct RDMA (?:En|Dis)abled"
)
"""INFO(NCCL_NET, …), with NCCL_PROXY or NCCL_GRAPH or alone, in the sources of NCCL 2.28.3."""


def test_without_the_lines_of_net_alone_a_log_shows_the_same_and_is_less_than_half_as_long() -> None:
    whole = nccl("tagged_debug")
    less = "".join(line for line in whole.splitlines(keepends=True) if not NET_ALONE.search(line))

    assert parse_nccl_log(less) == parse_nccl_log(whole)
    assert len(less) < len(whole) / 2


def test_one_channel_over_sockets_is_a_fallback() -> None:
    assert parse_nccl_log(NEW.replace("via NET/IB/0\n", "via NET/Socket/0\n", 1)).transport == "socket"


def test_channels_that_keep_to_their_rail_are_no_fault() -> None:
    network = parse_nccl_log(NEW)

    assert len(network.channels) == 16
    # the devices are numbered otherwise on the second host, and the rails are not
    assert rails_by_order(network)["job-worker-0", "mlx5_4"] == rails_by_order(network)["job-worker-1", "mlx5_5"] == 0
    assert rail_faults(network, rails_by_order(network)) == []


def test_a_channel_from_one_rail_to_another_is_named_with_both_ends() -> None:
    line = next(line for line in NEW.splitlines() if "00/0" in line and "[receive]" in line)
    network = parse_nccl_log(NEW.replace(line, line.replace("NET/IB/0", "NET/IB/1")))

    [fault] = rail_faults(network, rails_by_order(network))
    assert states(fault, "rank 1", "mlx5_2 of job-worker-0", "rail 1", "rank 2", "mlx5_5 of job-worker-1", "rail 0")


def test_an_adapter_on_no_rail_is_named() -> None:
    network = parse_nccl_log(OLD)
    rails = {("worker-0", "mlx5_3"): "rail-a", ("worker-1", "mlx5_3"): "rail-a", ("worker-1", "mlx5_9"): "rail-b"}

    assert {fault.partition(":")[0] for fault in rail_faults(network, rails)} == {"worker-0"}
    assert all(states(fault, "mlx5_9", "no rail") for fault in rail_faults(network, rails))


def test_a_host_without_a_list_of_adapters_is_unknown_and_accused_of_nothing() -> None:
    none, one = parse_nccl_log(OLD), parse_nccl_log(_without_list("job-worker-1"))

    assert (none.wanted_adapters, len(none.channels) > 0) == ({}, True)
    assert rail_faults(none, rails_by_order(none)) == []
    assert (set(one.wanted_adapters), rail_faults(one, rails_by_order(one))) == ({"job-worker-0"}, [])


def _without_list(host: str) -> str:
    lines = NEW.splitlines()
    return "\n".join(line for line in lines if not (f"{host}:" in line and "NCCL_IB_HCA" in line))


def fused(log: str, *, rest: str = "", swapped: str = "") -> str:
    """The log of hosts whose two rails are ports of one NIC that NCCL has fused.

    The line is that of NCCL 2.24.3 (src/transport/net_ib.cc:540), with `rest` that of 2.30.7
    (src/transport/net_ib/init.cc:259): `Made virtual device [%d] name=%s speed=%d ndevs=%d`.
    """
    lines: list[str] = []
    for line in log.splitlines():
        lines.append(re.sub(r"NET/IB/[01](?=\D|$)", "NET/IB/2", line))
        if "NET/IB : Using" in line:
            names = re.findall(r"\[[0-9]\](\w+):", line)
            if swapped and swapped in line:
                names.reverse()
            head = line.partition("NET/IB : Using")[0]
            name = "+".join(names)
            lines.append(f"{head}NET/IB : Made virtual device [2] name={name} speed=800000 ndevs=2{rest}")
    return "\n".join(lines)


@pytest.mark.parametrize("rest", ["", " rail=-1 plane=32768"])
def test_channels_over_fused_ports_are_held_against_the_rails_of_both(rest: str) -> None:
    network = parse_nccl_log(fused(NEW, rest=rest))

    assert network.used_devices == {"job-worker-0": ("mlx5_2+mlx5_4",), "job-worker-1": ("mlx5_3+mlx5_5",)}
    assert (unnamed_adapters(network), rail_faults(network, rails_by_order(network))) == ([], [])


def test_fused_ports_in_another_order_cross_the_rails() -> None:
    network = parse_nccl_log(fused(NEW, swapped="job-worker-0"))
    faults = rail_faults(network, rails_by_order(network))

    assert len(faults) > 0
    assert all(states(fault, "rail 0+1", "rail 1+0") for fault in faults)


def test_a_fused_port_on_no_rail_is_named() -> None:
    network = parse_nccl_log(fused(NEW.replace("=mlx5_4:1,mlx5_2:1", "=mlx5_4:1")))
    faults = rail_faults(network, rails_by_order(network))

    assert {fault.partition(":")[0] for fault in faults} == {"job-worker-0"}
    assert all(states(fault, "mlx5_2", "no rail") for fault in faults)


def test_an_adapter_that_the_log_does_not_name_is_reported_and_not_accused() -> None:
    without = "\n".join(line for line in fused(NEW).splitlines() if "virtual" not in line)
    network = parse_nccl_log(without)

    assert unnamed_adapters(network) == ["job-worker-0", "job-worker-1"]
    assert rail_faults(network, rails_by_order(network)) == []
    assert unnamed_adapters(parse_nccl_log(NEW)) == []


@pytest.mark.parametrize("value", ["^mlx5_0", "=mlx5_4:1,mlx5_2:1", "mlx5_4"])
def test_lists_of_wanted_adapters_are_read_in_all_their_forms(value: str) -> None:
    log = f"h:1:2 [0] NCCL INFO NCCL_IB_HCA set to {value}"
    expected = {"^mlx5_0": (), "=mlx5_4:1,mlx5_2:1": ("mlx5_4", "mlx5_2"), "mlx5_4": ("mlx5_4",)}

    assert parse_nccl_log(log).wanted_adapters == {"h": expected[value]}


def test_an_old_nccl_names_sockets_where_it_goes_on_to_use_rdma() -> None:
    socket = "n1:11:12 [0] NCCL INFO NET/Socket : Using [0]ib0:192.0.2.1<0>\n"
    rdma = "n1:11:12 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.0.2.1<0>\n"

    assert parse_nccl_log(socket + rdma).transport == "ib"
    assert parse_nccl_log(socket).transport == "socket"
    assert parse_nccl_log(rdma + socket.replace("n1:", "n2:")).transport == "socket"


@pytest.mark.parametrize(("tag", "gpu_direct"), [("", "none"), ("/GDRDMA(PCI)/Shared", "all")])
def test_the_channels_of_rccl_end_with_communicator_and_ranks(tag: str, gpu_direct: str) -> None:
    """ROCm/rccl, src/transport/net.cc: `via NET/%s/%d%s%s%s comm %p nRanks %02d`."""
    channels = "".join(
        f"h1:100:200 [0] NCCL INFO Channel 00/0 : {ends} via NET/IB/0{tag} comm 0x55d900e4a6c0 nRanks 16\n"
        for ends in ("0[0] -> 8[0] [send]", "8[0] -> 0[0] [receive]")
    )

    network = parse_nccl_log(f"h1:100:200 [0] NCCL INFO NET/IB : Using [0]bnxt_re0:1/RoCE [RO]; OOB eth0\n{channels}")

    assert (len(network.channels), network.gpu_direct) == (2, gpu_direct)
    assert network.used_devices == {"h1": ("bnxt_re0",)}


@pytest.mark.parametrize(("tag", "gpu_direct"), [("", "none"), ("/GDRDMA", "all")])
def test_the_channels_of_nvidia_s_plugin_run_over_rdma(tag: str, gpu_direct: str) -> None:
    """NVIDIA/nccl#1814: `Channel 00/0 : 18[2] -> 34[2] [receive] via NET/IBext_v8/0`, without GPUDirect."""
    line = f"n1:982:1255 [2] NCCL INFO Channel 00/0 : 18[2] -> 34[2] [receive] via NET/IBext_v8/0{tag}\n"

    assert parse_nccl_log(line).gpu_direct == gpu_direct

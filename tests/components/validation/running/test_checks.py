"""Function checks on recorded outputs: each wrong thing is named, and only that."""

import re
from ipaddress import IPv4Address

import pytest

from components.validation.benchmarks.nccl.log import parse_nccl_log
from components.validation.benchmarks.nccl.run import faults_of_table
from components.validation.benchmarks.nccl.table import parse_nccl
from components.validation.benchmarks.plan import End
from components.validation.benchmarks.verbs.commands import Side
from components.validation.benchmarks.verbs.perftest import parse_bandwidth
from components.validation.benchmarks.verbs.plan import Stage, VerbsPlan
from components.validation.benchmarks.verbs.run import faults_of_end
from stacks.lab import Lab
from tests.components.validation.labs import plan_for
from tests.components.validation.samples import nccl, perftest
from tests.messages import states

CLIENT = End(node="gpu02", device="rxe0", interface="enp5s0", address=IPv4Address("10.10.11.12"))
SERVER = End(node="gpu01", device="rxe0", interface="enp5s0", address=IPv4Address("10.10.11.11"))


def expected(lab: Lab, end: End = CLIENT, peer: End = SERVER) -> tuple[Stage, VerbsPlan, Side]:
    verbs = plan_for(lab).verbs
    stage = verbs.stages[0].model_copy(update={"iterations": 1000})
    side = Side(
        end=end,
        peer=peer,
        connects=end is CLIENT,
        path_mtu_bytes=4096,
        gid_index=1,
        port=0,
        queue_pairs=1,
        message_bytes=65_536,
    )
    return stage, verbs, side


def test_a_recorded_run_between_two_nodes_has_no_fault(lab: Lab) -> None:
    client, server = parse_bandwidth(perftest("wbw.client")), parse_bandwidth(perftest("wbw.server"))

    assert faults_of_end(*expected(lab), client) == []
    assert faults_of_end(*expected(lab, SERVER, CLIENT), server) == []


@pytest.mark.parametrize(
    ("recorded", "printed", "said"),
    [
        ("Mtu             : 4096", "Mtu             : 1024", ("path MTU", "1024", "4096")),
        (": rxe0", ": rxe1", ("RDMA device", "rxe1", "rxe0")),
        ("GID index       : 1", "GID index       : 0", ("GID index", "0", "1")),
        ("rdma_cm QPs\t : OFF", "rdma_cm QPs\t : ON", ("rdma_cm", "True", "False")),
        ("255:255:10:10:11:11", "255:255:10:10:12:11", ("peer's GID", "10.10.12.11", "10.10.11.11")),
        ("65536      1000", "65536      999 ", ("iterations", "999", "1000")),
        ("RDMA_Write BW", "RDMA_Read BW", ("test", "RDMA_Read BW Test", "RDMA_Write BW Test")),
        ("Link type       : Ethernet", "Link type       : IB", ("link type", "IB", "Ethernet")),
    ],
)
def test_what_contradicts_the_lab_is_named_with_both_values(
    lab: Lab, recorded: str, printed: str, said: tuple[str, str, str]
) -> None:
    run = parse_bandwidth(perftest("wbw.client").replace(recorded, printed))

    [fault] = faults_of_end(*expected(lab), run)
    what, found, declared = said
    assert states(fault, "gpu02", what)
    assert re.search(rf"\b{found}\b.*\b{declared}\b", fault)


@pytest.mark.row("A 72-82")
def test_a_recorded_run_over_the_connection_manager_has_no_fault_where_it_is_asked_for(lab: Lab) -> None:
    run = parse_bandwidth(perftest("wbwR.client"))
    stage, verbs, side = expected(lab)
    longer, asked = stage.model_copy(update={"iterations": 5000}), verbs.model_copy(update={"rdma_cm": True})

    assert faults_of_end(longer, asked, side, run) == []
    [fault] = faults_of_end(longer, verbs, side, run)
    assert states(fault, "gpu02", "rdma_cm", "True", "False")


def faults_of(log: str, largest_bytes: int) -> list[str]:
    return faults_of_table(parse_nccl(log), parse_nccl_log(log), "roce", largest_bytes)


def test_a_fallback_to_sockets_is_a_fault_even_when_all_else_is_well() -> None:
    faults = faults_of(nccl("tagged_debug"), 2**31)

    assert any(states(fault, "sockets", "RDMA") for fault in faults)
    assert any(states(fault, 67108864, 2147483648) for fault in faults)


def test_wrong_elements_are_a_fault() -> None:
    text = "vm:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\n" + nccl("broadcast")

    damaged = text.replace("333.48       0", "333.48       3").replace("values : 0 OK", "values : 2 FAILED")

    assert faults_of(text, 2**26) == []
    assert states(faults_of(damaged, 2**26)[0], "3 values", "wrong")

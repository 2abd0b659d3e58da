"""What is derived from a rail."""

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stacks.lab import Lab
from stacks.rails import PodSide, Rail


@pytest.mark.parametrize(
    ("mtu_bytes", "path_mtu_bytes"),
    [(1500, 1024), (2143, 1024), (2144, 2048), (4096, 2048), (4191, 2048), (4192, 4096), (4200, 4096), (9000, 4096)],
)
def test_the_path_mtu_is_what_the_kernel_makes_of_the_ethernet_mtu(
    lab: Lab, mtu_bytes: int, path_mtu_bytes: int
) -> None:
    rail = lab.rails[0].model_copy(update={"mtu_bytes": mtu_bytes})

    assert rail.path_mtu_bytes == path_mtu_bytes


def test_only_whole_blocks_of_the_pool_are_handed_out(lab: Lab) -> None:
    """The pool begins at .10, and nv-ipam's blocks of 8 at .1, .9, .17: the one at .9 would be short by one."""
    pod = lab.rails[0].pod

    assert list(pod.outside_blocks()) == [
        (IPv4Address("10.20.111.1"), IPv4Address("10.20.111.16")),
        (IPv4Address("10.20.111.97"), IPv4Address("10.20.111.254")),
    ]
    assert pod.block_count == 10


@st.composite
def pools(draw: st.DrawFn) -> PodSide:
    """A pool anywhere in a subnet, which may begin at the network's address and end at the broadcast address."""
    subnet = IPv4Network(f"10.20.0.0/{draw(st.integers(22, 30))}")
    places = st.integers(int(subnet.network_address), int(subnet.broadcast_address))
    first, last = sorted(draw(st.tuples(places, places)))
    return PodSide(
        vlan_id=111,
        subnet=subnet,
        first_address=IPv4Address(first),
        last_address=IPv4Address(last),
        addresses_per_node=draw(st.integers(1, 40)),
    )


@given(pod=pools())
def test_a_block_is_handed_out_if_all_of_it_is_in_the_pool_and_everything_else_is_outside(pod: PodSide) -> None:
    network, broadcast, size = *map(int, (pod.subnet[0], pod.subnet[-1])), pod.addresses_per_node
    first, last = int(pod.first_address), min(int(pod.last_address), broadcast - 1)
    blocks = [range(start, start + size) for start in range(network + 1, broadcast, size)]
    whole = [block for block in blocks if first <= block[0] and block[-1] <= last]

    outside = [address for start, end in pod.outside_blocks() for address in range(int(start), int(end) + 1)]

    assert pod.block_count == len(whole)
    assert sorted([*outside, *(address for block in whole for address in block)]) == list(range(network + 1, broadcast))


def test_pods_ask_for_the_resource_of_deepops(lab: Lab) -> None:
    rails: tuple[Rail, ...] = lab.rails

    assert [rail.resource for rail in rails] == ["intel.com/sriov_111", "intel.com/sriov_112"]

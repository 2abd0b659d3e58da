"""What is derived from a rail."""

from ipaddress import IPv4Address

import pytest

from stacks.lab import Lab
from stacks.rails import Rail


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


@pytest.mark.parametrize(
    ("first", "last", "size", "count"),
    [
        ("10.20.111.1", "10.20.111.254", 8, 31),
        ("10.20.111.0", "10.20.111.255", 8, 31),
        ("10.20.111.17", "10.20.111.24", 8, 1),
        ("10.20.111.18", "10.20.111.31", 8, 0),
        ("10.20.111.250", "10.20.111.255", 8, 0),
        ("10.20.111.255", "10.20.111.255", 1, 0),
        ("10.20.111.10", "10.20.111.99", 1, 90),
    ],
)
def test_blocks_and_what_lies_outside_make_up_the_subnet(
    lab: Lab, first: str, last: str, size: int, count: int
) -> None:
    places = {"first_address": IPv4Address(first), "last_address": IPv4Address(last), "addresses_per_node": size}
    pod = lab.rails[0].pod.model_copy(update=places)

    outside = [address for start, end in pod.outside_blocks() for address in range(int(start), int(end) + 1)]
    inside = set(range(int(pod.subnet.network_address) + 1, int(pod.subnet.broadcast_address))) - set(outside)

    assert pod.block_count == count
    assert len(inside) == count * size
    assert len(set(outside)) + len(inside) == 254
    assert all(int(pod.first_address) <= address <= int(pod.last_address) for address in inside)


def test_pods_ask_for_the_resource_of_seed_a(lab: Lab) -> None:
    rails: tuple[Rail, ...] = lab.rails

    assert [rail.resource for rail in rails] == ["intel.com/sriov_111", "intel.com/sriov_112"]

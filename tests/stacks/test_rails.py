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


def test_the_pool_and_its_outside_make_up_the_subnet(lab: Lab) -> None:
    pod = lab.rails[0].pod

    assert list(pod.outside_pool()) == [
        (IPv4Address("10.20.111.1"), IPv4Address("10.20.111.9")),
        (IPv4Address("10.20.111.100"), IPv4Address("10.20.111.254")),
    ]
    assert pod.pool_size + sum(int(last) - int(first) + 1 for first, last in pod.outside_pool()) == 254


def test_pods_ask_for_the_resource_of_seed_a(lab: Lab) -> None:
    rails: tuple[Rail, ...] = lab.rails

    assert [rail.resource for rail in rails] == ["intel.com/sriov_111", "intel.com/sriov_112"]

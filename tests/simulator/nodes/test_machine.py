"""A lab's nodes as hardware: what QEMU is told, and what the simulator cannot be."""

import re
from ipaddress import IPv4Address

import pytest

from simulator.nodes.machine import machines_of
from simulator.part import SimulatorError
from stacks.lab import Lab
from stacks.simulator import Simulator
from tests.messages import stating
from tests.simulator.nodes.hardware import words


def with_node(lab: Lab, **changes: object) -> Lab:
    return lab.model_copy(update={"nodes": (lab.nodes[0].model_copy(update=changes), lab.nodes[1])})


def test_machines_are_numbered_by_their_address(lab: Lab):
    assert [(m.number, m.name, m.hostname, m.address) for m in machines_of(lab)] == [
        (1, "gpu01", "gpu01", "127.0.12.1"),
        (2, "gpu02", "gpu02", "127.0.12.2"),
    ]


def test_a_nic_sits_one_bus_behind_its_bridge_so_that_the_guest_names_it_as_the_lab_does(lab: Lab):
    command = words(machines_of(lab)[0])

    assert "pxb-pcie,id=bridge1,bus_nr=4,bus=pcie.0,addr=8" in command, "enp5s0"
    assert "pxb-pcie,id=bridge2,bus_nr=131,bus=pcie.0,addr=9" in command, "enp132s0"


def test_every_nic_of_every_node_has_its_own_hardware_address(lab: Lab):
    macs = [machine.mac(position) for machine in machines_of(lab) for position in range(3)]

    assert len(set(macs)) == 6
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs), "locally administered, not a group"


def test_the_guest_reaches_no_network_and_only_loopback_reaches_it(lab: Lab):
    command = words(machines_of(lab)[0])

    assert "restrict=on" in command
    assert "hostfwd=tcp:127.0.12.1:2222-:22" in command
    assert "mcast" not in command
    assert "inet" not in command


def test_a_guest_that_reboots_does_not_end_qemu(lab: Lab):
    assert "-no-reboot" not in words(machines_of(lab)[0])


def test_each_accelerator_gives_the_guest_the_cpu_that_it_can(lab: Lab):
    machine = machines_of(lab)[0]

    assert "-accel kvm -cpu host" in words(machine, "kvm")
    assert "-accel tcg,thread=multi" in words(machine, "tcg")


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"address": IPv4Address("127.0.12.200")}, "127.0.12.200:2222"),
        ({"address": IPv4Address("127.0.0.1")}, "127.0.0.1:2222"),
        ({"ssh_port": 22}, "127.0.12.1:22"),
    ],
)
def test_an_address_that_no_machine_has_is_refused_by_name(lab: Lab, changes: dict[str, object], refused: str):
    with pytest.raises(SimulatorError, check=stating("nodes.gpu01:", refused, "127.0.12.1", "127.0.12.64")):
        machines_of(with_node(lab, **changes))


@pytest.mark.parametrize("interface", ["ens1f0", "enp3s0", "enp249s0", "enp5s0f1"])
def test_a_nic_that_the_guest_would_name_otherwise_is_refused(lab: Lab, interface: str):
    pfs = (lab.nodes[0].pfs[0].model_copy(update={"interface": interface}),)

    with pytest.raises(SimulatorError, check=stating("nodes.gpu01.pfs:", f"{interface}:", "enp4s0", "enp248s0")):
        machines_of(with_node(lab, pfs=pfs))


def test_a_nic_that_qemu_has_not_is_refused(lab: Lab):
    pfs = (lab.nodes[0].pfs[0].model_copy(update={"driver": "mlx5_core"}),)

    with pytest.raises(SimulatorError, check=stating("enp5s0", "mlx5_core", "igb", "vmxnet3")):
        machines_of(with_node(lab, pfs=pfs))


def test_more_machines_than_fit_are_refused(lab: Lab):
    with pytest.raises(SimulatorError, check=stating("65", "at most 64")):
        machines_of(lab.model_copy(update={"nodes": (lab.nodes[0],) * 65}))


def with_real_pods(lab: Lab) -> Lab:
    return lab.model_copy(update={"simulator": Simulator(kubelets="real")})


def test_a_machine_with_real_pods_has_room_for_them_and_a_nic_for_their_network(lab: Lab):
    command = words(machines_of(with_real_pods(lab))[0])

    assert "-smp 1 -m 2048" in command
    assert "dgram,id=enp0s5," in command
    assert "tb-size=384 -cpu max,-erms,-fsrm,-la57" in command
    assert "damon_stat.enabled=0" in command
    other = words(machines_of(lab)[0])
    assert "-smp 1 -m 448" in other
    assert "tb-size=96 -cpu max " in other
    assert "enp0s5" not in other
    assert "damon" not in other


def test_a_kubelet_reaches_the_api_server_alone_and_is_reached_on_loopback_alone(lab: Lab):
    command = words(machines_of(with_real_pods(lab))[0])

    assert re.findall(r"guestfwd=tcp:(\S+?)-cmd", command) == ["192.168.1.9:80", "192.168.1.8:6443"]
    assert re.findall(r"hostfwd=tcp:(\S+?)-", command) == ["127.0.12.1:2222", "127.0.12.1:10250"]
    assert "restrict=on" in command

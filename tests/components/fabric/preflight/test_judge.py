"""The preflight: what breaks PVRDMA is a fault, what is only odd a warning, and each names host and remedy."""

import re
from dataclasses import asdict, replace

import pytest

from components.fabric.preflight.facts import FabricFacts, SwitchFacts
from components.fabric.preflight.judge import judge
from tests.components.fabric.preflight.facts import EXISTING, HOST, NIC, a_switch
from tests.messages import states


def verdict(first=HOST, second=None, *, vgpu=(), switch=None, **facts):
    hosts = {one.name: one for one in (first, second or replace(HOST, name="esx2")) if one is not None}
    found = FabricFacts(hosts=hosts, switches={}, **facts)
    return judge([switch or a_switch()], found, {"pvrdma": 1500}, frozenset(vgpu))


def test_hosts_that_are_alike_and_fit_are_passed_without_a_word():
    said = verdict(vgpu=["esx1"])

    assert (said.faults, said.warnings) == ((), ())
    assert said.hosts["esx2"] == (
        "ESXi 8.0.2 build 22380479, vmnic4 nmlx5_core 4.23.0.36 at 0000:3b:00.0 100000 Mbit/s"
    )


@pytest.mark.row("B 3", "B 59", "B 312-314", "B 386-392")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"connected": False}, ["vCenter", "fabric.switches"]),
        ({"version": "6.0.0"}, ["ESXi 6.0.0", "PVRDMA", "6.5"]),
        ({"under_profile": True}, ["host profile", "remediation", "detach"]),
        ({"nics": (replace(NIC, speed_mbit=0),)}, ["vmnic4", "roce", "link", "cable", "port type"]),
        ({"nics": (replace(NIC, rdma_device=""),)}, ["rdma_device vmrdma0", "vmnic4"]),
        ({"nics": (replace(NIC, rdma_state="down"),)}, ["vmrdma0", "vmnic4", "down", "active", "TCP", "vmkernel.log"]),
        ({"nics": (replace(NIC, rdma_state="down", speed_mbit=0),)}, ["vmnic4", "roce", "link", "cable"]),
        (
            {"nics": (replace(NIC, rdma_device="", rdma_unknown="cannot run esxcli"),)},
            ["vmrdma0", "cannot run esxcli", "fabric.user"],
        ),
        ({"nics": (replace(NIC, switch="vSwitch0"),)}, ["vmnic4", "vSwitch0", "in use"]),
        ({"neighbour_mtu_bytes": {"vmnic4": 1400}}, ["vmnic4", "MTU", 1400, 1500, "pvrdma"]),
        ({"vgpu_profiles": frozenset()}, ["vGPU", "host driver", "VIB"]),
        ({"graphics": "shared"}, ["graphics type", "shared", "sharedDirect", "Shared Direct"]),
    ],
)
def test_what_breaks_pvrdma_is_a_fault_that_names_host_and_remedy(change, said):
    found = verdict(replace(HOST, **change), vgpu=["esx1"])

    assert len(found.faults) == 1
    assert states(found.faults[0], "esx1", *said)


@pytest.mark.parametrize("state", ["", "active", "activedefer", "unknown"])
def test_an_rdma_device_that_works_or_reports_nothing_passes(state):
    assert verdict(replace(HOST, nics=(replace(NIC, rdma_state=state),))).faults == ()


@pytest.mark.row("B 15-23", "B 300", "B 316")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"build": "1"}, r"^roce: ESXi .*\b8\.0\.2 build 1 on esx2; 8\.0\.2 build 22380479 on esx1$"),
        ({"nics": (replace(NIC, driver_version="4.1"),)}, r"^roce: driver version .*\b4\.1 on esx2; 4\.23\S+ on esx1$"),
        ({"nics": (replace(NIC, driver_version=""),)}, r"^roce: driver version .*\bnone .* esx2; 4\.23\S+ on esx1$"),
        ({"nics": (replace(NIC, pci="0000:af:00.0"),)}, r"^roce: PCIe placement of the uplink .*:af:00\.0 on esx2$"),
        ({"nics": (replace(NIC, speed_mbit=25_000),)}, r"^roce: link speed .*\b25000 Mbit/s on esx2$"),
        ({"maintenance": True}, r"^esx2: .*\bmaintenance mode\b"),
        ({"ntp_servers": ()}, r"^esx2: .*\bNTP server\b.* set one"),
        ({"ntp_running": False}, r"^esx2: ntpd .*\bstart it"),
    ],
)
def test_what_is_only_odd_is_a_warning(change, said):
    found = verdict(HOST, replace(HOST, name="esx2", **change))

    assert found.faults == ()
    assert [warning for warning in found.warnings if re.search(said, warning)]


def with_gpus(*gpus, numa_node=0, **others):
    """The host with GPUs at these addresses, all at one processor; its NIC stands at the first."""
    numa_nodes = {NIC.pci: 0} | dict.fromkeys(gpus, numa_node)
    return replace(HOST, gpus=gpus, numa_nodes=numa_nodes, **others)


def test_the_gpus_of_a_host_are_listed_with_their_way_from_its_uplink():
    said = verdict(with_gpus("0000:5e:00.0", "0000:5f:00.0"))

    assert said.hosts["esx1"].endswith(" 100000 Mbit/s, GPUs: 2 on its NUMA node")
    assert said.warnings == ()


def test_an_uplink_far_from_all_gpus_is_a_warning_where_a_vgpu_machine_may_run():
    far, near = with_gpus("0000:af:00.0", numa_node=1), with_gpus("0000:5e:00.0", name="esx2")

    found = verdict(far, near, vgpu=["esx1"])

    assert found.faults == ()
    assert len(found.warnings) == 1
    assert states(found.warnings[0], "esx1", "vmnic4", "roce", "NUMA", "0000:af:00.0", "vGPU")
    assert verdict(far, near, vgpu=["esx2"]).warnings == ()


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (with_gpus("0000:af:00.0"), r"PCIe placement of the GPUs .*:5e:00\.0 on esx1; \S+:af:00\.0 on esx2$"),
        (
            with_gpus("0000:5e:00.0", numa_node=1),
            r"way from the uplink to the GPUs .*\banother .* esx2; .*\bits .* esx1$",
        ),
        (replace(HOST, gpus=()), r"PCIe placement of the GPUs .*\bnone .* esx2; \S+:5e:00\.0 on esx1$"),
    ],
)
def test_hosts_of_vgpu_machines_with_other_gpus_are_named(second, said):
    found = verdict(with_gpus("0000:5e:00.0"), replace(second, name="esx2"), vgpu=["esx1", "esx2"])

    assert found.faults == ()
    assert [one for one in found.warnings if re.search(f"^roce: {said}", one)]
    quiet = verdict(with_gpus("0000:5e:00.0"), replace(second, name="esx2"))
    assert quiet.warnings == (), "no machine of this lab asks for one"


def test_the_one_host_that_is_unlike_the_others_is_named_first():
    hosts = {name: replace(HOST, name=name) for name in ("esx1", "esx2", "esx3")}
    hosts["esx2"] = replace(hosts["esx2"], nics=(replace(NIC, driver_version="4.21"),))
    switch = a_switch(hosts=[{"name": name} for name in hosts])

    said = judge([switch], FabricFacts(hosts=hosts, switches={}), {"pvrdma": 1500}, frozenset()).warnings

    assert len(said) == 1
    assert re.search(r"^roce: driver version .*\b4\.21 on esx2; 4\.23\.0\.36 on esx1, esx3$", said[0])


def test_a_host_without_a_vgpu_machine_needs_no_vgpu_driver():
    assert verdict(replace(HOST, vgpu_profiles=frozenset(), graphics="shared"), vgpu=["esx2"]).faults == ()


def test_a_host_that_is_not_there_and_a_profile_are_faults():
    alone = FabricFacts(
        hosts={"esx1": HOST},
        switches={},
        under_configuration_profile=True,
    )

    faults = judge([a_switch()], alone, {"pvrdma": 1500}, frozenset()).faults

    assert len(faults) == 2
    assert any(states(one, "esx2", "fabric.switches") for one in faults)
    assert any(states(one, "Configuration Profiles", "Net.PVRDMAVmknic", "pvrdma") for one in faults)


@pytest.mark.parametrize(
    ("esxi", "version", "newest"),
    [
        ("6.7.0", "8.0.3", "6.6.0"),
        ("7.0.1", "7.0.2", "7.0.0"),
        ("8.0.2", "8.0.3", "8.0.0"),
        ("8.0.3", "9.0.0", "8.0.3"),
    ],
)
def test_a_host_that_is_older_than_the_switch_is_refused_with_the_version_that_it_can_join(esxi, version, newest):
    found = verdict(replace(HOST, version=esxi), switch=a_switch(hosts=[{"name": "esx1"}], version=version))

    assert len(found.faults) == 1
    assert states(found.faults[0], "esx1", f"ESXi {esxi}", "roce", version, f"set version {newest}")


@pytest.mark.parametrize(
    ("esxi", "others"),
    [("7.0.3", {"version": "7.0.3"}), ("later", {"version": "8.0.3"}), ("6.5.0", {"use": "reference"})],
)
def test_a_host_that_is_new_enough_or_unknown_passes(esxi, others):
    known = SwitchFacts(**{**asdict(EXISTING), "name": "roce"})
    facts = FabricFacts(hosts={"esx1": replace(HOST, version=esxi)}, switches={"roce": known})

    said = judge([a_switch(hosts=[{"name": "esx1"}], **others)], facts, {"pvrdma": 1500}, frozenset())

    assert said.faults == ()


def test_two_switches_that_come_to_the_same_nic_of_a_host_are_refused():
    first, second = a_switch(), a_switch(name="nvme", rail="nvme", uplink={"name": "vmnic4"}, port_group="nvme")
    facts = FabricFacts(hosts={name: replace(HOST, name=name) for name in ("esx1", "esx2")}, switches={})

    faults = judge([first, second], facts, {"pvrdma": 1500, "nvme": 1500}, frozenset()).faults

    assert len(faults) == 2
    for host, fault in zip(("esx1", "esx2"), faults, strict=True):
        assert states(fault, host, "vmnic4", "roce", "nvme", "uplink.name", "uplink.mac")

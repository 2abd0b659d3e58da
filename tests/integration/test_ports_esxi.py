"""Ways between ESXi hosts, asked of a simulated vCenter over its real API: hosts ping, and firewalls are read."""

import json
from collections.abc import Iterator

import pytest
import yaml
from pyVmomi import vim

from components.fabric.vcenter.client import RULESET, VCenter, session
from components.ports import connect
from components.ports.check import Answer, faults, table
from components.ports.esxi import asked
from stacks.lab import Lab
from stacks.read import KEY, parse_lab
from tests.conftest import ROOT
from tests.integration.conftest import require_engine
from tests.integration.vcenter import done, network_named, running
from tests.messages import lines_naming

pytestmark = pytest.mark.sim

HOSTS = H0, H1, H2 = ("DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2")
SWITCH, GROUP = "roce", "pvrdma"
MTU_BYTES = 9000


def lab_of_hosts() -> Lab:
    """The reference lab of PVRDMA with these hosts."""
    content = yaml.safe_load((ROOT / "Pulumi.lab-pvrdma.yaml").read_text())["config"][KEY]
    switch = content["fabric"]["switches"][0]
    hosts = [{"name": name, "vmkernel": {"address": f"192.168.0.{i + 230}/24"}} for i, name in enumerate(HOSTS, 1)]
    content["fabric"]["switches"] = [{**switch, "name": SWITCH, "port_group": GROUP, "hosts": hosts}]
    lab = parse_lab(json.dumps(content), "Pulumi.some.yaml")
    assert lab.fabric
    assert lab.fabric.switches[0].mtu_bytes == MTU_BYTES
    return lab


LAB = lab_of_hosts()


@pytest.fixture(scope="module")
def vcenter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VCenter]:
    """A vCenter in which the fabric of these hosts stands."""
    require_engine()
    with running(tmp_path_factory.mktemp("vcenter"), f"-hosts={len(HOSTS)}") as endpoint, session(endpoint) as found:
        make_fabric(found)
        yield found


def make_fabric(vcenter: VCenter) -> None:
    pnic = vim.dvs.HostMember.PnicBacking(pnicSpec=[vim.dvs.HostMember.PnicSpec(pnicDevice="vmnic4")])
    members = [vim.dvs.HostMember.ConfigSpec(operation="add", host=vcenter.host(name), backing=pnic) for name in HOSTS]
    config = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(name=SWITCH, maxMtu=MTU_BYTES, host=members)
    made = vcenter.host(H0).parent.parent.parent.networkFolder.CreateDVS_Task(
        vim.DistributedVirtualSwitch.CreateSpec(configSpec=config)
    )
    done(made)
    group = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(name=GROUP, type="earlyBinding", numPorts=8)
    done(made.info.result.AddDVPortgroup_Task([group]))
    port = vim.dvs.PortConnection(
        switchUuid=made.info.result.uuid, portgroupKey=network_named(vcenter.host(H0), GROUP).key
    )
    for i, name in enumerate(HOSTS, 1):
        ip = vim.host.IpConfig(dhcp=False, ipAddress=f"192.168.0.{i + 230}", subnetMask="255.255.255.0")
        spec = vim.host.VirtualNic.Specification(ip=ip, mtu=MTU_BYTES, distributedVirtualPort=port)
        host = vcenter.host(name)
        assert host.configManager.networkSystem.AddVirtualNic(portgroup="", nic=spec) == "vmk1"
        vcenter.set_ruleset(host, RULESET, enabled=True)


def between(vcenter: VCenter) -> list[Answer]:
    assert LAB.fabric
    return [one for one in asked(LAB, LAB.fabric, vcenter) if one.probe.row.target == one.probe.row.source == "esxi"]


def set_mtu(vcenter: VCenter, mtu_bytes: int) -> None:
    switch = network_named(vcenter.host(H0), SWITCH)
    spec = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(
        configVersion=switch.config.configVersion, maxMtu=mtu_bytes
    )
    done(switch.ReconfigureDvs_Task(spec))


def set_adapter_mtu(vcenter: VCenter, name: str, mtu_bytes: int) -> None:
    spec = vim.host.VirtualNic.Specification(mtu=mtu_bytes)
    vcenter.host(name).configManager.networkSystem.UpdateVirtualNic("vmk1", spec)


def test_every_host_pings_every_other_at_full_size_and_says_that_it_is_no_tcp(vcenter: VCenter) -> None:
    answers = between(vcenter)

    assert {(one.probe.source, one.probe.target) for one in answers} == {(a, b) for a in HOSTS for b in HOSTS if a != b}
    assert {one.said for one in answers} == {connect.OPEN}
    assert faults(answers) == []
    first = next(one for one in answers if (one.probe.source, one.probe.target) == (H0, H1))
    assert (first.probe.row.protocol, first.probe.ports) == ("tcp", "28250-28761")
    assert lines_naming(first.how, RULESET, "ping", "8972", "TCP")
    assert lines_naming(table(answers, []), f"{H0} -> {H1}", first.how)


def test_a_host_is_connected_and_that_is_what_its_vcenter_needs(vcenter: VCenter) -> None:
    assert LAB.fabric
    found = [
        one for one in asked(LAB, LAB.fabric, vcenter) if "vcenter" in (one.probe.row.source, one.probe.row.target)
    ]

    assert {(one.probe.source, one.probe.target, one.probe.row.protocol, one.probe.port) for one in found} == {
        *(("the vCenter", name, "tcp", 443) for name in HOSTS),
        *((name, "the vCenter", "udp", 902) for name in HOSTS),
    }
    assert faults(found) == []


def test_a_switch_of_a_smaller_mtu_is_felt_between_all_hosts(vcenter: VCenter) -> None:
    set_mtu(vcenter, 1600)
    try:
        lines = faults(between(vcenter))
    finally:
        set_mtu(vcenter, MTU_BYTES)

    assert len(lines) == 3, "each adapter, from both others"
    assert all(lines_naming(line, "ping", "8972", "vmk1") and "192.168.0.23" in line for line in lines)
    assert faults(between(vcenter)) == []


def test_an_adapter_of_a_smaller_mtu_is_felt_in_both_directions(vcenter: VCenter) -> None:
    set_adapter_mtu(vcenter, H1, 1500)
    try:
        said = {(one.probe.source, one.probe.target): one.said for one in between(vcenter)}
    finally:
        set_adapter_mtu(vcenter, H1, MTU_BYTES)

    assert said[H1, H0] == said[H1, H2]
    assert lines_naming(said[H1, H0], "MTU", "vmk1", "9000")
    assert lines_naming(said[H0, H1], "ping", "8972", "192.168.0.232")
    assert said[H0, H2] == connect.OPEN


def test_a_closed_ruleset_is_named_with_its_host(vcenter: VCenter) -> None:
    vcenter.set_ruleset(vcenter.host(H2), RULESET, enabled=False)
    try:
        said = {(one.probe.source, one.probe.target): one.said for one in between(vcenter)}
    finally:
        vcenter.set_ruleset(vcenter.host(H2), RULESET, enabled=True)

    closed = {ends for ends, word in said.items() if lines_naming(word, H2, RULESET, "closed")}
    assert closed == {ends for ends in said if H2 in ends}


def test_a_host_without_the_adapter_is_named_and_the_others_are_proven(vcenter: VCenter) -> None:
    network = vcenter.host(H1).configManager.networkSystem
    spec = next(one.spec for one in vcenter.host(H1).config.network.vnic if one.device == "vmk1")
    network.RemoveVirtualNic("vmk1")
    try:
        said = {(one.probe.source, one.probe.target): one.said for one in between(vcenter)}
    finally:
        network.AddVirtualNic(portgroup="", nic=spec)

    assert said[H0, H1] == said[H1, H0]
    assert lines_naming(said[H0, H1], H1, "no vmkernel adapter", "192.168.0.232")
    assert said[H0, H2] == connect.OPEN

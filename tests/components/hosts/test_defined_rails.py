"""A rail of bare metal that a network daemon sets up itself is refused by name, with what to do about it."""

from pathlib import Path

import pytest

from components.hosts.program.places import BASELINE_FILE, UNIT_FILE
from tests.components.hosts.host_runs import made, run
from tests.components.hosts.kernel import FakeHost

MAC = "50:6b:4b:2a:11:00"
MAAS = f"""\
# This file is generated from information provided by the datasource.  Changes
# to it will not persist across an instance reboot.
network:
    ethernets:
        eno1:
            addresses:
            - 192.168.1.11/24
            match:
                macaddress: 0c:42:a1:00:00:01
            mtu: 1500
            set-name: eno1
        ens5:
            match:
                macaddress: {MAC}
            mtu: 1500
            optional: true
            set-name: ens5
    version: 2
"""
"""/etc/netplan/50-cloud-init.yaml as curtin and cloud-init write it for MAAS: every NIC, by MAC (cloud-init's
tests/unittests/distros/test_netconfig.py, net/netplan.py)."""
KEYFILE = """\
[connection]
id=enp5s0
uuid=5fb06bd0-0bb0-7ffb-45f1-d6edd65f3e03
type=ethernet
autoconnect={}
interface-name=enp5s0

[ipv4]
method=auto
"""
"""nm-settings-keyfile(5)."""
RUN_PROFILES = "/run/NetworkManager/system-connections"
AUTOMATIC = """\
[connection]
id=Wired connection 2
uuid=d7860381-2c7b-3e49-8798-33c449d23093
type=ethernet
autoconnect-priority=-999
interface-name=enp5s0

[ipv4]
method=auto

[.nmmeta]
nm-generated=true
"""
"""Recorded on a node of the simulator (NetworkManager 1.42.4), shortened."""
IFCFG = "TYPE=Ethernet\nBOOTPROTO=dhcp\nNAME=enp5s0\nDEVICE=enp5s0\nONBOOT={}\n"
"""As anaconda writes it for each NIC: ONBOOT=no where nobody switched it on (nm-settings-ifcfg-rh(5))."""
NETWORKD = """\
# This is private data. Do not parse.
ADMIN_STATE={}
OPER_STATE=routable
REQUIRED_FOR_ONLINE=yes
NETWORK_FILE=/etc/systemd/network/20-wired.network
DNS=
"""
"""/run/systemd/netif/links/3: systemd, src/network/networkd-state-file.c (link_save)."""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = FakeHost(tmp_path)
    machine.file("/sys/class/net/enp5s0/address", MAC)
    machine.file("/sys/class/net/enp5s0/ifindex", "3")
    return machine


@pytest.mark.parametrize(
    ("place", "text", "remedy"),
    [
        ("/etc/netplan/50-cloud-init.yaml", MAAS, "then netplan try"),
        ("/etc/NetworkManager/system-connections/enp5s0.nmconnection", KEYFILE.format("true"), "autoconnect no"),
        (f"{RUN_PROFILES}/enp5s0.nmconnection", KEYFILE.format("true"), "autoconnect no"),
        ("/etc/sysconfig/network-scripts/ifcfg-enp5s0", IFCFG.format("yes"), "autoconnect no"),
        (
            "/run/systemd/netif/links/3",
            NETWORKD.format("configured"),
            "networkctl reconfigure enp5s0",
        ),
    ],
    ids=["netplan", "NetworkManager", "NetworkManager, until the next boot", "network-scripts", "networkd"],
)
def test_a_rail_that_a_daemon_defines_is_refused_untouched(machine, document, place, text, remedy):
    machine.file(place, text)

    result = run("apply", machine, document)

    assert result["failed"]["step"] == "link"
    file = "/etc/systemd/network/20-wired.network" if "netif" in place else place
    assert result["failed"]["reason"].startswith(f"{file} defines enp5s0")
    assert remedy in result["failed"]["hint"]
    assert (result["changed"], machine.written, machine.exists(BASELINE_FILE)) == ([], [], False)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("/etc/netplan/50-cloud-init.yaml", MAAS.replace(MAC, "0c:42:a1:00:00:02")),
        ("/etc/NetworkManager/system-connections/enp5s0.nmconnection", KEYFILE.format("false")),
        (f"{RUN_PROFILES}/Wired connection 2.nmconnection", AUTOMATIC),
        (f"{RUN_PROFILES}/netplan-enp5s0.nmconnection", KEYFILE.format("true")),
        ("/etc/sysconfig/network-scripts/ifcfg-enp5s0", IFCFG.format("no")),
        ("/run/systemd/netif/links/3", NETWORKD.format("unmanaged")),
    ],
    ids=["netplan", "NetworkManager", "automatic", "rendered by netplan", "network-scripts", "networkd"],
)
def test_a_definition_of_another_nic_or_one_that_never_starts_is_no_reason(machine, document, place, text):
    machine.file(place, text)

    made(machine, document)


def test_a_definition_that_comes_later_does_not_keep_a_host_from_booting(machine, document):
    made(machine, document)
    machine.file("/etc/netplan/50-cloud-init.yaml", MAAS)

    assert run("boot", machine, document)["failed"] is None
    assert run("apply", machine, document)["failed"]["step"] == "link"


def test_a_guests_rail_is_the_business_of_its_own_tool(machine, document):
    """Its clone's file is asked what it says: test_guest_others.py."""
    machine.file("/etc/netplan/50-cloud-init.yaml", MAAS)
    for bus in ("0000:05", "0000:84"):
        driver = machine.folder / f"sys/devices/{bus}:00.0/driver"
        driver.unlink()
        driver.symlink_to(machine.folder / "sys/bus/pci/drivers/vmxnet3")
    pfs = [{**pf, "driver": "vmxnet3", "vfs": 0} for pf in document["pfs"]]

    failed = run("apply", machine, {**document, "pfs": pfs})["failed"]

    assert failed is None or "defines" not in failed["reason"]


def test_the_unit_runs_after_the_daemons_have_started(machine, document):
    made(machine, document)

    assert (
        "network.target"
        in next(line for line in machine.read(UNIT_FILE).splitlines() if line.startswith("After=")).split()
    )

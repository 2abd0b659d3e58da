"""A NIC is its PCI address and MAC; a name that a driver has changed comes back, and is pinned before a driver goes.

What renames: systemd.net-naming-scheme(7) (`np0` where the driver reports a port), openshift-docs#60041,
harvester#9877; NVIDIA answers it by CREATE_IFNAMES_UDEV of doca-driver-build. `altnames` and `permaddr` are as
iproute2's ip/ipaddress.c prints them. That udev keeps the names by our .link files with a new mlx5_core is unproven.
"""

from typing import Any

import pytest

from components.hosts.program.places import LINK_FILE, NICS_FILE
from tests.components.hosts.host_runs import differing, made, run
from tests.components.hosts.kernel import FakeHost, done, link
from tests.components.hosts.vendor_lab import WANTED, applied, asks
from tests.messages import states


def rebooted_with_other_names(machine: FakeHost, **names: str) -> None:
    """Links down, no VFs, and PFs under other names; udev keeps the old one as an altname."""
    for old, new in names.items():
        machine.write(f"/sys/class/net/{old}/device/sriov_numvfs", "0")
        machine.links[old].update(flags=[], mtu=1500, addr_info=[])
        machine.rename(old, new)


@pytest.mark.parametrize("verb", ["boot", "apply"])
@pytest.mark.parametrize("altnames", [[], ["enp5s0"]])
def test_a_pf_that_a_new_driver_renamed_gets_its_name_and_all_its_settings_back(machine, document, verb, altnames):
    made(machine, document)
    rebooted_with_other_names(machine, enp5s0="enp5s0np0")
    machine.links["enp5s0np0"]["altnames"] = [*altnames]

    result = run(verb, machine, document)

    assert result["failed"] is None
    assert any(states(line, "enp5s0np0", "enp5s0") for line in result["changed"])
    run("confirm", machine, document)
    assert differing(machine, document) == {}


def test_names_that_two_nics_have_exchanged_are_refused_by_slot_and_nothing_is_set(machine, document):
    made(machine, document)
    rebooted_with_other_names(machine, enp5s0="x", enp132s0="enp5s0")
    machine.rename("x", "enp132s0")
    machine.written.clear()

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp5s0", "0000:05:00.0", "0000:84:00.0")
    assert "Path=pci-0000:" in failed["hint"]
    assert machine.written == []


def test_a_renamed_pf_that_carries_the_host_is_not_touched(machine, document):
    made(machine, document)
    rebooted_with_other_names(machine, enp5s0="enp5s0np0")
    machine.answers["ip -j -4 route show table all"] = done('[{"dst": "default", "dev": "enp5s0np0"}]')

    assert states(run("apply", machine, document)["failed"]["reason"], "enp5s0np0", "default route")
    assert "enp5s0np0" in machine.links


def test_a_card_in_another_slot_under_the_labs_name_is_the_labs_nic_from_then_on(machine, document):
    made(machine, document)
    moved = machine.folder / "sys/devices/0000:06:00.0"
    (machine.folder / "sys/devices/0000:05:00.0").rename(moved)
    device = machine.folder / "sys/class/net/enp5s0/device"
    device.unlink()
    device.symlink_to(moved)

    run("apply", machine, {**document, "only": ["unit"]})

    assert '"enp5s0": ["0000:06:00.0"' in machine.read(NICS_FILE)


def test_the_mac_that_is_written_down_is_the_cards_own(machine, document):
    machine.links["enp5s0"].update(address="02:00:00:00:00:01", permaddr="50:6b:4b:2a:11:00")

    made(machine, document)

    assert "50:6b:4b:2a:11:00" in machine.read(NICS_FILE)


def test_an_altname_in_the_lab_file_is_refused_with_the_name_to_write(machine, document):
    machine.rename("enp5s0", "eth2")
    machine.links["eth2"]["altnames"] = ["enp5s0"]

    failed = run("apply", machine, document)["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp5s0", "altname", "eth2")
    assert states(failed["hint"], "interface: eth2")


def test_a_management_interface_that_the_lab_knows_by_an_altname_is_safe_too(machine, document):
    machine.links["enp5s0"]["altnames"] = ["ens1f0np0"]

    failed = run("apply", machine, {**document, "management_interface": "ens1f0np0"})["failed"]

    assert failed["step"] == "link"
    assert states(failed["reason"], "enp5s0", "refused", "management interface")


def test_before_a_driver_is_replaced_every_name_on_it_is_pinned_the_management_ports_first_of_all(host, lab, doca):
    host.links["ens1np0"] = link(["192.168.7.11/24"])
    host.symlink("/sys/class/net/ens1np0/device", host.folder / "sys/devices/0000:c1:00.0")
    host.symlink("/sys/devices/0000:c1:00.0/driver", host.folder / "sys/bus/pci/drivers/mlx5_core")
    pinned: list[bool] = []
    offered = host.run

    def before_packages(*words: str, **options: Any) -> Any:
        if "install" in words and "doca-ofed" in words and "--simulate" not in words and "--assumeno" not in words:
            pinned.append(host.exists(LINK_FILE.format("ens1np0")))
        return offered(*words, **options)

    host.run = before_packages

    applied(host, asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca}))

    assert pinned == [True]
    assert "Path=pci-0000:c1:00.0\nDriver=mlx5_core\n\n[Link]\nName=ens1np0\n" in host.read(LINK_FILE.format("ens1np0"))
    assert {name for name in ("enp5s0", "enp132s0") if host.exists(LINK_FILE.format(name))} == {"enp5s0", "enp132s0"}
    assert not host.exists(LINK_FILE.format("enp0s3")), "another driver's NIC keeps its name by itself"


def test_an_undo_leaves_the_pinned_names_since_the_driver_stays(host, lab, doca):
    document = asks(lab, driver={"source": "doca_ofed", "version": WANTED, "download": doca})
    applied(host, document)

    assert run("undo", host, document)["failed"] is None

    assert host.exists(LINK_FILE.format("enp5s0"))

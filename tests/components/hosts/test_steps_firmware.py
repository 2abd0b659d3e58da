"""Firmware settings of NICs: set, waited for, and left alone."""

import json

from components.hosts.facts import KEPT_FACTS
from components.validation.fingerprint import FACTS
from tests.components.hosts.test_host import run
from tests.components.hosts.vendor_lab import applied, asks, commands_with, differing, unchanged_by_a_second_run


def test_firmware_settings_are_set_and_hold_after_a_reboot(host, lab):
    document = asks(lab, firmware={"manage": True})
    assert differing(host, document)["enp5s0.firmware"] == (
        "SRIOV_EN=0 NUM_OF_VFS=4 LINK_TYPE=1, from the next boot on SRIOV_EN=0 NUM_OF_VFS=8 LINK_TYPE=1"
    )

    result = applied(host, document)

    assert result["failed"] is None
    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == [
        f"mstconfig -d {device} -y set SRIOV_EN=1 NUM_OF_VFS=16 LINK_TYPE_P1=2"
        for device in ("0000:84:00.0", "0000:05:00.0")
    ]
    host.commands.clear()
    run("apply", host, document)
    assert commands_with(host, " -y set ") == [], "it is set already and only waits"
    host.reboot()
    assert differing(host, document) == {}
    unchanged_by_a_second_run(host, document)


def test_a_higher_ceiling_and_a_card_that_knows_only_ethernet_are_fine(host, lab):
    for settings in host.firmware.values():
        settings.update(SRIOV_EN=(1, 1), NUM_OF_VFS=(64, 64))
        del settings["LINK_TYPE_P1"]

    assert differing(host, asks(lab, firmware={"manage": True})).keys() & {"enp5s0.firmware"} == set()


def test_the_firmwares_version_is_told_since_it_makes_a_measurement_obsolete(host, lab):
    facts = run("probe", host, asks(lab, firmware={"manage": True}))["facts"]

    assert facts["firmware"] == {"enp5s0": "16.35.4030", "enp132s0": "16.35.4030"}
    assert {"driver", "firmware"} <= set(KEPT_FACTS) & set(FACTS)


def test_without_leave_to_reboot_firmware_stays(host, lab):
    result = run("apply", host, asks(lab, allow_reboot=False, firmware={"manage": True}))

    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == []


def test_a_setting_that_the_firmware_does_not_take_is_told(host, lab):
    host.frozen_firmware = True

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["step"] == "firmware"
    assert "SRIOV_EN=1 NUM_OF_VFS=16 LINK_TYPE_P1=2 was not taken" in failed["reason"]


def test_a_host_without_the_tool_is_told_which_package_has_it(host, lab):
    host.fw_tool = ""

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["reason"] == "neither mstconfig nor mlxconfig is installed"
    assert "mstflint" in failed["hint"]


def test_undo_leaves_firmware_and_the_baseline_has_what_was_before(host, lab):
    document = asks(lab, firmware={"manage": True})
    applied(host, document)
    baseline = json.loads(host.read("/var/lib/rocelab/baseline.json"))

    assert baseline["pfs"]["enp5s0"]["firmware"] == {"LINK_TYPE_P1": 1, "NUM_OF_VFS": 4, "SRIOV_EN": 0}
    assert run("undo", host, document)["failed"] is None
    assert host.firmware["0000:05:00.0"]["SRIOV_EN"] == (0, 1)

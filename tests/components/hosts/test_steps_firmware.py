"""Firmware settings of NICs: set, waited for, and left alone."""

import json

import pytest

from components.hosts.program.machine import Done
from components.hosts.program.steps.firmware_version import FirmwareVersion
from components.hosts.records import KEPT_FACTS
from components.validation.stale import FACTS
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.vendor_lab import applied, asks, commands_with, unchanged_by_a_second_run
from tests.messages import states


def test_firmware_settings_are_set_and_hold_after_a_reboot(host, lab):
    document = asks(lab, firmware={"manage": True})
    assert states(differing(host, document)["enp5s0.firmware"], "NUM_OF_VFS=4", "NUM_OF_VFS=8", "boot")

    result = applied(host, document)

    assert result["failed"] is None
    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == [
        f"mstconfig -d {device} -y set SRIOV_EN=1 NUM_OF_VFS=16" for device in ("0000:84:00.0", "0000:05:00.0")
    ]
    host.commands.clear()
    run("apply", host, document)
    assert commands_with(host, " -y set ") == [], "it is set already and only waits"
    host.reboot()
    assert differing(host, document) == {}
    unchanged_by_a_second_run(host, document)


def test_a_higher_ceiling_is_fine(host, lab):
    for settings in host.firmware.values():
        settings.update(SRIOV_EN=(1, 1), NUM_OF_VFS=(64, 64))

    assert differing(host, asks(lab, firmware={"manage": True})).keys() & {"enp5s0.firmware"} == set()


def test_the_firmwares_version_is_reported_since_it_makes_a_measurement_obsolete(host, lab):
    facts = run("probe", host, asks(lab))["facts"]

    assert {pf: nic["firmware"] for pf, nic in facts["nics"].items()} == {
        "enp5s0": "16.35.4030",
        "enp132s0": "16.35.4030",
    }
    assert {"driver", "nics"} <= set(KEPT_FACTS) & set(FACTS)


def test_the_version_that_the_lab_names_is_compared_and_nothing_is_done_for_it(host, lab):
    document = asks(lab, firmware={"version": "16.35.4030"})

    assert applied(host, document)["failed"] is None
    assert differing(host, document) == {}
    assert commands_with(host, "mstconfig", "mstflint") == [], "the kernel knows the version"
    unchanged_by_a_second_run(host, document)


def test_another_version_is_refused_with_both_numbers_before_anything_changes(host, lab):
    result = run("apply", host, asks(lab, firmware={"manage": True, "version": "16.36.1010"}))

    assert result["failed"]["step"] == "firmware_version"
    assert states(result["failed"]["reason"], "enp132s0", "16.35.4030", "16.36.1010")
    assert states(result["failed"]["hint"], "mstflint -d 0000:84:00.0", "burn")
    assert states(result["failed"]["hint"], "firmware.version", "16.35.4030")
    assert (result["changed"], commands_with(host, " -y set ", "burn")) == ([], [])
    assert not host.exists("/var/lib/rocelab/baseline.json"), "nothing was touched that could be given back"


def test_a_version_that_waits_in_flash_for_a_cold_boot_is_reported(host, lab, monkeypatch):
    answers(host, monkeypatch, "mstflint", "Image type:            FS4\nFW Version:            16.36.1010\n")

    failed = run("apply", host, asks(lab, firmware={"version": "16.36.1010"}))["failed"]

    assert failed["step"] == "firmware_version"
    assert states(failed["reason"], "flash")


def test_a_card_whose_rdma_device_is_not_there_is_asked_by_ethtool(host, lab, monkeypatch):
    for path in host.folder.glob("sys/class/infiniband/*/fw_ver"):
        path.unlink()
    answers(host, monkeypatch, "ethtool", "driver: mlx5_core\nfirmware-version: 16.35.4030 (MT_0000000008)\n")

    assert {found for _, found in versions_seen(host, lab)} == {"16.35.4030"}


@pytest.mark.parametrize("printed", ["", "driver: mlx5_core\nfirmware-version: \nexpansion-rom-version: 1\n",
                                     "firmware-version: N/A\n"])  # fmt: skip
def test_an_unreported_version_is_unknown_and_does_not_count_as_the_right_one(printed, host, lab, monkeypatch):
    for path in host.folder.glob("sys/class/infiniband/*/fw_ver"):
        path.unlink()
    answers(host, monkeypatch, "ethtool", printed)

    assert versions_seen(host, lab) == [
        ("enp132s0.firmware_version", "unknown"),
        ("enp5s0.firmware_version", "unknown"),
    ]
    failed = run("apply", host, asks(lab, firmware={"version": "16.35.4030"}))["failed"]
    assert failed["step"] == "firmware_version"
    assert states(failed["reason"], "enp132s0", "firmware.version", "16.35.4030")
    assert states(failed["hint"], "ethtool")


def test_each_rail_may_have_cards_of_its_own(lab):
    document = asks(lab, firmware={"version": "16.35.4030", "version_by_rail": {lab.rails[1].name: "20.38.1900"}})

    assert document["firmware_versions"] == {"enp5s0": "16.35.4030", "enp132s0": "20.38.1900"}


def test_the_unit_at_boot_does_not_ask_for_versions():
    """A host that was updated by hand must come back with its VFs."""
    assert not FirmwareVersion.at_boot


def versions_seen(host, lab):
    fields = run("probe", host, asks(lab, firmware={"version": "16.35.4030"}))["fields"]
    return sorted((field, found) for field, found in fields.items() if field.endswith(".firmware_version"))


def answers(host, monkeypatch, program, printed):
    """Has a program print something."""
    others = host.run

    def run(*words, **how):
        return Done(0, printed, "") if words[0] == program else others(*words, **how)

    monkeypatch.setattr(host, "run", run)


def test_a_setting_is_staged_for_a_reboot_by_hand(host, lab):
    document = asks(lab, reboot="stage", firmware={"manage": True})

    result = applied(host, document)

    assert result["failed"] is None
    assert len(result["needs_reboot"]) == len(commands_with(host, " -y set ")) == 2
    host.reboot()
    assert differing(host, document) == {}


def test_a_setting_that_a_reboot_leaves_pending_fails_and_waits_for_no_other_reboot(host, lab):
    """A BlueField-2 in a boot loop, sriov-network-operator#449: after each reboot the present value is the old one."""
    document = asks(lab, firmware={"manage": True})
    assert len(applied(host, document)["needs_reboot"]) == 2
    pending = {device: dict(settings) for device, settings in host.firmware.items()}
    host.reboot()
    host.firmware.update(pending)

    for _ in range(2):
        result = run("apply", host, document)
        assert result["failed"]["step"] == "firmware"
        assert states(result["failed"]["reason"], "enp132s0.firmware", "pending after a reboot")
        assert states(result["failed"]["hint"], "mlxfwreset -d 0000:84:00.0 -y reset", "power cycle")
        assert result["needs_reboot"] == []
    assert states(differing(host, document)["enp5s0.firmware"], "power cycle")
    host.reboot()
    assert differing(host, document) == {}


def test_a_value_set_by_another_tool_waits_for_its_first_reboot(host, lab):
    for settings in host.firmware.values():
        settings.update(SRIOV_EN=(0, 1), NUM_OF_VFS=(4, 16))
    document = asks(lab, reboot="never", firmware={"manage": True})

    result = applied(host, document)

    assert result["failed"] is None
    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == []
    host.reboot()
    assert differing(host, document) == {}


def test_firmware_stays_where_no_reboot_may_follow(host, lab):
    result = run("apply", host, asks(lab, reboot="never", firmware={"manage": True}))

    assert len(result["needs_reboot"]) == 2
    assert commands_with(host, " -y set ") == []


def test_a_setting_that_the_firmware_does_not_accept_is_reported(host, lab):
    host.frozen_firmware = True

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["step"] == "firmware"
    assert states(failed["reason"], "SRIOV_EN=1", "NUM_OF_VFS=16")


def test_a_host_without_the_tool_fails_with_the_name_of_the_package(host, lab):
    host.fw_tool = ""

    failed = run("apply", host, asks(lab, firmware={"manage": True}))["failed"]

    assert failed["step"] == "firmware"
    assert states(failed["reason"], "mstconfig", "mlxconfig")
    assert "mstflint" in failed["hint"]


def test_undo_leaves_firmware_and_the_baseline_has_what_was_before(host, lab):
    document = asks(lab, firmware={"manage": True})
    applied(host, document)
    baseline = json.loads(host.read("/var/lib/rocelab/baseline.json"))

    assert baseline["pfs"]["enp5s0"]["firmware"] == {"NUM_OF_VFS": 4, "SRIOV_EN": 0}
    assert run("undo", host, document)["failed"] is None
    assert host.firmware["0000:05:00.0"]["SRIOV_EN"] == (0, 1)

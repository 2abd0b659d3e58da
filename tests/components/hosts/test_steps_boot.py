"""Kernel arguments, and what a host must have before anything on it changes."""

import json
import shutil
import subprocess

import pytest

from components.hosts.calls import Report
from components.hosts.program.machine import Done
from components.hosts.program.modules_built import SECURE_BOOT
from components.hosts.program.steps import kernel_arguments
from components.hosts.records import HostRecord, target_fields
from components.hosts.repair import result_of
from components.ssh.connection import Endpoint
from stacks.hosts import HostPolicy
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.system_kernel import SystemHost
from tests.components.hosts.system_lab import ALL, document_of, files, made
from tests.conftest import ROOT
from tests.messages import states


def test_kernel_arguments_wait_for_a_reboot_and_then_hold(lab, server):
    document = document_of(lab, {"kernel_arguments": ALL["kernel_arguments"]})

    result = run("apply", server, document)

    assert result["failed"] is None
    words = "iommu=pt pci=realloc processor.max_cstate=1"
    assert len(result["needs_reboot"]) == 1
    assert states(result["needs_reboot"][0], "kernel_arguments", words)
    again = run("apply", server, document)
    assert again["needs_reboot"] == result["needs_reboot"]
    assert len([line for line in server.commands if line.startswith(("update-grub", "grubby --update"))]) == 1
    server.reboot()
    assert "kernel_arguments" not in differing(server, document)


def test_kernel_arguments_are_staged_for_a_reboot_by_hand(lab, server):
    document = document_of(lab, {"kernel_arguments": ALL["kernel_arguments"]}, reboot="stage")

    result = run("apply", server, document)

    assert (result["failed"], len(result["needs_reboot"])) == (None, 1)
    server.reboot()
    assert "kernel_arguments" not in differing(server, document)


def test_without_leave_to_reboot_the_boot_loader_stays_as_it_is(lab, server):
    document = document_of(lab, {"kernel_arguments": ALL["kernel_arguments"]}, reboot="never")
    before = files(server)

    result = run("apply", server, document)

    assert result["failed"] is None
    assert states(result["needs_reboot"][0], "hosts.reboot is never")
    assert not server.exists(kernel_arguments.GRUB_FILE)
    assert not [line for line in server.commands if "grub" in line and "info" not in line]
    assert {key for key in files(server) if "rocelab" not in key} == set(before)


def test_an_iommu_that_is_off_stays_off(lab, server):
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto"}})
    made(server, document)

    assert target_fields(document)["kernel_arguments"] == ["iommu=pt"]
    assert server.read("/proc/cmdline").split()[-1] == "iommu=pt"
    assert "intel_iommu" not in server.read("/proc/cmdline")


def test_an_iommu_that_the_lab_switches_on_comes_with_its_cost(lab, server):
    document = document_of(lab, {"kernel_arguments": {"extra": ["intel_iommu=on", "iommu=pt"]}})

    [waiting] = run("apply", server, document)["needs_reboot"]

    assert states(waiting, "intel_iommu=on", "ACS", "GPUDirect")


def test_a_word_that_the_machine_has_already_needs_nothing(lab, debian):
    debian.file("/proc/cmdline", "root=UUID=1 ro iommu=pt pci=noaer,realloc\n")
    debian.file("/boot/grub/grub.cfg", "\tlinux /boot/vmlinuz ro iommu=pt pci=noaer,realloc\n")
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto", "pci_realloc": True}})

    assert run("probe", debian, document)["fields"]["kernel_arguments"] == ["iommu=pt", "pci=realloc"]
    made(debian, document)
    assert not debian.exists(kernel_arguments.GRUB_FILE)


def test_of_the_iommus_words_the_last_one_counts(lab, debian):
    debian.file("/proc/cmdline", "ro iommu=pt quiet iommu=nopt\n")
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto"}})

    assert run("probe", debian, document)["fields"]["kernel_arguments"] == ["iommu=pt missing"]


def test_words_that_will_not_survive_the_next_boot_are_shown_and_written_without_a_reboot(lab, server):
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto"}}, reboot="never")
    server.file("/proc/cmdline", "ro iommu=pt\n")

    [waiting] = run("probe", server, document)["fields"]["kernel_arguments"]
    assert states(waiting, "iommu=pt", "boot")
    result = run("apply", server, document)
    assert (result["failed"], result["needs_reboot"]) == (None, [])
    assert run("probe", server, document)["fields"]["kernel_arguments"] == ["iommu=pt"]


def test_a_machine_without_grub_is_refused_with_the_reason_before_anything_changes(lab, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    server = SystemHost(tmp_path)
    before = files(server)

    failed = run("apply", server, document_of(lab, ALL))["failed"]

    assert failed["step"] == "kernel_arguments"
    assert states(failed["reason"], "iommu=pt", "pci=realloc", "processor.max_cstate=1", "GRUB")
    assert states(failed["hint"], "system.kernel_arguments")
    assert files(server) == before


def test_our_grub_drop_in_is_shell_that_shellcheck_accepts(tmp_path):
    checker = shutil.which("shellcheck", path=str(ROOT / ".venv/bin"))
    assert checker, "make setup installs it"
    drop_in = tmp_path / "99-rocelab.cfg"
    drop_in.write_text(kernel_arguments.grub_text(["iommu=pt", "pci=realloc"]))

    # SC2034: the variable is used by the script that sources this file
    subprocess.run([checker, "-s", "sh", "-e", "SC2034", drop_in], check=True)


def test_a_host_whose_vfs_come_after_its_reboot_needs_one_and_has_not_failed(lab, server):
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto"}}, reboot="never")
    asked = HostRecord(
        state="active",
        endpoint=Endpoint(address="127.0.12.1", port=22, user="nvidia", host_key="k"),
        fields=target_fields(document),
        document=document,
    )
    run("apply", server, document)
    seen = run("confirm", server, document)
    report = Report(**{key: value for key, value in seen.items() if key != "schema"})

    result = result_of("gpu01", asked, report, None, HostPolicy())

    assert report.fields["enp5s0.vfs"] == 0
    assert result["status"] == "needs_reboot"
    assert states(result["reason"], "iommu=pt")


@pytest.mark.row("A 68a")
def test_too_few_vfs_are_refused_before_anything_changes_with_the_hint_for_their_cause(lab, debian):
    before = files(debian)
    document = document_of(lab, {"hostname": True})
    for offered, hint in (("0", "turn it on in the BIOS"), ("2", "raise NUM_OF_VFS")):
        debian.file("/sys/devices/0000:05:00.0/sriov_totalvfs", offered)
        failed = run("apply", debian, document)["failed"]
        assert failed["step"] == "preflight"
        assert states(failed["reason"], "enp5s0", offered, "4")
        assert hint in failed["hint"]
    assert files(debian) == before


def test_too_few_vfs_are_no_reason_to_stop_when_the_firmware_is_going_to_be_set(lab, debian):
    debian.file("/sys/devices/0000:05:00.0/sriov_totalvfs", "2")

    failed = run("apply", debian, {**document_of(lab, {"hostname": True}), "firmware": {}, "pfs": []})["failed"]

    assert failed is None
    assert debian.read("/etc/hostname") == "gpu01"


def test_secure_boot_forbids_a_driver_that_is_built_here_unless_its_key_is_enrolled(lab, debian, monkeypatch):
    driver = {"source": "doca_ofed", "version": "25.07", "in_use": True}
    document = {**document_of(lab, {}), "driver": driver}
    (debian.folder / SECURE_BOOT[1:]).parent.mkdir(parents=True)
    (debian.folder / SECURE_BOOT[1:]).write_bytes(b"\x06\0\0\0\x01")

    refused = run("apply", debian, document)["failed"]

    assert refused["step"] == "preflight"
    assert states(refused["reason"], "Secure Boot")
    assert "mokutil --import" in refused["hint"]
    assert run("probe", debian, document_of(lab, {}))["facts"]["secure_boot"] == "on"
    assert run("apply", debian, document_of(lab, {}))["failed"] is None, "no driver is built, so nobody cares"


def test_a_pcie_link_that_trained_low_is_a_warning_with_both_figures(lab, debian):
    device = "/sys/devices/0000:05:00.0"
    for name, value in {"current_link_speed": "8.0 GT/s PCIe", "current_link_width": "8",
                        "max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16"}.items():  # fmt: skip
        debian.file(f"{device}/{name}", value + "\n")

    facts = run("probe", debian, document_of(lab, {}))["facts"]

    assert facts["pcie"] == {"enp5s0": "8.0 GT/s x8"}
    assert states(facts["warnings"][0], "enp5s0", "8.0 GT/s x8", "16.0 GT/s x16")


def test_the_facts_of_a_host_stay_small(lab, server):
    document = document_of(lab, ALL)
    made(server, document)

    assert len(json.dumps(run("probe", server, document)["facts"])) < 1500


def with_eswitch(machine, answer):
    """An mlx5 NIC whose devlink answers: the text of a NIC of the simulator's kind, with another mode, or an error."""
    driver = machine.folder / "sys/bus/pci/devices/0000:05:00.0/driver"
    driver.parent.mkdir(parents=True, exist_ok=True)
    driver.symlink_to("/sys/bus/pci/drivers/mlx5_core")
    machine.answers["devlink -j dev eswitch show pci/0000:05:00.0"] = answer


def mode(name):
    """`devlink -j dev eswitch show`: iproute2, devlink/devlink.c (pr_out_eswitch)."""
    entry = {"mode": name, "inline-mode": "none", "encap-mode": "basic"}
    return Done(0, json.dumps({"dev": {"pci/0000:05:00.0": entry}}), "")


def test_a_nic_in_switchdev_mode_is_refused_before_anything_changes(lab, debian):
    with_eswitch(debian, mode("switchdev"))
    before = files(debian)

    failed = run("apply", debian, document_of(lab, {"hostname": True}))["failed"]

    assert failed["step"] == "preflight"
    assert states(failed["reason"], "enp5s0", "switchdev")
    assert states(failed["hint"], "sriov_numvfs", "devlink dev eswitch set pci/0000:05:00.0 mode legacy", "vfs: 0")
    assert files(debian) == before


def test_a_nic_that_does_not_control_its_eswitch_is_refused(lab, debian):
    # mlx5 answers EPERM on a host whose BlueField is in DPU mode
    with_eswitch(debian, Done(1, "", "kernel answers: Operation not permitted\n"))

    failed = run("apply", debian, document_of(lab, {}))["failed"]

    assert failed["step"] == "preflight"
    assert states(failed["reason"], "enp5s0", "BlueField", "DPU")
    assert states(failed["hint"], "INTERNAL_CPU_OFFLOAD_ENGINE=1", "power cycle")


@pytest.mark.parametrize(
    "answer",
    [
        mode("legacy"),
        Done(1, "", "kernel answers: Operation not supported\n"),
        Done(127, "", "devlink is not installed"),
    ],
    ids=["legacy", "a kernel that knows no mode without VFs", "no devlink"],
)
def test_a_nic_that_is_not_known_to_be_in_another_mode_is_used(lab, debian, answer):
    with_eswitch(debian, answer)

    assert run("apply", debian, document_of(lab, {}))["failed"] is None


def test_a_nic_in_switchdev_mode_without_vfs_in_the_lab_is_used(lab, debian):
    with_eswitch(debian, mode("switchdev"))
    document = document_of(lab, {})
    for pf in document["pfs"]:
        pf["vfs"] = 0

    assert run("apply", debian, document)["failed"] is None

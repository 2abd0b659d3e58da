"""The operating system's steps on a small kernel in a folder, for both families of distributions."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.hosts import effects
from components.hosts.document import host_document, wanted_fields
from components.hosts.program.main import perform
from components.hosts.program.places import BASELINE_FILE
from components.hosts.program.steps import clock, hosts_file, kernel_arguments, users
from components.hosts.program.steps.preflight import SECURE_BOOT
from stacks.lab import Lab
from tests.components.hosts.system_kernel import HOSTS, SystemHost
from tests.conftest import ROOT

GOLDEN = ROOT / "tests/golden/hosts"
KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(range(32))).decode()
ALL: dict[str, Any] = {
    "packages": {"debian": ["jq", "pciutils"], "rhel": ["perf"]},
    "clock": {"daemon": "chrony", "servers": ["10.0.0.5", "time.lab.example"]},
    "kernel_arguments": {"iommu": "auto", "pci_realloc": True, "extra": ["processor.max_cstate=1"]},
    "hostname": True,
    "hosts_file": True,
    "cpu_governor": "performance",
    "users": [
        {"name": "ops", "keys": [f"ssh-ed25519 {KEY} ops@desk"], "uid": 1500, "sudo": True},
        {"name": "nvidia", "keys": [f"ssh-ed25519 {KEY} night shift"]},
    ],
}


@pytest.fixture(params=["debian", "rhel"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return SystemHost(tmp_path, request.param).with_grub()


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemHost:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return SystemHost(tmp_path, "debian").with_grub()


def document_of(lab: Lab, system: dict[str, Any], *, may_reboot: bool = True) -> dict[str, Any]:
    asked = {**lab.model_dump(mode="json"), "system": system, "hosts": {"allow_reboot": may_reboot}}
    asked = Lab.model_validate(asked)
    return host_document(asked, asked.nodes[0])


def run(verb: str, machine: SystemHost, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, machine, json.dumps(document), b"print('the program')\n")


def made(machine: SystemHost, document: dict[str, Any]) -> None:
    """A conforming, confirmed host, rebooted where it had to be."""
    result = run("apply", machine, document)
    assert result["failed"] is None, result
    if result["needs_reboot"]:
        machine.reboot()
        run("apply", machine, document)
    run("confirm", machine, document)
    assert differing(machine, document) == {}


def differing(machine: SystemHost, document: dict[str, Any]) -> dict[str, Any]:
    found = run("probe", machine, document)["fields"]
    return {field: found[field] for field, value in wanted_fields(document).items() if found[field] != value}


def files(machine: SystemHost) -> dict[str, str]:
    """All that lies under /etc and in the homes, with modes where they matter."""
    found = {}
    for top in ("etc", "home"):
        for path in sorted((machine.folder / top).rglob("*")):
            if path.is_file() and not path.is_symlink():
                mode = path.stat().st_mode & 0o777
                found[f"/{path.relative_to(machine.folder)} {mode:o}"] = path.read_text()
    return found


def test_a_lab_that_asks_for_nothing_has_nothing_of_this_in_its_documents(lab):
    document = host_document(lab, lab.nodes[0])

    assert set(document) == {
        "schema", "lab", "host", "management_interface", "modules", "rdma_namespaces", "revert_after_s", "pfs",
    }  # fmt: skip


def test_everything_asked_for_is_there_and_a_second_run_changes_nothing(lab, machine):
    document = document_of(lab, ALL)
    made(machine, document)
    machine.written.clear()
    machine.commands.clear()
    before = files(machine)

    result = run("apply", machine, document)

    assert (result["changed"], result["failed"], result["needs_reboot"]) == ([], None, [])
    assert machine.written == []
    assert files(machine) == before
    asked = {line.split()[0] for line in machine.commands}
    assert asked <= {"ip", "dpkg-query", "rpm", "systemctl", "chronyc", "grubby"}, "it only looks"


def test_every_file_that_is_written_is_this_one(lab, machine):
    before = files(machine)
    made(machine, document_of(lab, ALL))
    ours = ("rocelab.conf", "rocelab-rdma.service", "passwd")

    written = {key: text for key, text in files(machine).items() if before.get(key) != text}
    shown = "".join(
        f"== {key}\n{text}"
        for key, text in written.items()
        if not key.split()[0].endswith(ours) and ".bashrc" not in key
    )

    assert shown == (GOLDEN / f"system.{machine.family}.txt").read_text()


def test_every_field_has_an_effect_and_a_repair_class(lab):
    for field in wanted_fields(document_of(lab, ALL)):
        assert effects.field_effect(field)
        assert effects.repair_class(field)


def sleepy(machine: SystemHost) -> None:
    machine.file("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n")


def another_source(machine: SystemHost) -> None:
    place = clock.SOURCES_FILE if machine.family == "debian" else clock.SETTINGS["rhel"]
    machine.file(place, machine.read(place).replace("10.0.0.5", "10.0.0.6") + "\n")


def stopped_chrony(machine: SystemHost) -> None:
    machine.services[clock.UNITS[machine.family]] = "inactive enabled"


def a_key_less(machine: SystemHost) -> None:
    machine.file("/home/nvidia/.ssh/authorized_keys", "ssh-ed25519 AAAAtheirs of-the-site\n")


DRIFTS = {
    "packages": ("packages", lambda m: m.packages.difference_update({"jq", "perf"})),
    "clock source": ("clock_source", another_source),
    "clock daemon": ("clock_source", stopped_chrony),
    "hostname": ("hostname", lambda m: m.file("/proc/sys/kernel/hostname", "localhost\n")),
    "hostname at boot": ("hostname", lambda m: m.file("/etc/hostname", "dgx-17\n")),
    "hosts file": ("hosts_file", lambda m: m.file("/etc/hosts", HOSTS)),
    "altered name": (
        "hosts_file",
        lambda m: m.file("/etc/hosts", m.read("/etc/hosts").replace("gpu02", "gpu20") + "\n"),
    ),
    "governor": ("cpu_governor", sleepy),
    "keys": ("nvidia.keys", a_key_less),
    "rights": ("ops.sudo", lambda m: m.remove(users.sudo_file("ops"))),
    "wider rights": ("ops.sudo", lambda m: m.file(users.sudo_file("ops"), "ALL ALL=NOPASSWD: ALL\n")),
}


@pytest.mark.parametrize("what", DRIFTS)
def test_one_drifted_field_is_seen_alone_and_put_back(lab, machine, what):
    field, break_it = DRIFTS[what]
    document = document_of(lab, ALL)
    made(machine, document)
    before = files(machine)
    break_it(machine)

    assert list(differing(machine, document)) == [field]
    assert run("apply", machine, {**document, "only": [field]})["failed"] is None

    assert differing(machine, document) == {}
    assert files(machine) == before


def test_undo_puts_back_what_was_there_and_leaves_packages_arguments_and_accounts(lab, machine):
    before = files(machine)
    made(machine, document_of(lab, ALL))

    assert run("undo", machine, document_of(lab, ALL))["failed"] is None

    after = files(machine)
    stays = {kernel_arguments.GRUB_FILE + " 644", "/etc/passwd 644", "/home/ops/.bashrc 644"}
    chrony = {key for key in after if "chrony" in key}
    assert {key for key in after if key not in before} - stays == chrony
    assert {key: after[key] for key in before if key != "/etc/passwd 644"} == {
        key: text for key, text in before.items() if key != "/etc/passwd 644"
    }
    assert "rocelab" not in "".join(after[key] for key in chrony)
    assert "ops:x:1500" in machine.read("/etc/passwd"), "its files on shared filesystems belong to it"
    assert machine.read("/proc/sys/kernel/hostname") == "dgx-17"
    assert machine.read("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor") == "powersave"
    assert "chrony" in machine.packages
    assert "iommu=pt" in machine.read("/boot/grub/grub.cfg") + machine.read("/boot/grubby")


def test_what_the_lab_no_longer_asks_for_is_undone_and_the_rest_stays(lab, machine):
    made(machine, document_of(lab, ALL))
    less = document_of(lab, {"cpu_governor": "performance"})

    result = run("apply", machine, less)

    assert result["failed"] is None
    assert {"hostname undone", "hosts_file undone", "users undone", "clock undone"} <= set(result["changed"])
    assert machine.read("/proc/sys/kernel/hostname") == "dgx-17"
    assert machine.read("/etc/hosts") + "\n" == HOSTS
    assert not machine.exists(users.sudo_file("ops"))
    assert machine.read("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor") == "performance"
    assert "hostname" not in json.loads(machine.read(BASELINE_FILE))["steps"]


def test_an_undo_that_fails_is_said_and_tried_again_by_the_next_run(lab, debian):
    made(debian, document_of(lab, ALL))
    text = debian.read("/etc/hosts")
    debian.file("/etc/hosts", text.replace("# END rocelab", "") + "\n")

    failed = run("apply", debian, document_of(lab, {}))["failed"]

    assert failed["step"] == "hosts_file"
    assert "somebody has edited the marks" in failed["hint"]
    debian.file("/etc/hosts", text + "\n")
    assert run("apply", debian, document_of(lab, {}))["failed"] is None
    assert debian.read("/etc/hosts") + "\n" == HOSTS


# -- packages


def test_packages_are_installed_without_questions_and_without_removing_anything(lab, debian):
    run("apply", debian, document_of(lab, {"packages": ALL["packages"]}))

    commands = [line for line in debian.commands if "apt-get" in line]
    assert all("DEBIAN_FRONTEND=noninteractive" in line for line in commands)
    assert all("DPkg::Lock::Timeout=300" in line for line in commands)
    assert not [line for line in debian.commands if "autoremove" in line or "purge" in line]


def test_a_package_that_no_repository_has_is_named(lab, machine):
    failed = run("apply", machine, document_of(lab, {"packages": {"debian": ["jqq"], "rhel": ["jqq"]}}))["failed"]

    assert failed["step"] == "packages"
    assert "jqq" in failed["reason"]
    assert "repositories" in failed["hint"]


def test_the_lock_of_aptS_lists_is_waited_for(lab, debian):  # noqa: N802  # apt's
    debian.apt_locked_until_s = debian.clock_s + 60

    assert run("apply", debian, document_of(lab, {"packages": {"debian": ["jq"]}}))["failed"] is None
    assert "jq" in debian.packages


def test_an_installation_that_would_remove_others_is_refused_with_their_names(lab, debian):
    debian.would_remove = ("systemd-timesyncd", "ntpsec")

    failed = run("apply", debian, document_of(lab, {"clock": {"daemon": "chrony"}}))["failed"]

    assert "apt would remove ntpsec to install chrony" in failed["reason"]
    assert "chrony" not in debian.packages


def test_a_distribution_that_is_not_known_is_refused_before_anything_changes(lab, debian):
    debian.file("/etc/os-release", "ID=alpine\nVERSION_ID=3.20\n")
    before = files(debian)

    failed = run("apply", debian, document_of(lab, {"packages": {"debian": ["jq"]}, "hostname": True}))["failed"]

    assert "this is alpine 3.20" in failed["reason"]
    assert files(debian) == before


# -- clock


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("chronyc-tracking.csv", "synchronized"),
        ("chronyc-tracking-alone.csv", "not synchronized"),
        ("chronyc-tracking-own.csv", "not synchronized"),
    ],
)
def test_what_chrony_prints_is_understood(lab, debian, recorded, said):
    document = document_of(lab, {"clock": {"daemon": "chrony"}})
    made(debian, document)
    debian.tracking = recorded

    assert run("probe", debian, document)["fields"]["clock"] == said


def test_a_clock_that_is_far_off_is_told_with_its_offset(lab, debian, tmp_path, monkeypatch):
    document = document_of(lab, {"clock": {"daemon": "chrony"}})
    made(debian, document)
    damaged = (Path(__file__).parent / "recorded/chronyc-tracking.csv").read_text().replace("0.000003928", "-7.4")
    (tmp_path / "far.csv").write_text(damaged)
    debian.tracking = str(tmp_path / "far.csv")

    assert differing(debian, document) == {"clock": "off by 7.4 s"}
    failed = run("apply", debian, document)["failed"]
    assert "the distribution's servers" in failed["reason"]
    assert "UDP port 123" in failed["hint"]


def test_keeping_the_clocks_daemon_changes_nothing_and_still_tells_of_a_clock_that_nobody_sets(lab, debian):
    document = document_of(lab, {"clock": {"daemon": "keep"}})
    made(debian, document)
    debian.synchronized = "no"
    before = files(debian)

    failed = run("apply", debian, document)["failed"]

    assert failed["reason"] == "the clock is not synchronized"
    assert "system.clock.daemon: chrony" in failed["hint"]
    assert files(debian) == before
    assert "chrony" not in debian.packages


# -- kernel arguments


def test_kernel_arguments_wait_for_a_reboot_and_then_hold(lab, machine):
    document = document_of(lab, {"kernel_arguments": ALL["kernel_arguments"]})

    result = run("apply", machine, document)

    assert result["failed"] is None
    words = "intel_iommu=on iommu=pt pci=realloc processor.max_cstate=1"
    assert result["needs_reboot"] == [f"kernel_arguments: {words} holds from the next boot on"]
    again = run("apply", machine, document)
    assert again["needs_reboot"] == result["needs_reboot"]
    assert len([line for line in machine.commands if line.startswith(("update-grub", "grubby --update"))]) == 1
    machine.reboot()
    assert "kernel_arguments" not in differing(machine, document)


def test_without_leave_to_reboot_the_boot_loader_stays_as_it_is(lab, machine):
    document = document_of(lab, {"kernel_arguments": ALL["kernel_arguments"]}, may_reboot=False)
    before = files(machine)

    result = run("apply", machine, document)

    assert result["failed"] is None
    assert "is set as soon as hosts.allow_reboot is true" in result["needs_reboot"][0]
    assert not machine.exists(kernel_arguments.GRUB_FILE)
    assert not [line for line in machine.commands if "grub" in line and "info" not in line]
    assert {key for key in files(machine) if "rocelab" not in key} == set(before)


@pytest.mark.parametrize(
    ("vendor", "words"), [("AuthenticAMD", ["iommu=pt"]), ("GenuineIntel", ["intel_iommu=on", "iommu=pt"])]
)
def test_the_iommus_words_are_those_of_the_hosts_cpu(lab, machine, vendor, words):
    machine.file("/proc/cpuinfo", f"vendor_id\t: {vendor}\n")
    document = document_of(lab, {"kernel_arguments": {"iommu": "auto"}})
    made(machine, document)

    assert machine.read("/proc/cmdline").split()[-len(words) :] == words
    assert wanted_fields(document)["kernel_arguments"] == ["iommu=auto"]


def test_a_word_that_the_machine_has_already_needs_nothing(lab, debian):
    debian.file("/proc/cmdline", "root=UUID=1 ro iommu=pt pci=noaer,realloc\n")
    debian.file("/boot/grub/grub.cfg", "\tlinux /boot/vmlinuz ro iommu=pt pci=noaer,realloc\n")
    document = document_of(lab, {"kernel_arguments": {"iommu": "amd", "pci_realloc": True}})

    assert run("probe", debian, document)["fields"]["kernel_arguments"] == ["iommu=pt", "pci=realloc"]
    made(debian, document)
    assert not debian.exists(kernel_arguments.GRUB_FILE)


def test_of_the_iommus_words_the_last_one_counts(lab, debian):
    debian.file("/proc/cmdline", "ro iommu=pt quiet iommu=nopt\n")
    document = document_of(lab, {"kernel_arguments": {"iommu": "amd"}})

    assert run("probe", debian, document)["fields"]["kernel_arguments"] == ["iommu=pt missing"]


def test_words_that_will_not_survive_the_next_boot_are_shown_and_written_without_a_reboot(lab, machine):
    document = document_of(lab, {"kernel_arguments": {"iommu": "amd"}}, may_reboot=False)
    machine.file("/proc/cmdline", "ro iommu=pt\n")

    assert run("probe", machine, document)["fields"]["kernel_arguments"] == ["iommu=pt until the next boot"]
    result = run("apply", machine, document)
    assert (result["failed"], result["needs_reboot"]) == (None, [])
    assert run("probe", machine, document)["fields"]["kernel_arguments"] == ["iommu=pt"]


def test_a_machine_without_grub_is_refused_with_the_reason_before_anything_changes(lab, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    machine = SystemHost(tmp_path)
    before = files(machine)

    failed = run("apply", machine, document_of(lab, ALL))["failed"]

    assert "intel_iommu=on iommu=pt pci=realloc processor.max_cstate=1 is not on this kernel's" in failed["reason"]
    assert "without a GRUB" in failed["reason"]
    assert "take it out of system.kernel_arguments" in failed["hint"]
    assert files(machine) == before


def test_our_grub_drop_in_is_shell_that_shellcheck_accepts(tmp_path):
    checker = shutil.which("shellcheck", path=str(ROOT / ".venv/bin"))
    assert checker, "make setup installs it"
    drop_in = tmp_path / "99-rocelab.cfg"
    drop_in.write_text(kernel_arguments.grub_text(["iommu=pt", "pci=realloc"]))

    # SC2034: the variable is used by the script that sources this file
    subprocess.run([checker, "-s", "sh", "-e", "SC2034", drop_in], check=True)


# -- names


def test_a_machine_that_is_a_kubernetes_node_keeps_its_name(lab, debian):
    debian.file("/etc/kubernetes/kubelet.conf", "apiVersion: v1\n")

    failed = run("apply", debian, document_of(lab, {"hostname": True}))["failed"]

    assert "a node of a Kubernetes cluster, which would lose it as gpu01" in failed["reason"]
    assert debian.read("/etc/hostname") == "dgx-17"


def test_cloud_init_is_kept_from_renaming_the_machine_and_from_rewriting_the_hosts_file(lab, debian):
    debian.file("/etc/cloud/cloud.cfg.d/05_logging.cfg", "")
    document = document_of(lab, {"hostname": True, "hosts_file": True})
    made(debian, document)

    assert "preserve_hostname: true" in debian.read("/etc/cloud/cloud.cfg.d/99-rocelab-hostname.cfg")
    debian.remove(hosts_file.CLOUD_FILE)
    assert "until cloud-init writes its own" in differing(debian, document)["hosts_file"]
    run("undo", debian, document)
    assert debian.names("/etc/cloud/cloud.cfg.d") == ["05_logging.cfg"]


def test_a_lab_of_hundreds_of_nodes_stays_small_in_each_document(lab):
    nodes = [
        {**lab.nodes[0].model_dump(mode="json"), "name": f"gpu{i:03}", "address": f"127.0.{12 + i // 256}.{i % 256}",
         "pfs": [{**pf.model_dump(mode="json"), "address": f"10.{n}.{i // 250}.{i % 250 + 1}/16"}
                 for n, pf in enumerate(lab.nodes[0].pfs)]}
        for i in range(1, 400)
    ]  # fmt: skip
    big = lab.model_copy(update={"nodes": tuple(type(lab.nodes[0]).model_validate(node) for node in nodes)})
    big = big.model_copy(update={"system": Lab.model_fields["system"].annotation(hosts_file=True)})
    runs = host_document(big, big.nodes[0])["hosts_file"]

    assert runs == ["127.0.12.1 gpu001 399"]
    lines = list(hosts_file.host_lines(runs))
    assert lines == [f"{node.address} {node.name}" for node in big.nodes]


def test_names_that_do_not_count_on_are_written_one_by_one():
    assert list(hosts_file.host_lines(["10.0.0.1 alpha 1", "10.0.0.9 n8 3"])) == [
        "10.0.0.1 alpha", "10.0.0.9 n8", "10.0.0.10 n9", "10.0.0.11 n10",
    ]  # fmt: skip


# -- cores


def test_a_machine_whose_firmware_governs_its_cores_says_so_and_conforms(lab, debian):
    shutil.rmtree(debian.folder / "sys/devices/system/cpu/cpufreq")
    document = document_of(lab, {"cpu_governor": "performance"})
    made(debian, document)

    assert "firmware or hypervisor" in run("probe", debian, document)["facts"]["cpu_governor"]


def test_a_governor_that_the_kernel_has_not_is_refused_with_those_it_has(lab, debian):
    debian.file("/sys/devices/system/cpu/cpufreq/policy1/scaling_available_governors", "powersave schedutil\n")

    failed = run("apply", debian, document_of(lab, {"cpu_governor": "performance"}))["failed"]

    assert "offers powersave, schedutil and performance is wanted" in failed["reason"]


# -- accounts


def test_a_user_that_leaves_the_list_loses_keys_and_rights_and_keeps_the_account(lab, machine):
    made(machine, document_of(lab, {"users": ALL["users"]}))
    less = document_of(lab, {"users": ALL["users"][1:]})

    assert differing(machine, less)["users"] == ["nvidia", "ops"]
    assert run("apply", machine, less)["failed"] is None

    assert differing(machine, less) == {}
    assert not machine.exists(users.sudo_file("ops"))
    assert not machine.exists("/home/ops/.ssh/authorized_keys")
    assert "ops:" in machine.read("/etc/passwd")


def test_the_login_gets_keys_and_nothing_else_and_keeps_its_own(lab, debian):
    document = document_of(lab, {"users": ALL["users"][1:]})
    made(debian, document)

    lines = debian.read("/home/nvidia/.ssh/authorized_keys").splitlines()
    assert lines[0] == "ssh-ed25519 AAAAtheirs of-the-site"
    assert f"ssh-ed25519 {KEY} night shift" in lines
    assert set(wanted_fields(document)) >= {"users", "nvidia.keys"}
    assert not {"nvidia.account", "nvidia.sudo"} & set(wanted_fields(document))
    assert not debian.exists(users.sudo_file("nvidia"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ops:x:1700:1700::/home/ops:/bin/sh", "ops has uid 1700 here and 1500 is wanted"),
        ("ops:x:120:120::/nonexistent:/usr/sbin/nologin", "ops is an account of the system here"),
        ("hpc:x:1500:1500::/home/hpc:/bin/bash", "uid 1500 of ops is hpc's on this host"),
    ],
)
def test_an_account_of_somebody_else_is_left_alone(lab, debian, line, said):
    debian.file("/etc/passwd", f"{debian.read('/etc/passwd')}\n{line}\n")

    failed = run("apply", debian, document_of(lab, {"users": ALL["users"]}))["failed"]

    assert said in failed["reason"]
    assert not debian.exists(users.sudo_file("ops"))


def test_keys_are_not_written_through_a_link_of_the_users(lab, debian):
    debian.file("/etc/victim", "untouched")
    place = debian.folder / "home/nvidia/.ssh/authorized_keys"
    place.unlink()
    place.symlink_to(debian.folder / "etc/victim")

    failed = run("apply", debian, document_of(lab, {"users": ALL["users"][1:]}))["failed"]

    assert "is a link to somewhere else" in failed["reason"]
    assert debian.read("/etc/victim") == "untouched"


# -- preflight


def test_too_few_vfs_are_refused_before_anything_changes_with_the_hint_for_their_cause(lab, debian):
    before = files(debian)
    document = document_of(lab, {"hostname": True})
    for offered, hint in (("0", "switch it on in the BIOS"), ("2", "raise NUM_OF_VFS")):
        debian.file("/sys/devices/0000:05:00.0/sriov_totalvfs", offered)
        failed = run("apply", debian, document)["failed"]
        assert failed["reason"] == f"enp5s0 offers {offered} VFs and 4 are wanted"
        assert hint in failed["hint"]
    assert files(debian) == before


def test_too_few_vfs_are_no_reason_to_stop_when_the_firmware_is_going_to_be_set(lab, debian):
    debian.file("/sys/devices/0000:05:00.0/sriov_totalvfs", "2")

    failed = run("apply", debian, {**document_of(lab, {"hostname": True}), "firmware": {}, "pfs": []})["failed"]

    assert failed is None
    assert debian.read("/etc/hostname") == "gpu01"


def test_secure_boot_forbids_a_driver_that_is_built_here_unless_its_key_is_enrolled(lab, debian, monkeypatch):
    document = {**document_of(lab, {}), "driver": {"source": "doca_ofed"}}
    (debian.folder / SECURE_BOOT[1:]).parent.mkdir(parents=True)
    (debian.folder / SECURE_BOOT[1:]).write_bytes(b"\x06\0\0\0\x01")

    refused = run("apply", debian, document)["failed"]

    assert "Secure Boot is on" in refused["reason"]
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
    assert facts["warnings"][0].startswith("enp5s0 runs at 8.0 GT/s x8 and could at 16.0 GT/s x16")


def test_the_facts_of_a_host_stay_small(lab, machine):
    document = document_of(lab, ALL)
    made(machine, document)

    assert len(json.dumps(run("probe", machine, document)["facts"])) < 1500

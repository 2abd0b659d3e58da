"""The operating system's steps as a whole: all that a lab can ask for, drifted, repaired, undone."""

import json

import pytest

from components.hosts.changes import field_effect
from components.hosts.document import document_text, host_document
from components.hosts.program.places import BASELINE_FILE
from components.hosts.program.steps import STEPS, clock, kernel_arguments, users
from components.hosts.records import target_fields
from components.hosts.repair import ORDER, repair_class
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.system_kernel import HOSTS, SystemHost
from tests.components.hosts.system_lab import ALL, document_of, files, made
from tests.conftest import ROOT
from tests.messages import states

GOLDEN = ROOT / "tests/golden/hosts"


def test_a_lab_that_asks_for_nothing_has_nothing_of_this_in_its_documents(lab):
    document = host_document(lab, lab.nodes[0])

    assert set(document) == {
        "schema", "lab", "host", "management_interface", "modules", "rdma_namespaces", "revert_after_s", "pfs",
        "cni_folders",
    }  # fmt: skip


@pytest.mark.row("B 316")
def test_everything_asked_for_is_there_and_a_second_run_changes_nothing(lab, server):
    document = document_of(lab, ALL)
    made(server, document)
    server.written.clear()
    server.commands.clear()
    before = files(server)

    result = run("apply", server, document)

    assert (result["changed"], result["failed"], result["needs_reboot"]) == ([], None, [])
    assert server.written == []
    assert files(server) == before
    asked = {line.split()[0] for line in server.commands}
    assert asked <= {"ip", "dpkg-query", "rpm", "systemctl", "chronyc", "grubby"}, "it only looks"


def test_every_file_that_is_written_is_this_one(lab, server):
    before = files(server)
    made(server, document_of(lab, ALL))
    ours = ("rocelab.conf", "rocelab-rdma.service", "90-rocelab.rules", "passwd")

    written = {key: text for key, text in files(server).items() if before.get(key) != text}
    shown = "".join(
        f"== {key}\n{text}"
        for key, text in written.items()
        if not key.split()[0].endswith(ours) and ".bashrc" not in key
    )

    assert shown == (GOLDEN / f"system.{server.family}.txt").read_text()


def test_every_field_has_an_effect_and_a_repair_class(lab):
    for field in target_fields(document_of(lab, ALL)):
        assert field_effect(field)
        assert repair_class(field)


def sleepy(server: SystemHost) -> None:
    server.file("/sys/devices/system/cpu/cpufreq/policy2/scaling_governor", "powersave\n")


def another_source(server: SystemHost) -> None:
    place = clock.SOURCES_FILE if server.family == "debian" else clock.SETTINGS["rhel"]
    server.file(place, server.read(place).replace("10.0.0.5", "10.0.0.6") + "\n")


def stopped_chrony(server: SystemHost) -> None:
    server.services[clock.UNITS[server.family]] = "inactive enabled"


def a_key_less(server: SystemHost) -> None:
    server.file("/home/nvidia/.ssh/authorized_keys", "ssh-ed25519 AAAAtheirs of-the-site\n")


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


def test_each_drifted_field_is_seen_alone_and_put_back(lab, server):
    document = document_of(lab, ALL)
    made(server, document)
    before = files(server)
    for what, (field, break_it) in DRIFTS.items():
        break_it(server)

        assert list(differing(server, document)) == [field], what
        assert run("apply", server, {**document, "only": [field]})["failed"] is None, what

        assert differing(server, document) == {}, what
        assert files(server) == before, what


def test_undo_puts_back_what_was_there_and_leaves_packages_arguments_and_accounts(lab, server):
    before = files(server)
    made(server, document_of(lab, ALL))

    assert run("undo", server, document_of(lab, ALL))["failed"] is None

    after = files(server)
    stays = {kernel_arguments.GRUB_FILE + " 644", "/etc/passwd 644", "/home/ops/.bashrc 644"}
    chrony = {key for key in after if "chrony" in key}
    assert {key for key in after if key not in before} - stays == chrony
    assert {key: after[key] for key in before if key != "/etc/passwd 644"} == {
        key: text for key, text in before.items() if key != "/etc/passwd 644"
    }
    assert "rocelab" not in "".join(after[key] for key in chrony)
    assert "ops:x:1500" in server.read("/etc/passwd"), "its files on shared filesystems belong to it"
    assert server.read("/proc/sys/kernel/hostname") == "dgx-17"
    assert server.read("/sys/devices/system/cpu/cpufreq/policy3/scaling_governor") == "powersave"
    assert "chrony" in server.packages
    assert "iommu=pt" in server.read("/boot/grub/grub.cfg") + server.read("/boot/grubby")


def test_what_the_lab_no_longer_asks_for_is_undone_and_the_rest_stays(lab, server):
    made(server, document_of(lab, ALL))
    less = document_of(lab, {"cpu_governor": "performance"})

    result = run("apply", server, less)

    assert result["failed"] is None
    undone = [line.split()[0] for line in result["changed"] if states(line, "no longer")]
    assert {"hostname", "hosts_file", "users", "clock"} <= set(undone)
    assert server.read("/proc/sys/kernel/hostname") == "dgx-17"
    assert server.read("/etc/hosts") + "\n" == HOSTS
    assert not server.exists(users.sudo_file("ops"))
    assert server.read("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor") == "performance"
    assert "hostname" not in json.loads(server.read(BASELINE_FILE))["steps"]


def test_an_undo_that_fails_is_reported_and_tried_again_by_the_next_run(lab, debian):
    made(debian, document_of(lab, ALL))
    text = debian.read("/etc/hosts")
    debian.file("/etc/hosts", text.replace("# END rocelab", "") + "\n")

    failed = run("apply", debian, document_of(lab, {}))["failed"]

    assert failed["step"] == "hosts_file"
    assert states(failed["hint"], "markers")
    debian.file("/etc/hosts", text + "\n")
    assert run("apply", debian, document_of(lab, {}))["failed"] is None
    assert debian.read("/etc/hosts") + "\n" == HOSTS


def test_no_two_steps_own_a_field_of_one_name():
    names = [name for step in STEPS for name in step.effects]

    assert sorted(names) == sorted(set(names)), "what a change does to a host is looked up by the name alone"
    assert all(set(step.repairs) <= set(step.effects) for step in STEPS)
    assert {repair_class(name) for name in names} == set(ORDER), "an effect on pods is no class of repair"


def test_a_boot_is_not_stopped_by_what_is_no_part_of_it(lab, debian):
    document = document_of(lab, ALL)
    made(debian, document)
    debian.file("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n")  # a directory service that is not up yet
    debian.file("/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "")
    debian.remove("/usr/sbin/update-grub")
    debian.file("/proc/cmdline", "ro\n")
    debian.write("/sys/class/net/enp5s0/device/sriov_numvfs", "0")

    result = run("boot", debian, document)

    assert result["failed"] is None
    assert debian.read("/sys/class/net/enp5s0/device/sriov_numvfs") == "4"


def test_what_cannot_be_read_on_a_host_is_a_field_and_the_rest_is_still_known(lab, debian):
    document = document_of(lab, ALL)
    made(debian, document)
    debian.file("/etc/hosts", debian.read("/etc/hosts").replace("# END rocelab", "") + "\n")
    debian.file("/etc/os-release", "ID=alpine\n")

    result = run("probe", debian, document)

    assert result["failed"] is None
    assert "this is alpine" in result["fields"]["packages"]
    assert states(result["fields"]["hosts_file"], "# END rocelab")
    assert result["fields"]["hostname"] == "gpu01"


def test_the_document_that_asks_for_everything_is_this_one(lab):
    document = document_of(lab, ALL)

    asked = {key: document[key] for key in ALL} | {"deadline_s": document["deadline_s"]}

    assert document_text(asked) == (GOLDEN / "system.json").read_text()

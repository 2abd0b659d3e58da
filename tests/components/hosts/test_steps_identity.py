"""Names of machines, their cores' governor, and accounts."""

import shutil

import pytest

from components.hosts.document import host_document
from components.hosts.program.steps import hosts_file, users
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.system_lab import ALL, KEY, document_of, made
from tests.messages import states


def test_a_machine_that_is_a_kubernetes_node_keeps_its_name(lab, debian):
    debian.file("/etc/kubernetes/kubelet.conf", "apiVersion: v1\n")

    failed = run("apply", debian, document_of(lab, {"hostname": True}))["failed"]

    assert failed["step"] == "hostname"
    assert states(failed["reason"], "gpu01", "cluster")
    assert debian.read("/etc/hostname") == "dgx-17"


def test_cloud_init_is_kept_from_renaming_the_machine_and_from_rewriting_the_hosts_file(lab, debian):
    debian.file("/etc/cloud/cloud.cfg.d/05_logging.cfg", "")
    document = document_of(lab, {"hostname": True, "hosts_file": True})
    made(debian, document)

    assert "preserve_hostname: true" in debian.read("/etc/cloud/cloud.cfg.d/99-rocelab-hostname.cfg")
    debian.remove(hosts_file.CLOUD.path)
    assert states(differing(debian, document)["hosts_file"], "cloud-init")
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


def test_a_machine_whose_firmware_governs_its_cores_says_so_and_conforms(lab, debian):
    shutil.rmtree(debian.folder / "sys/devices/system/cpu/cpufreq")
    document = document_of(lab, {"cpu_governor": "performance"})
    made(debian, document)

    assert "firmware or hypervisor" in run("probe", debian, document)["facts"]["cpu_governor"]


def test_a_governor_that_the_kernel_has_not_is_refused_with_those_it_has(lab, debian):
    debian.file("/sys/devices/system/cpu/cpufreq/policy1/scaling_available_governors", "powersave schedutil\n")

    failed = run("apply", debian, document_of(lab, {"cpu_governor": "performance"}))["failed"]

    assert failed["step"] == "cpu_governor"
    assert states(failed["reason"], "powersave, schedutil", "performance")


def test_a_user_that_leaves_the_list_loses_keys_and_rights_and_keeps_the_account(lab, server):
    made(server, document_of(lab, {"users": ALL["users"]}))
    less = document_of(lab, {"users": ALL["users"][1:]})

    assert differing(server, less)["users"] == ["nvidia", "ops"]
    assert run("apply", server, less)["failed"] is None

    assert differing(server, less) == {}
    assert not server.exists(users.sudo_file("ops"))
    assert not server.exists("/home/ops/.ssh/authorized_keys")
    assert "ops:" in server.read("/etc/passwd")


def test_the_login_gets_keys_and_nothing_else_and_keeps_its_own(lab, debian):
    document = document_of(lab, {"users": ALL["users"][1:]})
    made(debian, document)

    lines = debian.read("/home/nvidia/.ssh/authorized_keys").splitlines()
    assert lines[0] == "ssh-ed25519 AAAAtheirs of-the-site"
    assert f"ssh-ed25519 {KEY} night shift" in lines
    assert set(target_fields(document)) >= {"users", "nvidia.keys"}
    assert not {"nvidia.account", "nvidia.sudo"} & set(target_fields(document))
    assert not debian.exists(users.sudo_file("nvidia"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ops:x:1700:1700::/home/ops:/bin/sh", ["ops", "uid 1700", 1500]),
        ("ops:x:120:120::/nonexistent:/usr/sbin/nologin", ["ops", "system account"]),
        ("hpc:x:1500:1500::/home/hpc:/bin/bash", ["uid 1500", "ops", "hpc"]),
    ],
)
def test_an_account_of_another_user_is_left_alone(lab, debian, line, said):
    debian.file("/etc/passwd", f"{debian.read('/etc/passwd')}\n{line}\n")

    failed = run("apply", debian, document_of(lab, {"users": ALL["users"]}))["failed"]

    assert states(failed["reason"], *said)
    assert not debian.exists(users.sudo_file("ops"))


def test_keys_are_not_written_through_a_link_of_the_users(lab, debian):
    debian.file("/etc/victim", "untouched")
    place = debian.folder / "home/nvidia/.ssh/authorized_keys"
    place.unlink()
    place.symlink_to(debian.folder / "etc/victim")

    failed = run("apply", debian, document_of(lab, {"users": ALL["users"][1:]}))["failed"]

    assert failed["step"] == "users"
    assert states(failed["reason"], "symbolic link")
    assert debian.read("/etc/victim") == "untouched"


def test_the_last_keys_of_the_account_that_we_come_in_by_are_never_taken(lab, debian, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "nvidia")
    made(debian, document_of(lab, {"users": ALL["users"][1:]}))
    place = debian.folder / "home/nvidia/.ssh/authorized_keys"
    place.write_text(place.read_text().replace("ssh-ed25519 AAAAtheirs of-the-site\n", ""))

    failed = run("apply", debian, document_of(lab, {}))["failed"]

    assert failed["step"] == "users"
    assert states(failed["reason"], "only keys", "nvidia")
    assert KEY in place.read_text()


def test_a_deleted_account_comes_back_with_its_number_and_keys(lab, server):
    document = document_of(lab, {"users": ALL["users"]})
    made(server, document)
    lines = [line for line in server.read("/etc/passwd").splitlines() if not line.startswith("ops:")]
    server.file("/etc/passwd", "\n".join(lines) + "\n")
    shutil.rmtree(server.folder / "home/ops")

    assert differing(server, document) == {"ops.account": "missing", "ops.keys": []}
    assert run("apply", server, document)["failed"] is None
    assert differing(server, document) == {}

"""Licences of vGPU drivers and Bitfusion's client: secrets as files, and what services say of them.

nvidia-smi's output and Bitfusion's answers are written after their documentation: nothing was recorded.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.look.gpu import report_in
from components.hosts.program.main import perform
from components.hosts.program.steps.licence import SETTINGS_FILE, TOKEN_FILE, licence_in, settings_text
from components.hosts.records import target_fields
from stacks.lab import Lab
from tests.components.hosts.kernel import done
from tests.components.hosts.licensed_guest import (
    CANARY,
    GRIDD,
    HOME,
    ROOT_HOME,
    SMI,
    LicensedGuest,
    bitfusion_token,
    client_section,
    licence_section,
)
from tests.components.hosts.vendor_kernel import smi_of
from tests.messages import states

UNLICENSED = "<grid_licensed_product><license_status>Unlicensed</license_status></grid_licensed_product>"


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LicensedGuest:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("SUDO_USER", "nvidia")
    return LicensedGuest(tmp_path / "root")


def run(verb: str, guest: LicensedGuest, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, guest, json.dumps(document), b"program")


@pytest.fixture
def nls(lab: Lab) -> dict[str, Any]:
    return {**host_document(lab, lab.nodes[0]), "licence": licence_section()}


@pytest.fixture
def legacy(lab: Lab) -> dict[str, Any]:
    settings = {"FeatureType": "1", "ServerAddress": "172.16.7.9", "ServerPort": "7070"}
    section = {"kind": "legacy", "server": "172.16.7.9", "settings": settings}
    return {**host_document(lab, lab.nodes[0]), "licence": section}


def made(guest: LicensedGuest, document: dict[str, Any]) -> dict[str, Any]:
    result = run("apply", guest, document)
    assert result["failed"] is None, result["failed"]
    run("confirm", guest, document)
    probed = run("probe", guest, document)
    assert probed["fields"] == target_fields(document)
    return probed


# -- licences


@pytest.mark.row("B 386-392")
def test_a_token_that_was_brought_licenses_the_guest_and_is_for_root_alone(guest, nls):
    guest.brought("licence", CANARY)

    facts = made(guest, nls)["facts"]

    assert guest.read(TOKEN_FILE) == CANARY
    assert (guest.folder / TOKEN_FILE[1:]).stat().st_mode & 0o777 == 0o600
    assert facts["licence"] == {
        "status": "Licensed", "expiry": "2026-11-22 8:0:0 GMT", "product": "NVIDIA Virtual Compute Server"
    }  # fmt: skip


def test_a_token_with_an_unsynchronized_clock_is_a_warning_unless_the_lab_checks_clocks(guest, nls):
    guest.brought("licence", CANARY)
    assert "warnings" not in made(guest, nls)["facts"]
    guest.in_step = "no"

    assert [text for text in made(guest, nls)["facts"]["warnings"] if "system.clock" in text]
    looked_at = run("probe", guest, {**nls, "clock": {"daemon": "keep", "servers": []}})
    assert looked_at["fields"]["clock"] == "not synchronized", "the step of the clock says it"
    assert "warnings" not in looked_at["facts"]
    assert "warnings" not in run("probe", guest, {**nls, "licence": {**nls["licence"], "kind": "legacy"}})["facts"]


def test_the_token_is_in_no_answer_no_command_and_no_file_but_its_own(guest, nls, capfd):
    guest.brought("licence", CANARY)

    results = [run(verb, guest, nls) for verb in ("apply", "confirm", "probe", "boot")]

    printed = capfd.readouterr()
    assert CANARY not in json.dumps(results) + "".join(guest.commands) + printed.out + printed.err
    found = [path for path in guest.folder.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert sorted(path.name for path in found) == [".rocelab-secret-licence", Path(TOKEN_FILE).name]


def test_a_token_that_was_not_brought_is_named_with_the_command_that_sets_it(guest, nls):
    failed = run("apply", guest, nls)["failed"]

    assert failed["step"] == "licence"
    assert states(failed["hint"], "pulumi config set --secret rocelab:licenceToken")


def test_another_token_is_seen_and_put_in_place(guest, nls):
    guest.brought("licence", "the old token")
    guest.licensed = True
    guest.file(TOKEN_FILE, "the old token")
    guest.brought("licence", CANARY)

    assert "another" in run("probe", guest, nls)["fields"]["licence_token"]
    made(guest, nls)
    assert guest.read(TOKEN_FILE) == CANARY


@pytest.mark.row("B 386-392")
def test_a_licence_server_of_old_is_set_and_everything_else_in_the_file_stays(guest, legacy):
    made(guest, legacy)

    assert guest.read(SETTINGS_FILE).splitlines() == [
        "# the site's own", "#ServerPort=7070", "EnableUI=FALSE",
        "FeatureType=1", "ServerAddress=172.16.7.9", "ServerPort=7070",
    ]  # fmt: skip


def test_a_licence_that_does_not_come_says_where_to_look(guest, legacy):
    guest.reachable = False

    failed = run("apply", guest, legacy)["failed"]

    assert failed["step"] == "licence"
    assert states(failed["reason"], "Unlicensed")
    assert states(failed["hint"], "172.16.7.9", "clock")


def test_a_guest_without_the_driver_fails_with_that_reason(guest, legacy):
    guest.has_driver = False

    failed = run("apply", guest, legacy)["failed"]

    assert failed["step"] == "licence"
    assert states(failed["reason"], "vGPU", "driver")


def test_another_user_s_token_is_refused_and_stays(guest, nls):
    guest.file("/etc/nvidia/ClientConfigToken/site.tok", "theirs")

    failed = run("apply", guest, nls)["failed"]

    assert failed["step"] == "licence"
    assert states(failed["reason"], "site.tok")
    assert guest.read("/etc/nvidia/ClientConfigToken/site.tok") == "theirs"


def test_an_undo_gives_the_licence_back_and_the_file_its_old_lines(guest, nls):
    guest.brought("licence", CANARY)
    made(guest, nls)
    guest.commands.clear()

    assert run("undo", guest, nls)["failed"] is None

    assert guest.content(SETTINGS_FILE).decode() == GRIDD
    assert not guest.exists(TOKEN_FILE)
    assert not guest.exists(f"{HOME}/.rocelab-secret-licence")
    assert "systemctl restart nvidia-gridd.service" in guest.commands


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (SMI, "Licensed"),
        (SMI.replace("Licensed (Expiry: 2026-11-22 8:0:0 GMT)", "Unlicensed (Restricted)"), "Unlicensed (Restricted)"),
        (SMI.replace("</nvidia_smi_log>", f"<gpu>{UNLICENSED}</gpu></nvidia_smi_log>"), "Unlicensed"),
        (SMI.replace("vgpu_software_licensed_product", "grid_licensed_product"), "Licensed"),
        (smi_of("v100"), "no licensed product"),
        (smi_of("h100"), "no licensed product"),
    ],
)
def test_the_status_is_that_of_the_worst_vgpu(text, status):
    assert licence_in(report_in(done(text)))["status"] == status


def test_settings_replace_their_own_lines_only():
    assert settings_text("FeatureType = 0\nA=1\n", {"FeatureType": "4"}) == "A=1\nFeatureType=4\n"


# -- Bitfusion


@pytest.fixture
def client(lab: Lab, tmp_path: Path) -> dict[str, Any]:
    return {**host_document(lab, lab.nodes[0]), "bitfusion": client_section(tmp_path)}


def test_a_bare_metal_client_gets_package_and_token(guest, client):
    guest.brought("bitfusion", bitfusion_token())

    facts = made(guest, client)["facts"]

    assert facts["bitfusion"] == {"version": "3.0.1-4", "servers_answer": "yes"}
    for path in (f"{ROOT_HOME}/.bitfusion/client.yaml", "/etc/bitfusion/servers.conf", "/etc/bitfusion/tls/ca.crt"):
        assert guest.read(path).endswith("canary")
        assert (guest.folder / path[1:]).stat().st_mode & 0o777 == 0o600
    assert run("apply", guest, client)["changed"] == []


def test_the_token_of_a_client_is_in_no_answer_and_no_command(guest, client):
    guest.brought("bitfusion", bitfusion_token())

    results = [run(verb, guest, client) for verb in ("apply", "confirm", "probe")]

    assert "canary" not in json.dumps(results) + "".join(guest.commands)
    assert bitfusion_token() not in json.dumps(results) + "".join(guest.commands)


def test_a_token_with_other_files_is_refused_with_what_it_holds(guest, client):
    guest.brought("bitfusion", bitfusion_token("readme.txt"))

    failed = run("apply", guest, client)["failed"]

    assert failed["step"] == "bitfusion"
    assert states(failed["reason"], "readme.txt")


@pytest.mark.row("C 380")
def test_a_machine_is_enabled_in_vcenter_and_checked_here(guest, client):
    document = {**client, "bitfusion": {**client["bitfusion"], "authorisation": "vcenter"}}
    guest.gives_gpus = False

    failed = run("apply", guest, document)["failed"]

    assert failed["step"] == "bitfusion"
    assert states(failed["reason"], "2026-01-01")
    assert "Enable as client" in failed["hint"]
    guest.gives_gpus = True
    made(guest, document)


def test_another_release_of_the_client_is_never_replaced(guest, client):
    guest.brought("bitfusion", bitfusion_token())
    guest.installed["bitfusion-client-ubuntu2004"] = "2.5.0-10"

    failed = run("apply", guest, client)["failed"]

    assert failed["step"] == "bitfusion"
    assert states(failed["reason"], "2.5.0-10", "3.0.1-4")


def test_files_of_a_client_go_with_it_and_the_package_stays(guest, client):
    guest.brought("bitfusion", bitfusion_token())
    made(guest, client)

    assert run("undo", guest, client)["failed"] is None

    assert not guest.exists(f"{ROOT_HOME}/.bitfusion/client.yaml")
    assert guest.installed


# -- initramfs


@pytest.mark.row("C 301")
def test_the_initramfs_is_written_after_the_drop_ins_and_only_when_they_change(guest, lab):
    document = {**host_document(lab, lab.nodes[0]), "initramfs": True}
    made(guest, document)

    assert guest.commands.count("update-initramfs -k all -u") == 1
    assert guest.exists("/etc/modprobe.d/rocelab.conf")
    made(guest, document)
    assert guest.commands.count("update-initramfs -k all -u") == 1
    guest.file("/lib/modules/6.8.0-99-generic/modules.dep", "")
    made(guest, document)
    assert guest.commands.count("update-initramfs -k all -u") == 2, "a kernel has come that has none of ours yet"


def test_without_our_drop_ins_it_is_written_once_more(guest, lab):
    document = {**host_document(lab, lab.nodes[0]), "initramfs": True}
    made(guest, document)
    guest.commands.clear()

    assert run("undo", guest, document)["failed"] is None

    assert "update-initramfs -k all -u" in guest.commands
    assert not guest.exists("/etc/modprobe.d/rocelab.conf")


def test_the_rhel_family_needs_none(guest, lab):
    guest.file("/etc/os-release", "ID=rocky\nID_LIKE=rhel\n")
    made(guest, {**host_document(lab, lab.nodes[0]), "initramfs": True})

    assert "update-initramfs -k all -u" not in guest.commands

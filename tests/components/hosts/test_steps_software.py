"""Packages and the clock: what apt, dnf and chrony are asked, and what their answers mean."""

from pathlib import Path

import pytest

from tests.components.hosts.host_runs import differing, run
from tests.components.hosts.system_lab import ALL, document_of, files, made
from tests.messages import states


@pytest.mark.row("C 219, 223")
def test_packages_are_installed_without_questions_and_without_removing_anything(lab, debian):
    run("apply", debian, document_of(lab, {"packages": ALL["packages"]}))

    commands = [line for line in debian.commands if "apt-get" in line]
    assert all("DEBIAN_FRONTEND=noninteractive" in line for line in commands)
    assert all("DPkg::Lock::Timeout=300" in line for line in commands)
    assert not [line for line in debian.commands if "autoremove" in line or "purge" in line]


def test_a_package_that_no_repository_has_is_named(lab, server):
    failed = run("apply", server, document_of(lab, {"packages": {"debian": ["jqq"], "rhel": ["jqq"]}}))["failed"]

    assert failed["step"] == "packages"
    assert "jqq" in failed["reason"]
    assert "repositories" in failed["hint"]


def test_the_lock_of_apts_lists_is_waited_for(lab, debian):
    debian.apt_locked_until_s = debian.clock_s + 60

    assert run("apply", debian, document_of(lab, {"packages": {"debian": ["jq"]}}))["failed"] is None
    assert "jq" in debian.packages


def test_an_installation_that_would_remove_others_is_refused_with_their_names(lab, debian):
    debian.would_remove = ("systemd-timesyncd", "ntpsec")

    failed = run("apply", debian, document_of(lab, {"clock": {"daemon": "chrony"}}))["failed"]

    assert failed["step"] == "clock"
    assert states(failed["reason"], "ntpsec", "chrony")
    assert "timesyncd" not in failed["reason"], "the new daemon replaces it"
    assert "chrony" not in debian.packages


def test_a_distribution_that_is_not_known_is_refused_before_anything_changes(lab, debian):
    debian.file("/etc/os-release", "ID=alpine\nVERSION_ID=3.20\n")
    before = files(debian)

    failed = run("apply", debian, document_of(lab, {"packages": {"debian": ["jq"]}, "hostname": True}))["failed"]

    assert failed["step"] == "packages"
    assert states(failed["reason"], "alpine 3.20")
    assert files(debian) == before


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


@pytest.mark.row("B 316")
def test_a_clock_that_is_far_off_is_reported_with_its_offset(lab, debian, tmp_path, monkeypatch):
    document = document_of(lab, {"clock": {"daemon": "chrony"}})
    made(debian, document)
    damaged = (Path(__file__).parent / "recorded/chronyc-tracking.csv").read_text().replace("0.000003928", "-7.4")
    (tmp_path / "far.csv").write_text(damaged)
    debian.tracking = str(tmp_path / "far.csv")

    assert list(differing(debian, document)) == ["clock"]
    assert states(differing(debian, document)["clock"], "7.4 s")
    failed = run("apply", debian, document)["failed"]
    assert "the distribution's servers" in failed["reason"]
    assert "UDP port 123" in failed["hint"]


def test_keeping_the_clocks_daemon_changes_nothing_and_still_reports_an_unsynchronized_clock(lab, debian):
    document = document_of(lab, {"clock": {"daemon": "keep"}})
    made(debian, document)
    debian.synchronized = "no"
    before = files(debian)

    failed = run("apply", debian, document)["failed"]

    assert failed["step"] == "clock"
    assert states(failed["reason"], "not synchronized")
    assert "system.clock.daemon: chrony" in failed["hint"]
    assert files(debian) == before
    assert "chrony" not in debian.packages


def test_a_package_run_that_was_killed_is_brought_to_its_end_first(lab, debian):
    debian.file("/var/lib/dpkg/updates/0001", "Package: jq\n")

    assert run("apply", debian, document_of(lab, {"packages": {"debian": ["jq"]}}))["failed"] is None

    packaging = [line for line in debian.commands if "dpkg --" in line or "apt-get" in line]
    assert packaging[0].endswith("dpkg --force-confdef --force-confold --configure -a")

"""The doctor: what it says is there, what it says is missing, and for whom."""

import errno
import json
import re
from pathlib import Path

import pytest

from engine import doctor, install, machine
from engine.findings import Finding
from engine.parts import PARTS
from tests.messages import lines_naming


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is missing."""
    monkeypatch.setattr(install, "locate", lambda part: install.Located(part, "built", Path("/x")))
    monkeypatch.setattr(doctor, "python_finding", lambda: Finding("python", "3.11", ".venv"))
    monkeypatch.setattr(machine, "look", lambda *_, **__: [Finding("system", "Linux x86_64", "this machine")])
    monkeypatch.setattr("sys.argv", ["doctor"])


def by_part(findings: list[Finding]) -> dict[str, Finding]:
    return {one.part: one for one in findings}


@pytest.mark.usefixtures("sound")
def test_a_sound_machine_is_a_table_and_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main() == 0

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["part", "version", "origin"]
    assert ["pulumi", "3.259.0", "built"] in rows


@pytest.mark.usefixtures("sound")
def test_a_part_that_setup_provides_is_nothing_that_you_must_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = install.locate
    monkeypatch.setattr(install, "locate", lambda part: None if part.name == "plane" else found(part))

    assert doctor.main() == 0
    said = capsys.readouterr().out
    assert lines_naming(said, "plane", "make setup")
    assert "MISSING" not in said
    assert "`make up` provides the rest" in said


@pytest.mark.usefixtures("sound")
def test_what_you_must_install_comes_last_with_the_command_that_wants_it_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lack = Finding("ssh", "-", "-", "no ssh on PATH", "make up", "install openssh-client")
    monkeypatch.setattr(machine, "look", lambda *_, **__: [lack])

    assert doctor.main() == 1
    *table, last = capsys.readouterr().out.splitlines()
    assert ["ssh", "-", "MISSING"] in [line.split() for line in table]
    assert lines_naming(last, "ssh", "make up", "install openssh-client")


def test_a_python_without_the_package_for_environments_must_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.python_env, "installed_locks", dict)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: None)

    finding = doctor.python_finding()

    assert finding.lack
    assert re.fullmatch(r"install python3\.\d+-venv", finding.remedy)


def test_hardware_needs_nothing_that_only_the_simulator_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    parts = set(by_part(machine.look(list(PARTS), simulated=False)))

    assert {"go", "ssh"} <= parts
    assert not parts & {"qemu", "kvm", "memory", "image tools", "image source"}


@pytest.mark.usefixtures("sound")
def test_a_part_that_the_stack_does_not_need_is_not_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = install.locate
    monkeypatch.setattr(install, "locate", lambda part: None if part.name == "vcenter" else found(part))
    monkeypatch.setattr("sys.argv", ["doctor", "--stack", "lab"])

    assert doctor.main() == 0
    said = capsys.readouterr().out
    assert lines_naming(said, "vcenter", "lab lab")
    assert "MISSING" not in said


@pytest.mark.usefixtures("sound")
@pytest.mark.parametrize(("stack", "named"), [("lab-pods", True), ("lab", False)])
def test_an_image_s_replacement_is_named_where_pods_run(
    stack: str, named: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["doctor", "--stack", stack])

    assert doctor.main() == 0
    assert ("pause image" in capsys.readouterr().out) == named


@pytest.mark.usefixtures("sound")
def test_stand_ins_are_named_as_such(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(install, "locate", lambda part: install.Located(part, "stand-in", Path("/x")))

    doctor.main()

    assert lines_naming(capsys.readouterr().out, "stand-ins", *(part.name for part in PARTS))


@pytest.mark.usefixtures("sound")
def test_a_program_can_read_the_findings(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["doctor", "--json"])
    monkeypatch.setattr(install, "locate", lambda _: None)

    lack = Finding("go", "-", "-", "no `go` on PATH", "make setup", "install Go")
    monkeypatch.setattr(machine, "look", lambda *_, **__: [lack])

    assert doctor.main() == 1
    found = {one["part"]: one for one in json.loads(capsys.readouterr().out)}
    assert found["python"] == {"part": "python", "version": "3.11", "origin": ".venv", "missing": False}
    assert (found["kwok"]["missing"], found["kwok"]["origin"]) == (False, doctor.FROM_SETUP)
    assert (found["go"]["missing"], found["go"]["wanted_by"]) == (True, "make setup")


def test_another_system_is_refused_by_name_with_what_works_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "is_supported", lambda: False)
    monkeypatch.setattr(machine, "system", lambda: "Darwin arm64")

    found = by_part(machine.look([]))["system"]

    assert (found.version, found.lack) == ("Darwin arm64", "not Linux x86_64")
    assert "unit tests" in found.remedy


def test_a_machine_without_tools_lacks_them_for_what_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)

    found = by_part(machine.look(list(PARTS)))

    assert "`go`" in found["go"].lack
    assert found["qemu"].wanted_by == "make up"
    assert "mke2fs" in found["image tools"].lack
    assert lines_naming(found["image tools"].wanted_by, "make up", "image")
    assert found["ssh"].remedy == "install openssh-client"


def test_go_is_not_missed_when_nothing_must_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda *_, **__: None)

    assert by_part(machine.look([]))["go"] == Finding("go", "-", "not needed")


def test_a_kvm_that_makes_no_machine_is_no_kvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "kvm"
    device.write_text("")
    monkeypatch.setattr(machine, "KVM", device)  # opens, and answers no call of KVM's

    found = by_part(machine.look([]))["kvm"]

    assert (found.version, found.lack) == ("no", ""), "emulation does what KVM does, slower"
    assert "creates no machine" in found.origin


def test_a_kvm_that_may_not_be_opened_is_no_kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(machine.os, "open", refuse)

    assert "Permission denied" in by_part(machine.look([]))["kvm"].origin


def test_too_little_memory_is_reported_with_what_two_nodes_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meminfo = tmp_path / "meminfo"
    monkeypatch.setattr(machine, "MEMINFO", meminfo)

    def memory(text: str) -> Finding:
        meminfo.write_text(text)
        return next(one for one in machine.look([]) if one.part == "memory")

    assert memory("MemTotal: 9 kB\nMemAvailable:    1048576 kB\n").lack.endswith("2500 MB")
    enough = memory("MemAvailable:   25165824 kB\n")
    assert (enough.version, enough.lack) == ("24576 MB free", "")
    assert memory("").lack == "", "what the kernel does not tell is not missing"

"""Which QEMU is taken: the machine's own when it has the igb NIC, else Debian's backport."""

from pathlib import Path

import pytest

from simulator.nodes import debian
from simulator.nodes.qemu import Qemu, find_qemu
from simulator.part import SimulatorError
from tests.messages import stating


@pytest.fixture
def backport(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the backport would be unpacked; nothing is fetched."""
    root = tmp_path / "backport"
    monkeypatch.setattr(debian, "unpacked", lambda packages, _: root if "qemu-utils" in packages else None)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return root


def installed(folder: Path, says: str, *others: str) -> None:
    for name in ("qemu-system-x86_64", *others):
        (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
        (folder / name).chmod(0o755)


def found() -> Qemu:
    return find_qemu(lambda _: None)


@pytest.mark.parametrize("version", ["8.0.0", "8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)", "10.0.2"])
def test_a_new_enough_qemu_on_path_is_taken_as_it_is(tmp_path: Path, backport: Path, version: str):
    installed(tmp_path / "bin", f"QEMU emulator version {version}", "qemu-img")

    assert found() == Qemu(tmp_path / "bin", (), ()), backport


def test_one_without_igb_is_passed_over_for_the_backport(tmp_path: Path, backport: Path):
    installed(tmp_path / "bin", "QEMU emulator version 7.2.17 (Debian 1:7.2+dfsg-7)", "qemu-img")

    qemu = found()

    assert qemu.programs == backport / "usr/bin"
    assert qemu.options[:2] == ("-L", f"{backport}/usr/share/qemu"), (
        "an unpacked one must be told where its firmware is"
    )
    assert qemu.environment["QEMU_MODULE_DIR"].startswith(f"{backport}/"), "not the modules of the old one"
    assert qemu.environment["LD_LIBRARY_PATH"].startswith(f"{backport}/")


def test_half_an_installation_does_not_count(tmp_path: Path, backport: Path):
    installed(tmp_path / "bin", "QEMU emulator version 9.2.0")

    assert found().programs == backport / "usr/bin", "qemu-img makes the nodes' disks"


def test_a_machine_without_qemu_gets_the_backport(backport: Path):
    assert found().programs == backport / "usr/bin"


def test_a_program_without_a_version_is_refused_with_its_output(tmp_path: Path, backport: Path):
    installed(tmp_path / "bin", "this is not QEMU", "qemu-img")

    with pytest.raises(SimulatorError, check=stating("--version", "not QEMU")):
        found()
    assert not backport.exists()

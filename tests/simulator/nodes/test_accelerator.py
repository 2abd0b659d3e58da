"""KVM is used only where a guest was seen to run with it."""

import os
import stat
from pathlib import Path

import pytest

from simulator.nodes import accelerator
from simulator.nodes.accelerator import choose
from simulator.nodes.image import Image
from simulator.nodes.qemu import Qemu
from simulator.part import SimulatorError
from tests.messages import lines_naming, stating

IMAGE = Image(Path("/cache/image-1"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache" / "rocelab" / "nodes").mkdir(parents=True)
    monkeypatch.delenv("ROCELAB_ACCEL", raising=False)
    monkeypatch.setattr(accelerator, "refusal_of_kvm", lambda: None)


def fake_qemu(folder: Path, script: str) -> Qemu:
    """A program in QEMU's place that counts its starts."""
    program = folder / "qemu-system-x86_64"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = --version ]; then echo QEMU emulator version 10.0.2; exit; fi\n'
        f"echo start >> {folder}/starts\n{script}\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Qemu(folder, (), ())


def starts(folder: Path) -> int:
    return len((folder / "starts").read_text().splitlines()) if (folder / "starts").exists() else 0


def test_kvm_is_used_when_our_kernel_runs_with_it(tmp_path: Path):
    qemu = fake_qemu(tmp_path, "echo rocelab: the kernel runs")

    assert choose(qemu, IMAGE, lambda _: None).kind == "kvm"


def test_a_kvm_with_which_no_guest_boots_is_not_used_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(accelerator, "_PROBE_TIMEOUT_S", 0.3)
    qemu, said = fake_qemu(tmp_path, "exec sleep 20"), []

    assert choose(qemu, IMAGE, said.append).kind == "tcg"
    (line,) = said
    assert lines_naming(line, "KVM", "kernel", "0 s", "TCG")


def test_a_qemu_that_fails_to_start_with_kvm_falls_back_and_its_last_line_is_reported(tmp_path: Path):
    complaint, said = "failed to initialize kvm: Invalid argument", list[str]()
    qemu = fake_qemu(tmp_path, f"echo '{complaint}' >&2; exit 1")

    assert choose(qemu, IMAGE, said.append).kind == "tcg"
    assert lines_naming(said[0], "QEMU", "status 1", complaint)


def test_the_probe_runs_once_for_a_boot_of_this_machine(tmp_path: Path):
    qemu = fake_qemu(tmp_path, "echo rocelab: the kernel runs")
    for _ in range(3):
        choose(qemu, IMAGE, lambda _: None)

    assert starts(tmp_path) == 1


def test_without_a_kvm_device_nothing_is_probed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(accelerator, "refusal_of_kvm", lambda: "/dev/kvm: No such file or directory")
    qemu = fake_qemu(tmp_path, "echo rocelab: the kernel runs")

    assert choose(qemu, IMAGE, lambda _: None).kind == "tcg"
    assert starts(tmp_path) == 0


def test_forced_emulation_probes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROCELAB_ACCEL", "tcg")
    qemu = fake_qemu(tmp_path, "echo rocelab: the kernel runs")

    assert choose(qemu, IMAGE, lambda _: None).kind == "tcg"
    assert starts(tmp_path) == 0


def test_forced_kvm_that_does_not_work_is_an_error_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROCELAB_ACCEL", "kvm")
    monkeypatch.setattr(accelerator, "refusal_of_kvm", lambda: "/dev/kvm: Permission denied")

    with pytest.raises(SimulatorError, check=stating("KVM", "/dev/kvm: Permission denied")):
        choose(fake_qemu(tmp_path, ""), IMAGE, lambda _: None)


def test_a_kind_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ROCELAB_ACCEL", "xen")

    with pytest.raises(SimulatorError, check=stating("ROCELAB_ACCEL", "'xen'", "kvm", "tcg")):
        choose(fake_qemu(tmp_path, ""), IMAGE, lambda _: None)


def test_a_missing_device_is_reported_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.undo()
    monkeypatch.setattr(accelerator, "_KVM", tmp_path / "kvm")

    assert accelerator.refusal_of_kvm() == f"{tmp_path / 'kvm'}: {os.strerror(2)}"


def test_a_device_that_makes_no_machine_is_reported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    monkeypatch.setattr(accelerator, "_KVM", Path("/dev/null"))

    assert accelerator.refusal_of_kvm() == f"/dev/null creates no virtual machine: {os.strerror(25)}"

"""PVRDMA in a guest, on a small kernel in a folder. Its behaviour is written after seed C: nothing was recorded."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document, wanted_fields
from components.hosts.program.machine import Done
from components.hosts.program.main import perform
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.components.hosts.kernel import FakeHost
from tests.conftest import ROOT

DEVICE = "rocep5s0f1"


class Guest(FakeHost):
    """A guest whose first PF is a vmxnet3 with a PVRDMA function beside it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.module_exists = True
        self.comes_up = True
        self.loaded = 0
        driver = root / "sys/devices/0000:05:00.0/driver"
        driver.unlink()
        driver.symlink_to(root / "sys/bus/pci/drivers/vmxnet3")
        self.file("/sys/module/vmw_pvrdma/refcnt", "0")
        self.device("DOWN")

    def device(self, state: str) -> None:
        self.file(f"/sys/class/infiniband/{DEVICE}/ports/1/state", f"{4 if state == 'ACTIVE' else 1}: {state}\n")
        (self.folder / f"sys/bus/pci/devices/0000:05:00.1/infiniband/{DEVICE}").mkdir(parents=True, exist_ok=True)

    def run(self, *words: str, stdin: str = "", timeout_s: float = 30) -> Done:
        match words:
            case ("modprobe", "--dry-run", "--quiet", "vmw_pvrdma"):
                return Done(0 if self.module_exists else 1, "", "")
            case ("modprobe", "-r", "vmw_pvrdma"):
                self.commands.append("modprobe -r vmw_pvrdma")
                self.device("DOWN")
                return Done(0, "", "")
            case ("modprobe", "vmw_pvrdma"):
                self.commands.append("modprobe vmw_pvrdma")
                self.loaded += 1
                has_address = bool(self.links["enp5s0"]["addr_info"])
                self.device("ACTIVE" if self.comes_up and has_address else "DOWN")
                return Done(0, "", "")
            case ("rdma", "-j", "resource", "show"):
                found = [{"ifname": DEVICE, "qp": 1, "cm_id": 0, "ctx": int(DEVICE in self.opened)}]
                return Done(0, json.dumps(found), "")
        return super().run(*words, stdin=stdin, timeout_s=timeout_s)


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return Guest(tmp_path)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    node = lab.nodes[0]
    pf = node.pfs[0].model_copy(update={"driver": "vmxnet3", "vfs": 0, "rdma_device": DEVICE})
    return host_document(lab, node.model_copy(update={"pfs": (pf,)}))


def run(verb: str, guest: Guest, document: dict[str, Any]) -> dict[str, Any]:
    return perform(verb, guest, json.dumps(document), b"program")


def test_the_driver_is_loaded_anew_after_the_address_and_the_port_is_active(guest, document):
    failed = run("apply", guest, document)["failed"]
    run("confirm", guest, document)

    assert failed is None
    assert run("probe", guest, document)["fields"] == wanted_fields(document)
    order = [
        guest.commands.index(word) for word in ("address replace 10.10.11.11/24 dev enp5s0", "modprobe vmw_pvrdma")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize("example", ["rdg", "bitfusion"])
def test_what_the_examples_say_of_the_nic_s_driver_stops_no_guest(guest, document, example):
    lab = read_stack_file(ROOT / "examples" / example / f"Pulumi.{example}.yaml")
    workers = [host_document(lab, node) for node in lab.nodes if node.pfs]
    assert workers
    for worker in workers:
        said = {key: worker[key] for key in ("driver", "firmware", "firmware_versions") if key in worker}

        failed = run("apply", guest, {**document, **said})["failed"]

        assert failed is None, "a guest with PVRDMA has no mlx5_core, and needs none"


def test_an_active_port_is_left_alone(guest, document):
    run("apply", guest, document)
    run("confirm", guest, document)

    run("apply", guest, document)

    assert guest.loaded == 1


def test_a_boot_brings_the_port_up_again(guest, document):
    run("apply", guest, document)
    run("confirm", guest, document)
    guest.device("DOWN")

    assert run("boot", guest, document)["failed"] is None
    assert guest.loaded == 2


def test_a_device_in_use_is_not_pulled_away(guest, document):
    guest.opened.add(DEVICE)

    failed = run("apply", guest, document)["failed"]

    assert f"a process has {DEVICE} open" in failed["reason"]
    assert guest.loaded == 0


def test_a_port_that_stays_down_is_reported_with_where_to_look(guest, document):
    guest.comes_up = False

    failed = run("apply", guest, document)["failed"]

    assert failed["step"] == "pvrdma"
    assert "its PVRDMA port is DOWN 30 s after" in failed["reason"]
    assert "Net.PVRDMAVmknic" in failed["hint"]


def test_a_kernel_without_the_module_changes_nothing(guest, document):
    guest.module_exists = False
    (guest.folder / "sys/module/vmw_pvrdma/refcnt").unlink()
    (guest.folder / "sys/module/vmw_pvrdma").rmdir()

    failed = run("apply", guest, document)["failed"]

    assert "no module vmw_pvrdma" in failed["reason"]
    assert guest.links["enp5s0"]["mtu"] == 1500

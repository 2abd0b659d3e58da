"""PVRDMA in a guest, on a small kernel in a folder. It follows the Bitfusion article: nothing was recorded."""

from pathlib import Path
from typing import Any

import pytest

from components.hosts.document import host_document
from components.hosts.program.host import Host
from components.hosts.records import target_fields
from stacks.lab import Lab
from stacks.read import read_stack_file
from tests.components.hosts.host_runs import run
from tests.components.hosts.pvrdma_guest import DEVICE, PvrdmaGuest, pvrdma_document
from tests.conftest import ROOT
from tests.messages import states


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PvrdmaGuest:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    return PvrdmaGuest(tmp_path)


@pytest.fixture
def document(lab: Lab) -> dict[str, Any]:
    return pvrdma_document(lab)


@pytest.mark.row("C 292-298")
def test_the_driver_is_loaded_again_after_the_address_and_the_port_is_active(guest, document):
    failed = run("apply", guest, document)["failed"]
    run("confirm", guest, document)

    assert failed is None
    assert run("probe", guest, document)["fields"] == target_fields(document)
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


@pytest.mark.row("C 275-285", "C 303-305")
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


def test_a_device_whose_users_cannot_be_listed_is_not_pulled_away(guest, document, monkeypatch):
    monkeypatch.setattr(Host, "opened_devices", lambda _host: None)

    failed = run("apply", guest, document)["failed"]

    assert failed["step"] == "pvrdma"
    assert states(failed["reason"], DEVICE)
    assert "rdma resource show" in failed["hint"]
    assert guest.loaded == 0


@pytest.mark.row("C 275-285", "C 309-317")
def test_a_port_that_stays_down_is_reported_with_where_to_look(guest, document):
    guest.comes_up = False

    failed = run("apply", guest, document)["failed"]

    assert failed["step"] == "pvrdma"
    assert states(failed["reason"], "PVRDMA", "DOWN", "30 s")
    assert "Net.PVRDMAVmknic" in failed["hint"]


def test_a_kernel_without_the_module_changes_nothing(guest, document):
    guest.module_exists = False
    (guest.folder / "sys/module/vmw_pvrdma/refcnt").unlink()
    (guest.folder / "sys/module/vmw_pvrdma").rmdir()

    failed = run("apply", guest, document)["failed"]

    assert "no module vmw_pvrdma" in failed["reason"]
    assert guest.links["enp5s0"]["mtu"] == 1500
